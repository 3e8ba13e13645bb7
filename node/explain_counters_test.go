package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

const (
	explainedConfigurations = 20
	explainedSends          = 10_000
)

// Given a node with random NIs, peers, routes, policies and healths, when it sends 10,000
// PUTs, and Explain is asked for the path before each, then the sums of the explained
// paths are the counters: of its NIs, of the neighbours, and of the NIs where the messages
// arrive. Explain finds no path exactly when the message cannot be sent.
func TestExplainAgreesWithCounters(t *testing.T) {
	for seed := range uint64(explainedConfigurations) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newExplained(t, seed)
				for k := range testenv.Fewer(explainedSends) {
					e.send(t)
					if k%100 == 0 {
						time.Sleep(10 * time.Millisecond) // recovery pings raise healths meanwhile
						synctest.Wait()
					}
				}
				e.check(t)
			})
		})
	}
}

// explained is a node over simlnd, with the nodes around it, and the sums of the paths
// that Explain has named. Nets tcp to tcp2 are local to the node. The net far is behind
// gateways.
type explained struct {
	simulated
	random  *rand.Rand
	node    *node.Node
	others  []*node.Node
	targets []lnet.NID

	hosts             int
	sums, before      sums
	sent, unreachable int
}

// sums are numbers of PUTs: by the NI of the node, by its neighbour, and by the NID where
// they arrive.
type sums struct{ From, Next, Final map[lnet.NID]uint64 }

func newSums() sums {
	return sums{map[lnet.NID]uint64{}, map[lnet.NID]uint64{}, map[lnet.NID]uint64{}}
}

const farNet = 9

func newExplained(t *testing.T, seed uint64) *explained {
	t.Helper()
	e := &explained{simulated: newSimulated(t), random: rand.New(rand.NewPCG(seed, 0)), sums: newSums()}
	nets := 1 + e.random.IntN(3)
	var own []lnet.NID
	e.node, own = e.add(t, e.someNets(nets, true), false)
	for range 1 + e.random.IntN(4) {
		_, nids := e.add(t, e.someNets(nets, false), false)
		configure(t, e.node, nids[0], nids[1:]...)
		e.targets = append(e.targets, nids...)
	}
	var gateways []lnet.NID
	for range 1 + e.random.IntN(3) {
		_, nids := e.add(t, append(e.someNets(nets, false), farNet), true)
		configure(t, e.node, nids[0], nids[1:]...)
		gateways = append(gateways, nids[e.random.IntN(len(nids)-1)])
	}
	far := parseNet(t, fmt.Sprintf("tcp%d", farNet))
	for _, g := range gateways {
		o := node.RouteOptions{Hops: uint32(e.random.IntN(3)), Priority: uint32(e.random.IntN(2))}
		if err := e.node.Admin().AddRoute(t.Context(), far, g, o); err != nil {
			t.Fatal(err)
		}
	}
	for range 1 + e.random.IntN(2) {
		_, nids := e.add(t, slices.Repeat([]int{farNet}, 1+e.random.IntN(2)), false)
		configure(t, e.node, nids[0], nids[1:]...)
		e.targets = append(e.targets, nids...)
	}
	e.targets = append(e.targets, parseNID(t, "10.99.0.1@tcp8")) // there is no path
	time.Sleep(5 * time.Second)                                  // the node tells gateways about itself
	e.lower(t, own, (*node.Admin).SetNIHealth)
	e.lower(t, append(slices.Clone(e.targets[:len(e.targets)-1]), gateways...), (*node.Admin).SetPeerHealth)
	e.addPolicies(t, own, gateways)
	synctest.Wait()
	e.before = e.count()
	return e
}

// someNets returns the numbers of the nets of a node's NIs: some of the first nets, or all
// of them, each once or several times.
func (e *explained) someNets(nets int, all bool) (of []int) {
	for net := range nets {
		if all || e.random.IntN(3) > 0 {
			of = append(of, slices.Repeat([]int{net}, 1+e.random.IntN(3))...)
		}
	}
	if len(of) == 0 {
		of = []int{0}
	}
	return of
}

// add starts a node that accepts PUTs, with an NI on each of the nets.
func (e *explained) add(t *testing.T, nets []int, routes bool) (*node.Node, []lnet.NID) {
	t.Helper()
	e.hosts++
	var addresses []string
	var nids []lnet.NID
	for k, net := range nets {
		address := fmt.Sprintf("10.%d.%d.%d", net, e.hosts, k+1)
		addresses = append(addresses, address)
		nids = append(nids, parseNID(t, fmt.Sprintf("%s@tcp%d", address, net)))
	}
	d := e.driver(t, fmt.Sprintf("host%d", e.hosts), addresses...)
	n := newNode(t, node.Config{Routing: routes, Seed: e.random.Uint64() | 1})
	for _, nid := range nids {
		if _, err := n.AddNI(context.Background(), d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
			t.Fatal(err)
		}
	}
	sink(t, n, portals.OpPut)
	if e.node != nil {
		e.others = append(e.others, n)
	}
	return n, nids
}

// lower sets the health of some of the NIDs.
func (e *explained) lower(t *testing.T, nids []lnet.NID, set func(a *node.Admin, nid lnet.NID, v int) error) {
	t.Helper()
	for _, nid := range nids {
		if e.random.IntN(4) > 0 {
			continue
		}
		if err := set(e.node.Admin(), nid, 250*e.random.IntN(4)); err != nil {
			t.Fatal(err)
		}
	}
}

// addPolicies adds up to three policies of random kinds.
func (e *explained) addPolicies(t *testing.T, own, gateways []lnet.NID) {
	t.Helper()
	pick := func(nids []lnet.NID) string { return nids[e.random.IntN(len(nids))].String() }
	for range e.random.IntN(4) {
		var r selection.Rule
		switch e.random.IntN(5) {
		case 0:
			r = ruleOf(t, pick(own), "", "")
		case 1:
			r = ruleOf(t, "*@"+own[e.random.IntN(len(own))].Net().String(), "", "")
		case 2:
			r = ruleOf(t, "", pick(e.targets), "")
		case 3:
			r = ruleOf(t, pick(own), pick(e.targets), "")
		case 4:
			r = ruleOf(t, "", pick(e.targets), pick(gateways))
		}
		err := e.node.Admin().ChangePolicies(t.Context(), func(p *selection.Policies) error { return p.Add(r, selection.Append) })
		if err != nil && !errors.Is(err, selection.ErrExists) {
			t.Fatal(err)
		}
	}
}

// send sends one PUT to a random target, and some of them from a given NI.
func (e *explained) send(t *testing.T) {
	t.Helper()
	to := e.targets[e.random.IntN(len(e.targets))]
	o := node.PutOptions{Portal: portalOpen}
	if nis := e.node.NIs(); e.random.IntN(5) == 0 {
		o.Source = nis[1+e.random.IntN(len(nis)-1)].NID // without 0@lo
	}
	x := e.node.Admin().Explain(to, node.ExplainOptions{Source: o.Source, Portal: o.Portal})
	events := &recorder{}
	h := bind(t, e.node, portals.MD{Bytes: make([]byte, e.random.IntN(4096)), Threshold: 1, Unlink: true, Handler: events})
	err := e.node.Put(h, lnet.ProcessID{NID: to, PID: lnet.PIDLustre}, o)
	if err == nil {
		synctest.Wait()
		for _, event := range events.take() {
			err = errors.Join(err, event.Err)
		}
	}
	switch {
	case (x.Err == nil) != (err == nil):
		t.Fatalf("to %s from %s: %v, and explained as %v", to, o.Source, err, x)
	case x.Err != nil:
		e.unreachable++
		return
	}
	d := &x.Decision
	e.sent++
	e.sums.From[d.NI.NID]++
	e.sums.Next[d.Next.NID]++
	e.sums.Final[d.Final.NID]++
}

// count returns the counters. Those of the NIs where messages arrive are only those of
// targets, because gateways also count what they forward.
func (e *explained) count() sums {
	c := newSums()
	for _, i := range e.node.NIs() {
		c.From[i.NID] = i.Traffic.Sent.Put
	}
	for _, p := range peerNIs(e.node) {
		c.Next[p.NID] = p.Traffic.Sent.Put
	}
	for _, n := range e.others {
		for _, i := range n.NIs() {
			if slices.Contains(e.targets, i.NID) {
				c.Final[i.NID] = i.Traffic.Received.Put
			}
		}
	}
	return c
}

// check compares the sums with the growth of the counters.
func (e *explained) check(t *testing.T) {
	t.Helper()
	after := e.count()
	for k, counted := range []map[lnet.NID]uint64{after.From, after.Next, after.Final} {
		before := []map[lnet.NID]uint64{e.before.From, e.before.Next, e.before.Final}[k]
		for nid := range counted {
			if counted[nid] -= before[nid]; counted[nid] == 0 {
				delete(counted, nid)
			}
		}
	}
	if diff := cmp.Diff(e.sums, after, cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); diff != "" {
		t.Errorf("(-explained +counted):\n%s", diff)
	}
	if e.sent == 0 || e.unreachable == 0 || len(e.sums.Next) < 2 {
		t.Errorf("%d messages to %d neighbours, and %d without a path", e.sent, len(e.sums.Next), e.unreachable)
	}
}
