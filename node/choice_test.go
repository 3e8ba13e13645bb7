package node_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/numa"
	"github.com/lnetd/lnetd/selection"
)

// NIDs of the choices below: NIs of the node, NIDs of a peer on both nets and behind
// gateways, and the gateways.
const (
	choiceA1, choiceA2, choiceT1 = "10.0.0.1@tcp", "10.0.0.2@tcp", "10.2.0.1@tcp1"
	choiceB1, choiceB2, choiceBT = "10.0.0.11@tcp", "10.0.0.12@tcp", "10.2.0.11@tcp1"
	choiceR1                     = "10.5.0.21@o2ib"
	choiceG1, choiceG2           = "10.0.0.31@tcp", "10.0.0.32@tcp"
)

// chooser is a running node whose choices are tested. Messages that it sends stay in its
// driver.
type chooser struct {
	*fabric
	n   *node.Node
	nis map[string]*port
}

func newChooser(t *testing.T, nis ...string) *chooser {
	t.Helper()
	c := &chooser{fabric: newFabric(), n: newNode(t, node.Config{}), nis: map[string]*port{}}
	for _, nid := range nis {
		c.nis[nid] = c.addNI(t, c.n, nid)
	}
	return c
}

// peer configures a peer with these NIDs.
func (c *chooser) peer(t *testing.T, nids ...string) {
	t.Helper()
	var all []lnet.NID
	for _, s := range nids {
		all = append(all, parseNID(t, s))
	}
	configure(t, c.n, all[0], all[1:]...)
}

// gateways adds routes to o2ib through both gateways, with the given options, where the
// peer is.
func (c *chooser) gateways(t *testing.T, first, second node.RouteOptions) {
	t.Helper()
	c.peer(t, choiceR1)
	for k, o := range []node.RouteOptions{first, second} {
		if err := c.n.Admin().AddRoute(t.Context(), parseNet(t, "o2ib"), parseNID(t, []string{choiceG1, choiceG2}[k]), o); err != nil {
			t.Fatal(err)
		}
	}
}

// rule appends a policy.
func (c *chooser) rule(t *testing.T, src, dst, rte string) {
	t.Helper()
	err := c.n.Admin().ChangePolicies(t.Context(), func(p *selection.Policies) error {
		return p.Add(ruleOf(t, src, dst, rte), selection.Append)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func ruleOf(t *testing.T, src, dst, rte string) (r selection.Rule) {
	t.Helper()
	for d, s := range map[*lnet.Pattern]string{&r.Src: src, &r.Dst: dst, &r.Rte: rte} {
		if err := d.UnmarshalText([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// send sends count messages of the given length from an NI, or from any NI if from is
// empty. They keep their credits.
func (c *chooser) send(t *testing.T, count, length int, from, to string) {
	t.Helper()
	o := node.PutOptions{Portal: 1}
	if from != "" {
		o.Source = parseNID(t, from)
	}
	for range count {
		put(t, c.n, bind(t, c.n, portals.MD{Bytes: make([]byte, length), Threshold: 1, Unlink: true}), process(t, to), o)
	}
}

// path returns the current choice for a message: the NI, the destination NID, and the
// gateway if one is used.
func (c *chooser) path(t *testing.T, to string) string {
	t.Helper()
	e := c.n.Admin().Explain(parseNID(t, to), node.ExplainOptions{Portal: 1})
	if e.Err != nil {
		return e.Err.Error()
	}
	d := &e.Decision
	s := fmt.Sprintf("%s %s", d.NI.NID, d.Final.NID)
	if d.Routed() {
		s += " " + d.Next.NID.String()
	}
	return s
}

// A choice depends on the state of the NIs, peers, routes and policies of a running node.
// Without the change in each row, the first of all candidates would be chosen.
//
// selection 5.1 (1), 5.1 (3), 5.2 (1)-(3), 5.2 (6), 5.4 (1)-(4), 6.1, 6.4 (2)
// selection 5.5 compare (1)-(6), 6.4 (4), 6.5 events (1)
// selection 8.1 (3)-(4), 8.1 (12)-(14), 8.4 (46)-(47), 8.4 (50)-(53), 8.6 (73)-(74), 8.6 (80)
func TestChoicesFollowTheNode(t *testing.T) {
	rails := func(more func(t *testing.T, c *chooser)) func(t *testing.T, c *chooser) {
		return func(t *testing.T, c *chooser) {
			c.peer(t, choiceB1, choiceB2)
			more(t, c)
		}
	}
	routes := func(first, second node.RouteOptions, more func(t *testing.T, c *chooser)) func(t *testing.T, c *chooser) {
		return func(t *testing.T, c *chooser) {
			c.gateways(t, first, second)
			more(t, c)
		}
	}
	// health lowers the health of an NI or a peer NI.
	health := func(set func(a *node.Admin, nid lnet.NID, v int) error, nid string) func(t *testing.T, c *chooser) {
		return func(t *testing.T, c *chooser) {
			if err := set(c.n.Admin(), parseNID(t, nid), 900); err != nil {
				t.Fatal(err)
			}
		}
	}
	rule := func(src, dst, rte string) func(t *testing.T, c *chooser) {
		return func(t *testing.T, c *chooser) { c.rule(t, src, dst, rte) }
	}
	nothing := func(*testing.T, *chooser) {}
	ni, peerNI := (*node.Admin).SetNIHealth, (*node.Admin).SetPeerHealth
	var same, worse node.RouteOptions
	worse.Priority = 1
	one, tcp, both := []string{choiceA1}, []string{choiceA1, choiceA2}, []string{choiceA1, choiceT1}
	bothNets := func(more func(t *testing.T, c *chooser)) func(t *testing.T, c *chooser) {
		return func(t *testing.T, c *chooser) {
			c.peer(t, choiceB1, choiceBT)
			more(t, c)
		}
	}
	for _, row := range []struct {
		name  string
		nis   []string
		given func(t *testing.T, c *chooser)
		to    string
		want  string
	}{
		{"nothing", tcp, rails(nothing), choiceB1, choiceA1 + " " + choiceB1},
		{"an NI's link went down", tcp, rails(func(_ *testing.T, c *chooser) { c.nis[choiceA1].setLink(lnd.LinkDown) }), choiceB1, choiceA2 + " " + choiceB1},
		{"an NI is not well", tcp, rails(health(ni, choiceA1)), choiceB1, choiceA2 + " " + choiceB1},
		{"an NI has priority", tcp, rails(rule(choiceA2, "", "")), choiceB1, choiceA2 + " " + choiceB1},
		{"credits of NIs and peer NIs", tcp, rails(func(t *testing.T, c *chooser) {
			c.send(t, 3, 0, choiceA1, choiceB1)
			c.send(t, 1, 0, choiceA2, choiceB2) // which would be the last in turn
		}), choiceB1, choiceA2 + " " + choiceB2},
		{"a peer NI is not well", tcp, rails(health(peerNI, choiceB1)), choiceB1, choiceA1 + " " + choiceB2},
		{"a peer NI has priority", tcp, rails(rule("", choiceB2, "")), choiceB1, choiceA1 + " " + choiceB2},
		{"a peer NI prefers the NI", tcp, rails(rule(choiceA1, choiceB2, "")), choiceB1, choiceA1 + " " + choiceB2},
		{"nothing, on two nets", both, bothNets(nothing), choiceB1, choiceA1 + " " + choiceB1},
		{"the peer net is not well", both, bothNets(health(peerNI, choiceB1)), choiceB1, choiceT1 + " " + choiceBT},
		{"the net here is not well", both, bothNets(health(ni, choiceA1)), choiceB1, choiceT1 + " " + choiceBT},
		{"priority of a route", one, routes(worse, same, nothing), choiceR1, choiceA1 + " " + choiceR1 + " " + choiceG2},
		{"priority of the other route", one, routes(same, worse, nothing), choiceR1, choiceA1 + " " + choiceR1 + " " + choiceG1},
		{"hops of a route", one, routes(node.RouteOptions{Hops: 2}, same, nothing), choiceR1, choiceA1 + " " + choiceR1 + " " + choiceG2},
		{"hops of the other route", one, routes(same, node.RouteOptions{Hops: 2}, nothing), choiceR1, choiceA1 + " " + choiceR1 + " " + choiceG1},
		{"a preferred router", one, routes(worse, same, rule("", choiceR1, choiceG1)), choiceR1, choiceA1 + " " + choiceR1 + " " + choiceG1},
		{"a gateway is not well", one, routes(same, same, health(peerNI, choiceG1)), choiceR1, choiceA1 + " " + choiceR1 + " " + choiceG2},
		{"the other gateway is not well", one, routes(same, same, health(peerNI, choiceG2)), choiceR1, choiceA1 + " " + choiceR1 + " " + choiceG1},
		{"bytes before a gateway's credits", one, routes(same, same, func(t *testing.T, c *chooser) {
			c.send(t, 1, 5000, "", choiceG1)
			c.send(t, 2, 0, "", choiceG2)
		}), choiceR1, choiceA1 + " " + choiceR1 + " " + choiceG2},
		{"bytes before the other gateway's credits", one, routes(same, same, func(t *testing.T, c *chooser) {
			c.send(t, 2, 0, "", choiceG1)
			c.send(t, 1, 5000, "", choiceG2)
		}), choiceR1, choiceA1 + " " + choiceR1 + " " + choiceG1},
		{"a gateway's credits", one, routes(same, same, func(t *testing.T, c *chooser) {
			c.send(t, 2, 0, "", choiceG1)
			c.send(t, 1, 72, "", choiceG2)
		}), choiceR1, choiceA1 + " " + choiceR1 + " " + choiceG2},
		{"the other gateway's credits", one, routes(same, same, func(t *testing.T, c *chooser) {
			c.send(t, 1, 72, "", choiceG1)
			c.send(t, 2, 0, "", choiceG2)
		}), choiceR1, choiceA1 + " " + choiceR1 + " " + choiceG1},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChooser(t, row.nis...)
				c.hold(true)
				defer c.hold(false)
				row.given(t, c)
				synctest.Wait() // new gateways are checked
				if got := c.path(t, row.to); got != row.want {
					t.Errorf("%s, want %s", got, row.want)
				}
			})
		})
	}
}

// An NI whose link is down from the start is treated like one whose link went down later.
//
// selection 5.2 (1), 8.1 (6)
func TestNIThatBeginsWithoutLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChooser(t)
		down := &driver{fabric: c.fabric, typ: lnet.TypeTCP, onOpen: func(p *port) { p.link = lnd.LinkDown }}
		first := lnd.Config{Net: parseNet(t, "tcp"), NID: parseNID(t, choiceA1), Device: "eth0"}
		if _, err := c.n.AddNI(context.Background(), down, first); err != nil {
			t.Fatal(err)
		}
		c.addNI(t, c.n, choiceA2)
		c.peer(t, choiceB1)
		if err := c.n.Admin().SetNIHealth(parseNID(t, choiceA2), 100); err != nil {
			t.Fatal(err)
		}
		if got := c.path(t, choiceB1); got != choiceA2+" "+choiceB1 {
			t.Error(got)
		}
	})
}

// Pings may use any NI even if another NI serves a peer that is known by one NID, and
// they do not change that NI.
//
// selection 4.3 local (3), 8.3 (39)
func TestPingsDoNotMindWhoServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChooser(t, choiceA1, choiceA2)
		newActor(t, c.fabric, choiceB1)
		var from []string
		c.show(func(h lnet.Header, _ []byte) {
			if h.Dest == parseNID(t, choiceB1) && h.Type != lnet.MsgAck {
				from = append(from, h.Type.String()+" "+h.Src.String())
			}
		})
		c.send(t, 1, 0, "", choiceB1)
		for range 2 {
			if _, err := c.n.Ping(t.Context(), process(t, choiceB1), node.PingOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		c.send(t, 2, 0, "", choiceB1)
		synctest.Wait()
		put, get := lnet.MsgPut.String()+" ", lnet.MsgGet.String()+" "
		want := []string{put + choiceA1, get + choiceA2, get + choiceA1, put + choiceA1, put + choiceA1}
		if !slices.Equal(from, want) {
			t.Errorf("%v, want %v", from, want)
		}
	})
}

// The router checker pings each net of a gateway over that net, whatever the policies for
// the net are.
//
// selection 4.5 (4)
func TestCheckerAsksOverTheNetThatItChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &chooser{fabric: newFabric(), n: newNode(t, node.Config{Parameters: new(node.DefaultParameters())})}
		c.addNI(t, c.n, choiceA1)
		c.addNI(t, c.n, choiceT1)
		gateway := newActor(t, c.fabric, choiceG1, "10.2.0.31@tcp1", "10.5.0.31@o2ib")
		c.rule(t, "", "tcp", "")
		addRoute(t, c.n, "o2ib", choiceG1, node.RouteOptions{})
		gateway.take()
		time.Sleep(10 * time.Minute)
		over := map[string]int{}
		for _, p := range pings(gateway.take()) {
			over[p.over.Net().String()]++
		}
		if over["tcp"] < 9 || over["tcp1"] < 9 {
			t.Errorf("pings over each net: %v", over)
		}
	})
}

// An answer that failed is resent between the same NIDs.
//
// selection 3 (3), 4.6, 4.7
func TestAnswerGoesAgainTheSameWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 2)
		sink(t, r.a, portals.OpPut)
		tries := 0
		r.fails(func(tx *lnd.Tx) error {
			if tries++; tries < 3 {
				return as(lnd.StatusLocalTimeout)(tx)
			}
			return nil
		})
		h := bind(t, r.b, portals.MD{Bytes: make([]byte, 1), Threshold: 2, Unlink: true})
		put(t, r.b, h, lnet.ProcessID{NID: r.na[1], PID: lnet.PIDLustre}, node.PutOptions{Portal: 1, Source: r.nb[1], Ack: true})
		left := r.took()
		if len(left) != 3 {
			t.Fatalf("%d transmissions, want 3", len(left))
		}
		for _, d := range left {
			if d.typ != lnet.MsgAck || d.from != r.na[1] || d.to != r.nb[1] {
				t.Errorf("%s from %s to %s, want from %s to %s", d.typ, d.from, d.to, r.na[1], r.nb[1])
			}
		}
	})
}

// Policies apply to unknown NIDs from the first message on, and Explain considers them
// too.
//
// selection 6.5 events (3)-(4), 6.4 (4)
func TestPoliciesHoldForStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChooser(t, choiceA1, choiceA2)
		newActor(t, c.fabric, choiceB1)
		var from []string
		c.show(func(h lnet.Header, _ []byte) {
			if h.Type == lnet.MsgPut {
				from = append(from, h.Src.String())
			}
		})
		c.rule(t, choiceA2, "tcp", "")
		if got := c.path(t, choiceB1); got != choiceA2+" "+choiceB1 {
			t.Errorf("explained: %s", got)
		}
		c.send(t, 2, 0, "", choiceB1)
		synctest.Wait()
		if want := []string{choiceA2, choiceA2}; !slices.Equal(from, want) {
			t.Errorf("from %v, want %v", from, want)
		}
	})
}

// A router applies its policies to destinations behind other routers, for which it keeps
// no state.
//
// selection 6.4 (4), 8.6 (80)
func TestRouterPrefersTheRouterThatAPolicyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := static()
		p.RouterCheckInterval = 0
		r := newHandedWith(t, p, node.Buffers{}, lnd.Tunables{})
		const first, second, far = "10.77.1.7@tcp1", "10.77.1.8@tcp1", "10.77.9.9@tcp9"
		addRoute(t, r.node, "tcp9", first, node.RouteOptions{})
		addRoute(t, r.node, "tcp9", second, node.RouteOptions{Priority: 1})
		send := func() string {
			t.Helper()
			r.near.message(t, lnet.MsgPut, asker, far, 100)
			if r.far.waiting() != 1 {
				t.Fatal("not sent")
			}
			to := r.far.out[0].To.NID.String()
			r.far.finish(1, nil)
			return to
		}
		if to := send(); to != first {
			t.Errorf("without a policy: to %s, want %s", to, first)
		}
		err := r.node.Admin().ChangePolicies(t.Context(), func(p *selection.Policies) error {
			return p.Add(ruleOf(t, "", far, second), selection.Append)
		})
		if err != nil {
			t.Fatal(err)
		}
		if to := send(); to != second {
			t.Errorf("with a policy: to %s, want %s", to, second)
		}
		r.sound(t, "afterwards")
	})
}

// twoNodes is a machine with two NUMA nodes. All processors belong to node 0. The devices
// are near and far.
func twoNodes(t *testing.T) *numa.Machine {
	t.Helper()
	sysfs := fstest.MapFS{}
	for path, text := range map[string]string{
		"devices/system/node/online":         "0-1\n",
		"devices/system/node/node0/cpulist":  "0-1023\n",
		"devices/system/node/node0/distance": "10 21\n",
		"devices/system/node/node1/cpulist":  "1024-1025\n",
		"devices/system/node/node1/distance": "21 10\n",
		"class/net/far/device/numa_node":     "1\n",
		"class/net/near/device/numa_node":    "0\n",
	} {
		sysfs[path] = &fstest.MapFile{Data: []byte(text)}
	}
	m, err := numa.Read(sysfs)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// selection 5.2 (5), 5.3 (1), 5.3 (3)
func TestNearNIs(t *testing.T) {
	m := twoNodes(t)
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		p := node.DefaultParameters()
		a := newNode(t, node.Config{Parameters: &p, NUMA: m})
		for _, c := range []lnd.Config{{NID: parseNID(t, a0), Device: "far"}, {NID: parseNID(t, "10.77.0.21@tcp"), Device: "near"}} {
			f.addNIWith(t, a, c)
		}
		if nis := a.NIs(); nis[1].DeviceCPT != 1 || nis[2].DeviceCPT != 0 {
			t.Fatalf("devices are at %d and %d", nis[1].DeviceCPT, nis[2].DeviceCPT)
		}
		b := f.discovering(t, b0)
		inbox(t, b)
		sent := func() uint64 {
			if err := say(t, a, b0); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			before := a.NIs()[2].Traffic.Sent.Put
			for range 10 {
				if err := say(t, a, b0); err != nil {
					t.Fatal(err)
				}
			}
			return a.NIs()[2].Traffic.Sent.Put - before
		}
		if n := sent(); n != 10 {
			t.Errorf("%d of 10 by the near NI", n)
		}
		p.NUMARange = 21
		if err := a.Admin().SetParameters(p); err != nil {
			t.Fatal(err)
		}
		if n := sent(); n != 5 {
			t.Errorf("%d of 10 by the near NI, though both are within the range", n)
		}
	})
}

// Given registered memory on the other NUMA node, then the NI there sends it and receives
// into it, whatever the processor is. The location of the pages is determined at
// registration or, if they are not used yet, within seconds after they are. For memory
// that is not registered, or whose location is unknown, the location of the sender is
// used.
//
// selection 5.3 (1)
// decisions 202
func TestNIsNearTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const unused, other = -2, 1
		m := twoNodes(t)
		var pages atomic.Int64 // the node that all pages are on; the monitor looks, too
		pages.Store(other)
		m.Pages = func(addrs []uintptr) []int { return slices.Repeat([]int{int(pages.Load())}, len(addrs)) }
		f := newFabric()
		p := node.DefaultParameters()
		a := newNode(t, node.Config{Parameters: &p, NUMA: m})
		for _, c := range []lnd.Config{{NID: parseNID(t, a0), Device: "far"}, {NID: parseNID(t, "10.77.0.21@tcp"), Device: "near"}} {
			f.addNIWith(t, a, c)
		}
		b := f.discovering(t, b0)
		attach(t, b, portals.Entry{Portal: 4, Match: lnet.ProcessID{NID: lnet.AnyNID, PID: lnet.PIDAny}},
			portals.MD{Bytes: make([]byte, 4096), Options: portals.OpPut | portals.OpGet | portals.ManageRemote, Threshold: portals.Unlimited})
		if err := say(t, a, b0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the push that follows the discovery is a PUT too
		register := func() *memory.Region {
			t.Helper()
			r, err := a.Register(t.Context(), make([]byte, 4096))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		want := func(what string, v memory.Vector, far bool) {
			t.Helper()
			h := bind(t, a, portals.MD{Memory: v, Threshold: portals.Unlimited})
			before := a.NIs()
			put(t, a, h, process(t, b0), node.PutOptions{Portal: 4, Ack: true})
			if err := a.Get(h, process(t, b0), node.GetOptions{Portal: 4}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			after := a.NIs()
			for name, n := range map[string]uint64{
				"PUT": after[1].Traffic.Sent.Put - before[1].Traffic.Sent.Put, "GET": after[1].Traffic.Sent.Get - before[1].Traffic.Sent.Get,
			} {
				if (n == 1) != far {
					t.Errorf("%s: %s: %d by the far NI", what, name, n)
				}
			}
		}
		r := register()
		want("on the other node", r.Slice(0, 64), true)
		want("its end", r.Slice(4000, 96), true)
		want("behind memory that is not registered", memory.Vector{Segments: []memory.Segment{{Bytes: []byte("x")}, r.Segment(0, 63)}, Length: 64}, false)
		want("before such memory", memory.Vector{Segments: []memory.Segment{r.Segment(0, 63), {Bytes: []byte("x")}}, Length: 64}, true)
		want("not registered", memory.Of(make([]byte, 64)), false)
		pages.Store(unused)
		r = register()
		want("not used", r.Slice(0, 64), false)
		pages.Store(other)
		time.Sleep(3 * time.Second) // in the bubble
		want("used by now", r.Slice(0, 64), true)
		pages.Store(7)
		want("on a node without processors", register().Slice(0, 64), false)
	})
}
