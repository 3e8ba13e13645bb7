package node_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// lnet-core 7.1 bounds, 12.5
// sanity-lnet 5 (301)
// lnetctl 4.2 (2)-(3)
func TestAddNIIsChecked(t *testing.T) {
	f := newFabric()
	few := static()
	few.InterfacesMax = 16
	n := newNode(t, node.Config{Parameters: &few})
	tcp, o2ib := parseNID(t, "10.0.0.1@tcp"), parseNID(t, "10.0.0.1@o2ib")
	f.addNIWith(t, n, lnd.Config{NID: tcp, Device: "eth0"})
	for _, c := range []struct {
		name string
		typ  lnet.NetType
		c    lnd.Config
		want error
	}{
		{"same NID", lnet.TypeTCP, lnd.Config{Net: tcp.Net(), NID: tcp, Device: "eth1"}, node.ErrExists},
		{"same device", lnet.TypeTCP, lnd.Config{Net: tcp.Net(), NID: parseNID(t, "10.0.0.2@tcp"), Device: "eth0"}, node.ErrExists},
		{"loopback", lnet.TypeLO, lnd.Config{Net: lnet.LoNet, NID: lnet.LoopbackNID}, node.ErrInvalid},
		{"another driver's net", lnet.TypeTCP, lnd.Config{Net: o2ib.Net(), NID: o2ib}, node.ErrInvalid},
		{"NID of another net", lnet.TypeTCP, lnd.Config{Net: tcp.Net(), NID: o2ib}, node.ErrInvalid},
		{"driver fails", lnet.TypeTCP, lnd.Config{Net: tcp.Net()}, errNoDevice},
	} {
		if _, err := n.AddNI(context.Background(), &driver{fabric: f, typ: c.typ}, c.c); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	// The same device may be used on another net.
	f.addNIWith(t, n, lnd.Config{NID: parseNID(t, "10.0.0.1@tcp1"), Device: "eth0"})
	for k := range 13 {
		f.addNI(t, n, fmt.Sprintf("10.0.1.%d@tcp", k+1))
	}
	over := lnd.Config{Net: tcp.Net(), NID: parseNID(t, "10.0.2.1@tcp")}
	if _, err := n.AddNI(context.Background(), &driver{fabric: f, typ: lnet.TypeTCP}, over); !errors.Is(err, node.ErrTooMany) {
		t.Errorf("the 16th: %v, want ErrTooMany", err)
	}
	if got := n.PingInfo().Seq; got != 16 {
		t.Errorf("sequence number %d, want 16", got)
	}
	for nid, want := range map[lnet.NID]error{over.NID: node.ErrNotFound, lnet.LoopbackNID: node.ErrInvalid} {
		if err := n.RemoveNI(context.Background(), nid); !errors.Is(err, want) {
			t.Errorf("remove %s: %v, want %v", nid, err, want)
		}
	}
}

// Given a policy for an NI that does not exist yet, when the NI is added, then the policy
// applies to it.
//
// lnet-core 12.5
func TestPolicyIsOlderThanItsNI(t *testing.T) {
	n := newNode(t, node.Config{})
	src, err := lnet.ParsePattern("10.0.0.1@tcp")
	if err != nil {
		t.Fatal(err)
	}
	err = n.Admin().ChangePolicies(t.Context(), func(p *selection.Policies) error {
		return p.Add(selection.Rule{Src: src}, selection.Append)
	})
	if err != nil {
		t.Fatal(err)
	}
	f := newFabric()
	for nid, want := range map[string]uint32{"10.0.0.1@tcp": 0, "10.0.0.2@tcp": selection.NoPriority} {
		f.addNI(t, n, nid)
		for _, i := range n.NIs() {
			if i.NID == parseNID(t, nid) && i.Policy.NIDPriority != want {
				t.Errorf("priority of %s is %d, want %d", nid, i.Policy.NIDPriority, want)
			}
		}
	}
}

// lnet-core 7.1 defaults, 7.1 tunables, 12.1
// sanity-lnet 5 (108)
// lnetctl 4.2 (2)
func TestNIs(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{})
	f.addNIWith(t, n, lnd.Config{
		NID: parseNID(t, "10.0.0.1@tcp1"), Device: "eth1", Tunables: lnd.Tunables{PeerCredits: 4, Credits: 7}, Options: lnd.Values{"mine": 1}})
	f.addNI(t, n, "10.0.0.1@tcp")
	p := f.addNIWith(t, n, lnd.Config{NID: parseNID(t, "10.0.0.2@tcp1"), Tunables: lnd.Tunables{PeerCredits: 1, Credits: 1}})
	p.setLink(lnd.LinkDown)
	type row struct {
		NID, Device string
		Status      lnet.NIStatus
		Tunables    lnd.Tunables
		Options     lnd.Values
		Credits     node.CreditInfo
		Fatal       bool
		Health      int
	}
	first := lnd.Tunables{PeerTimeout: 180 * time.Second, PeerCredits: 4, Credits: 7}
	second := lnd.Tunables{PeerTimeout: 180 * time.Second, PeerCredits: 8, Credits: 256}
	want := []row{
		{NID: "0@lo", Status: lnet.StatusUp, Health: 1000},
		{NID: "10.0.0.1@tcp1", Device: "eth1", Status: lnet.StatusUp, Tunables: first, Options: lnd.Values{"mine": 1}, Credits: node.CreditInfo{Max: 7, Available: 7, Min: 7}, Health: 1000},
		{NID: "10.0.0.2@tcp1", Status: lnet.StatusDown, Tunables: first, Credits: node.CreditInfo{Max: 7, Available: 7, Min: 7}, Fatal: true, Health: 1000},
		{NID: "10.0.0.1@tcp", Device: "dev-10.0.0.1@tcp", Status: lnet.StatusUp, Tunables: second, Credits: node.CreditInfo{Max: 256, Available: 256, Min: 256}, Health: 1000},
	}
	var got []row
	for _, i := range n.NIs() {
		got = append(got, row{i.NID.String(), i.Device, i.Status, i.Tunables, i.Options, i.Credits, i.Health.Fatal, i.Health.Value})
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("NIs (-want +got):\n%s", d)
	}
}

// A peer that is known by one NID is served by the NI that served it first. A configured
// one is served by an NI whose link is up. If a source is given, it is used.
//
// lnet-core 6.2 self, 6.3 (1)
// discovery 2.5 (1)
// selection 3 (2), 4.1 (2), 8.1 (7), 8.3 (35)
func TestChoiceOfNI(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{})
	first := f.addNI(t, n, "10.0.0.1@tcp")
	second := f.addNI(t, n, "10.0.0.2@tcp")
	f.addNI(t, n, "10.0.0.1@tcp1")
	peer := newNode(t, node.Config{})
	f.addNI(t, peer, "10.0.0.9@tcp")
	f.addNI(t, peer, "10.0.0.9@tcp1")
	var r recorder
	attach(t, peer, portals.Entry{Portal: 1}, portals.MD{Threshold: portals.Unlimited, Options: portals.OpPut, Handler: &r})
	h := bind(t, n, portals.MD{Threshold: portals.Unlimited})
	check := func(step, to, source, want string) {
		t.Helper()
		o := node.PutOptions{Portal: 1}
		if source != "" {
			o.Source = parseNID(t, source)
		}
		put(t, n, h, process(t, to), o)
		e := r.take()
		if len(e) != 1 || e[0].Source.NID != parseNID(t, want) {
			t.Errorf("%s: %+v, want from %s", step, e, want)
		}
	}
	check("the first", "10.0.0.9@tcp", "", "10.0.0.1@tcp")
	check("other net", "10.0.0.9@tcp1", "", "10.0.0.1@tcp1")
	check("given", "10.0.0.9@tcp", "10.0.0.2@tcp", "10.0.0.2@tcp")
	first.setLink(lnd.LinkDown)
	check("first down, but it has served the peer", "10.0.0.9@tcp", "", "10.0.0.1@tcp")
	configure(t, n, parseNID(t, "10.0.0.9@tcp"))
	check("first down", "10.0.0.9@tcp", "", "10.0.0.2@tcp")
	check("given though down", "10.0.0.9@tcp", "10.0.0.1@tcp", "10.0.0.1@tcp")
	second.setLink(lnd.LinkDown)
	check("all down, by turns, of which that was one", "10.0.0.9@tcp", "", "10.0.0.2@tcp")
	check("all down, by turns", "10.0.0.9@tcp", "", "10.0.0.1@tcp")
	check("all down, by turns", "10.0.0.9@tcp", "", "10.0.0.2@tcp")
}

// Upcalls may come before Open has returned.
func TestEarlyUpcalls(t *testing.T) {
	f := newFabric()
	n := newNode(t, node.Config{})
	nid, from := parseNID(t, "10.0.0.1@tcp"), parseNID(t, "10.0.0.2@tcp")
	var r recorder
	attach(t, n, portals.Entry{Portal: 1}, portals.MD{Threshold: portals.Unlimited, Options: portals.OpPut, Handler: &r})
	h := lnet.Header{Dest: nid, Src: from, DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre, Type: lnet.MsgPut, Handle: lnet.NoHandle, Portal: 1}
	const lazy = 5 // portal
	if err := n.SetLazy(lazy); err != nil {
		t.Fatal(err)
	}
	var lost frame // its connection is lost early too
	d := &driver{fabric: f, typ: lnet.TypeTCP, onOpen: func(p *port) {
		p.setLink(lnd.LinkDown)
		if err := p.inject(from, h, nil); err != nil {
			t.Error(err)
		}
		bad := h
		bad.Type = lnet.MsgHello
		if err := p.inject(from, bad, nil); err != nil {
			t.Error(err)
		}
		lost.fabric, lost.to, lost.inCall = f, p, true
		lost.rx = lnd.Rx{Driver: &lost, From: lnet.ProcessID{NID: from, PID: lnet.PIDLustre}, Header: h}
		lost.rx.Header.Portal = lazy
		if err := p.upper.Arrived(&lost.rx); err != nil {
			t.Error(err)
		}
		p.upper.Withdrawn(&lost.rx)
		if e := r.take(); e != nil {
			t.Errorf("events before the interface is known: %v", e)
		}
	}}
	info, err := n.AddNI(context.Background(), d, lnd.Config{Net: nid.Net(), NID: nid})
	if err != nil {
		t.Fatal(err)
	}
	if info.Status != lnet.StatusDown || n.PingInfo().NIs[0].Status != lnet.StatusDown || n.PingInfo().Seq != 2 {
		t.Errorf("status %v, ping info %+v", info.Status, n.PingInfo())
	}
	if e := r.take(); len(e) != 1 {
		t.Errorf("events %v", e)
	}
	if c := n.Admin().Counters(); c.Committed != 0 || !lost.placed {
		t.Errorf("%d messages wait, the lost one dropped: %v", c.Committed, lost.placed)
	}
	if d := cmp.Diff([]lnet.NID{from}, f.ports[nid].cut, sameNID); d != "" {
		t.Errorf("disconnected (-want +got):\n%s", d)
	}
}

// The table of lnet-wire 4.7.
//
// lnet-core 4.3 (1), 5.1 (1), 5.2 (1), 5.2 (3a), 5.2 (3b), 5.2 (3d)
// lnet-wire 4.7 (1)-(6)
func TestArrivalsAreValidated(t *testing.T) {
	p := newPair(t)
	p.fabric.addNI(t, p.b, "10.78.0.12@tcp1")
	p.fabric.addNI(t, p.b, "10.77.0.13@tcp")
	good := lnet.Header{
		Dest: p.idb.NID, Src: p.ida.NID, DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre,
		Type: lnet.MsgPut, Handle: lnet.NoHandle, Portal: 9,
	}
	for _, c := range []struct {
		name     string
		change   func(h *lnet.Header)
		protocol bool
	}{
		{"nobody takes it", func(h *lnet.Header) {}, false},
		{"portal 64", func(h *lnet.Header) { h.Portal = 64 }, false},
		{"largest PUT", func(h *lnet.Header) { h.PayloadLength = lnet.MTU }, false},
		{"PUT too large", func(h *lnet.Header) { h.PayloadLength = lnet.MTU + 1 }, true},
		{"REPLY too large", func(h *lnet.Header) { h.Type, h.PayloadLength = lnet.MsgReply, lnet.MTU+1 }, true},
		{"GET with payload", func(h *lnet.Header) { h.Type, h.PayloadLength = lnet.MsgGet, 1 }, true},
		{"ACK with payload", func(h *lnet.Header) { h.Type, h.PayloadLength = lnet.MsgAck, 1 }, true},
		{"GET of too much", func(h *lnet.Header) { h.Type, h.Length = lnet.MsgGet, lnet.MTU+1 }, false},
		{"HELLO", func(h *lnet.Header) { h.Type = lnet.MsgHello }, true},
		{"type 5", func(h *lnet.Header) { h.Type = 5 }, true},
		{"for a neighbour", func(h *lnet.Header) { h.Dest = parseNID(t, "10.77.0.99@tcp") }, true},
		{"for another NI of ours", func(h *lnet.Header) { h.Dest = parseNID(t, "10.78.0.12@tcp1") }, false},
		{"for another NI of ours on the same net", func(h *lnet.Header) { h.Dest = parseNID(t, "10.77.0.13@tcp") }, false},
		{"for 0@lo", func(h *lnet.Header) { h.Dest = lnet.LoopbackNID }, true},
		{"for another net", func(h *lnet.Header) { h.Dest = parseNID(t, "10.0.0.1@o2ib") }, false},
	} {
		before := p.b.Admin().Counters().Dropped
		h := good
		c.change(&h)
		err := p.pb.inject(p.ida.NID, h, nil)
		dropped := p.b.Admin().Counters().Dropped - before
		if c.protocol {
			var pe *node.ProtocolError
			if !errors.As(err, &pe) || !errors.Is(err, lnd.ErrProtocol) || pe.NI != p.idb.NID || pe.From.NID != p.ida.NID || dropped != 0 {
				t.Errorf("%s: %v, %d dropped; want a protocol error", c.name, err, dropped)
			}
		} else if err != nil || dropped != 1 {
			t.Errorf("%s: %v, %d dropped; want it dropped", c.name, err, dropped)
		}
	}
}

// Given two routers to a net, when a request comes through one, then the answers go back
// through it even though the route through the other one is better. If it is no longer a
// gateway, they take a route that is up. If all routes are down, they are not sent.
//
// lnet-core 5.4 (3), 6.3 (2)
// selection 4.6, 5.5 (1), 8.3 (42)
func TestAnswersGoBackThroughTheRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		router, other := parseNID(t, "10.77.0.1@tcp"), parseNID(t, "10.77.0.2@tcp")
		far := parseNID(t, "10.5.0.1@o2ib")
		type answer struct{ via, to lnet.ProcessID }
		var answers []answer
		p.fabric.fail = func(tx *lnd.Tx) error {
			if h := &tx.Header; h.Type == lnet.MsgAck || h.Type == lnet.MsgReply {
				answers = append(answers, answer{tx.To, lnet.ProcessID{NID: h.Dest, PID: h.DestPID}})
				return nil
			}
			return fault(lnd.StatusRemoteError, tx.To.NID, lnd.ErrUnreachable) // no router answers pings
		}
		sink(t, p.b, portals.OpPut|portals.OpGet)
		check := func(step string, via ...lnet.NID) {
			t.Helper()
			answers = nil
			h := lnet.Header{Dest: p.idb.NID, Src: far, DestPID: lnet.PIDLustre, SrcPID: 77, Handle: lnet.Handle{Interface: 1, Object: 1}, Portal: 1}
			for _, typ := range []lnet.MsgType{lnet.MsgPut, lnet.MsgGet} {
				h.Type = typ
				if err := p.pb.inject(router, h, nil); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			var want []answer
			for _, nid := range via {
				want = append(want, answer{lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}, lnet.ProcessID{NID: far, PID: 77}})
			}
			if d := cmp.Diff(want, answers, cmp.AllowUnexported(answer{}), sameNID); d != "" {
				t.Errorf("%s: answers (-want +got):\n%s", step, d)
			}
			if c := p.b.Admin().Counters().Committed; c != 0 {
				t.Errorf("%s: %d messages under way", step, c)
			}
		}
		check("no route")
		for priority, gateway := range []lnet.NID{other, router} {
			if err := p.b.Admin().AddRoute(t.Context(), far.Net(), gateway, node.RouteOptions{Priority: uint32(priority)}); err != nil {
				t.Fatal(err)
			}
		}
		check("two routes", router, router)
		configure(t, p.b, far)
		check("two routes, and the asker is a peer that is known", router, router)
		if err := p.b.Admin().DeleteRoute(t.Context(), far.Net(), router); err != nil {
			t.Fatal(err)
		}
		check("a route through another, which does not answer")
	})
}

// A response that does not arrive unlinks the MD, between one and one and a quarter
// transaction timeouts after the request.
//
// lnet-core 6.4 (1)-(3), 6.4 tracker (3)-(4), 12.2, 10.1, 12.4
func TestOverdueResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		off := static()
		off.ResponseTracking = node.TrackNone
		watched := newNode(t, node.Config{})
		free := newNode(t, node.Config{Parameters: &off})
		f.addNI(t, watched, "10.0.0.1@tcp")
		f.addNI(t, free, "10.0.0.2@tcp")
		peer := newNode(t, node.Config{})
		f.addNI(t, peer, "10.0.0.9@tcp")
		sink(t, peer, portals.OpPut)
		to := process(t, "10.0.0.9@tcp")
		const answered, unanswered = 1, 9 // portals
		cases := []struct {
			n       *node.Node
			portal  uint32
			options portals.MDOptions
			overdue bool
			r       recorder
		}{
			{n: watched, portal: unanswered, overdue: true},
			{n: watched, portal: answered},
			{n: watched, portal: unanswered, options: portals.NoTrackResponse},
			{n: free, portal: unanswered},
			{n: free, portal: unanswered, options: portals.TrackResponse, overdue: true},
		}
		for k := range cases {
			c := &cases[k]
			h := bind(t, c.n, portals.MD{Threshold: 3, Options: c.options, Handler: &c.r})
			put(t, c.n, h, to, node.PutOptions{Portal: c.portal, Ack: true})
			c.r.take()
		}
		if got := watched.Admin().Counters().Trackers; got != 1 {
			t.Errorf("%d trackers, want 1", got)
		}
		time.Sleep(150*time.Second - time.Millisecond)
		synctest.Wait()
		for k := range cases {
			if e := cases[k].r.take(); e != nil {
				t.Errorf("case %d: too early: %v", k, e)
			}
		}
		time.Sleep(39 * time.Second)
		synctest.Wait()
		for k := range cases {
			e := cases[k].r.take()
			if !cases[k].overdue {
				if e != nil {
					t.Errorf("case %d: %v", k, e)
				}
				continue
			}
			if len(e) != 1 || e[0].Type != portals.EventUnlink || !e[0].Unlinked || e[0].Err != nil {
				t.Errorf("case %d: %+v, want UNLINK", k, e)
			}
		}
		if g := watched.Admin().Counters(); g.ResponseTimeouts != 1 || g.Trackers != 0 {
			t.Errorf("counters %+v", g)
		}
	})
}

// lnet-core 12.6
// selection 3 errors
func TestClosedNode(t *testing.T) {
	f := newFabric()
	n, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	f.addNI(t, n, "10.0.0.1@tcp")
	h := bind(t, n, portals.MD{Threshold: 1})
	ctx := context.Background()
	for range 2 {
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	_, bindErr := n.Bind(portals.MD{})
	_, attachErr := n.Attach(portals.Entry{Portal: 1}, portals.MD{Options: portals.OpPut})
	_, addErr := n.AddNI(ctx, &driver{fabric: f, typ: lnet.TypeTCP}, lnd.Config{})
	_, pingErr := n.Ping(ctx, loID, node.PingOptions{})
	for what, err := range map[string]error{
		"bind": bindErr, "attach": attachErr, "add": addErr, "ping": pingErr,
		"put": n.Put(h, loID, node.PutOptions{}), "get": n.Get(h, loID, node.GetOptions{}),
		"remove": n.RemoveNI(ctx, parseNID(t, "10.0.0.1@tcp")),
	} {
		if !errors.Is(err, node.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", what, err)
		}
	}
	if err := n.Unlink(h); !errors.Is(err, node.ErrNotFound) {
		t.Errorf("unlink: %v, want ErrNotFound", err)
	}
}

// A driver that blocks in Open does not keep the node from closing.
//
// lnet-core 12.6
func TestCloseInterruptsAddNI(t *testing.T) {
	n, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	opening := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := n.AddNI(context.Background(), slowDriver(opening), lnd.Config{Net: lnet.MakeNet(lnet.TypeTCP, 0)})
		done <- err
	}()
	<-opening
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
}

type slowDriver chan struct{}

func (d slowDriver) Type() lnet.NetType { return lnet.TypeTCP }
func (d slowDriver) Open(ctx context.Context, _ lnd.Config) (lnd.Interface, error) {
	close(d)
	<-ctx.Done()
	return nil, ctx.Err()
}
