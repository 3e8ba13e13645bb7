package selection

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// Cases that have no row in selection 8.
//
// selection 3 (1), 4.1 (1), 4.1 (3), 4.2 (4), 4.3 local (2)-(5), 4.3 remote (2)-(3)
// selection 4.4 last (3), 4.4 onward, 4.5 (1), 4.5 (3)-(4)
// selection 5.1 (5)-(6), 5.2 (4), 5.3 (3), 5.5 (2a), 5.5 (3), 5.5 (4), 5.5 compare (1)
// lnet-core 8.2 (2), 8.2 (4), 9.3 back
func TestOtherCases(t *testing.T) {
	for _, row := range []row{
		{0, "0@lo", func(w *fixture) {
			w.local("lo", "A1")
			w.peer(Identity{}, "lo")
		}, "lo", nil, twice("lo lo")},
		{0, "a peer's NID that is 0@lo", func(w *fixture) {
			w.local("A1", "lo")
			w.multiRail("PO", "lo")
		}, "PO", nil, twice("lo lo")},
		{0, "no net in common and no route", rails(a1, []string{"PO"}), "PO", nil, []string{"unreachable"}},
		{0, "the only gateway is the destination itself", func(w *fixture) {
			w.local("A1")
			w.peer(Identity{}, "R1", "g1")
			w.route("o2ib", "g1")
		}, "R1", nil, []string{"unreachable"}},
		{0, "not multi-rail, no net in common", func(w *fixture) {
			w.local("A1")
			w.peer(Identity{}, "PO")
		}, "PO", nil, []string{"unreachable"}},
		{0, "a given source that serves from now on", lone(a12, func(w *fixture) {
			r := w.to("B1")
			r.Source = nidOf(w.t, "A2")
			w.send(r)
		}), "B1", nil, twice("A2 B1")},
		{0, "a response makes no NI serve", lone(a12, func(w *fixture) {
			r := w.to("B1")
			r.Source, r.Hop, r.Response = nidOf(w.t, "A1"), w.peerNIs["B1"], true
			w.send(r)
		}), "B1", nil, twice("A2 B1")},
		{0, "a ping makes an NI serve", lone(a12, func(w *fixture) {
			r := w.to("B1")
			r.Reserved = true
			w.send(r)
		}), "B1", nil, twice("A1 B1")},
		{0, "a forwarded message makes no NI serve on the last hop", lone(a12, func(w *fixture) {
			r := w.to("B1")
			r.Forward = true
			w.send(r)
		}), "B1", nil, twice("A2 B1")},
		{0, "forwarded, last hop: the NI that serves does not matter", lone(a12, sent), "B1", func(_ *fixture, r *Request) { r.Forward = true }, twice("A2 B1", "A1 B1")},
		{0, "the first NID on the net that an NI serves decides", func(w *fixture) {
			w.local("A1", "A2")
			w.peer(Identity{}, "B1", "B2", "B3")
			w.peerNIs["B2"].Prefer(w.nis["A2"])
			w.peerNIs["B3"].Prefer(w.nis["A1"])
		}, "B3", nil, twice("A2 B3")},
		{0, "a policy that names an NI of another net cannot serve a local NID", lone([]string{"O1", "A1"}, prefers("B1", "O1")), "B1", nil, twice("A1 B1")},
		{0, "the first NI of the policy that is there serves", lone(a12, func(w *fixture) {
			w.peerNIs["B1"].sources.Store(newPreferences([]lnet.NID{nidOf(w.t, "T1"), nidOf(w.t, "A2"), nidOf(w.t, "A1")}))
		}), "B1", nil, twice("A2 B1")},
		{0, "remote and not multi-rail: the NID stays, an NI is found to serve", func(w *fixture) {
			w.routed(2, "R1", "R2")
			w.local("A1", "A2")
			w.peer(Identity{}, "R1", "R2")
		}, "R2", nil, []string{"A1 R2 g2", "A1 R2 g1", "A1 R2 g2"}},
		{0, "recovery ping through a router", func(w *fixture) { w.routed(1, "R1", "R2") }, "R2", func(_ *fixture, r *Request) {
			r.Reserved, r.Recovery = true, true
		}, twice("A1 R2 g1")},
		{0, "the gateway itself, on its far side", func(w *fixture) {
			w.local("A1")
			w.router("g1", "g1o")
		}, "g1o", nil, twice("A1 g1")},
		{0, "the router checker's net", rails(both, bPO), "B1", func(w *fixture, r *Request) {
			r.DiscoveryNet = w.net("o2ib").ID
		}, twice("O1 PO")},
		{0, "the router checker's net is gone", rails(a1, bPO), "B1", func(_ *fixture, r *Request) {
			r.DiscoveryNet = lnet.MakeNet(lnet.TypeO2IB, 0)
		}, twice("A1 B1")},
		{0, "memory of a GPU", rails(a12, b1, near(10, 21)), "B1", func(_ *fixture, r *Request) {
			r.CPT = 0
			r.Affinity = func(i *NI) uint32 { return map[string]uint32{"A1": 2, "A2": 1}[i.Owner.(string)] }
		}, twice("A2 B1")},
		{0, "memory of a GPU: the NUMA range does not count", rails(a12, b1, near(10, 21), func(w *fixture) { w.view.NUMARange = 30 }), "B1", func(_ *fixture, r *Request) {
			r.CPT = 0
			r.Affinity = func(*NI) uint32 { return 0 }
		}, twice("A1 B1")},
		{0, "never back to where a message came from, on the last hop", rails(a1, b12, func(w *fixture) {
			w.peerNIs["B1"].Health.Store(900)
		}), "B1", func(w *fixture, r *Request) {
			r.Forward, r.FromMultiRail, r.From = true, true, w.peerNIs["B2"]
		}, twice("A1 B1")},
		{0, "never back, and there is no other NID", rails(a1, b1), "B1", func(w *fixture, r *Request) {
			r.Forward, r.From = true, w.peerNIs["B1"]
		}, []string{"unreachable"}},
		{0, "never back to the gateway that a message came from", func(w *fixture) { w.routed(2, "R1") }, "R1", func(w *fixture, r *Request) {
			r.Forward, r.From = true, w.peerNIs["g2"]
		}, twice("A1 R1 g1")},
		{0, "a hop that is no gateway, and no route", rails(a1, []string{"PO", "R1"}, func(w *fixture) { w.multiRail("g1") }), "PO", func(w *fixture, r *Request) {
			r.Source, r.Hop, r.Response = nidOf(w.t, "A1"), w.peerNIs["g1"], true
		}, []string{"unreachable"}},
		{0, "a net that another peer's messages used", rails(both, bPO, func(w *fixture) {
			w.peer(Identity{}, "B3")
			w.send(w.to("B3"))
		}), "B1", nil, twice("O1 PO", "A1 B1")},
		{0, "a net of the peer that others' messages have not used", rails([]string{"A1", "O1", "T1"}, []string{"B1", "PO", "h1"}, func(w *fixture) {
			// Of the local nets o2ib was used last, of the peer's tcp1.
			w.peer(Identity{}, "R1")
			w.sends(2, w.to("B1"))
			r := w.to("h1")
			r.Source = nidOf(w.t, "T1")
			w.send(r)
			w.send(w.to("R1"))
		}), "B1", nil, []string{"A1 B1", "O1 PO", "T1 h1"}},
		{0, "a preferred router goes by its primary NID", func(w *fixture) {
			w.routed(0, "N1")
			w.peer(Identity{}, "g1o", "g1")
			w.peer(Identity{}, "g2")
			w.route("gni", "g1")
			w.route("gni", "g2").Priority = 0
			w.routes["g1"].Priority = 1
			w.peerNIs["N1"].routers.Store(newPreferences([]lnet.NID{nidOf(w.t, "g1o")}))
		}, "N1", nil, twice("A1 N1 g1")},
		{0, "forwarded, not the last hop: the NID stays", func(w *fixture) {
			w.routed(1, "R1", "N1")
			w.route("gni", "g1")
			w.peerNet("N1").priority.set(0)
		}, "R1", func(_ *fixture, r *Request) { r.Forward, r.FromMultiRail = true, true }, twice("A1 R1 g1")},
		{0, "a route seen to have a single hop, remote side down", func(w *fixture) {
			w.routed(0, "R1")
			w.router("g1", "g1o").SingleHop.Store(true)
			w.peerNIs["g1o"].Up.Store(false)
		}, "R1", nil, []string{"unreachable"}},
		{0, "discovery off: the cached aliveness of a route holds", func(w *fixture) {
			w.routed(0, "R1")
			w.router("g1", "g1o")
			w.peerNIs["g1"].Up.Store(false)
			w.view.DiscoveryOff = true
		}, "R1", nil, twice("A1 R1 g1")},
		{0, "a source on the same net that is not ours", rails(a1, b12), "B1", func(w *fixture, r *Request) {
			r.Source = nidOf(w.t, "A2")
		}, []string{"no source"}},
		{0, "a given source that serves a remote peer from now on", func(w *fixture) {
			w.routed(1, "R1")
			w.local("A1", "A2")
			w.peer(Identity{}, "R1")
			r := w.to("R1")
			r.Source = nidOf(w.t, "A2")
			w.send(r)
		}, "R1", nil, twice("A2 R1 g1")},
		{0, "last hop, unwell, and the peer is not multi-rail", func(w *fixture) {
			w.local("A1", "O1")
			w.peer(Identity{}, "R1", "R2")
			w.peerNIs["R1"].Health.Store(900)
		}, "R1", func(_ *fixture, r *Request) { r.Forward, r.FromMultiRail = true, true }, twice("O1 R1")},
		{0, "a new route takes one turn, and then its place behind the others", func(w *fixture) {
			w.routed(2, "R1")
			w.sends(4, w.to("R1"))
			w.peer(Identity{}, "g3")
			w.route("o2ib", "g3")
		}, "R1", nil, []string{"A1 R1 g3", "A1 R1 g2", "A1 R1 g1", "A1 R1 g3"}},
		{0, "discovery's ping to a multi-rail peer", rails(a12, b12), "B1", func(_ *fixture, r *Request) {
			r.Reserved = true
		}, twice("A1 B1", "A2 B2")},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newFixture(t)
			row.given(w)
			r := w.to(row.to)
			if row.request != nil {
				row.request(w, &r)
			}
			if diff := cmp.Diff(row.want, w.sends(len(row.want), r)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// discovery 2.5 (2)
func TestMultiRailPeersHaveNoPreferredNI(t *testing.T) {
	w := newFixture(t)
	lone(a12, sent)(w)
	w.multiRail("B1")
	if s := w.peerNIs["B1"].Sources(); s != nil {
		t.Errorf("became multi-rail, served by %v", s)
	}
	w.peerNIs["B1"].Prefer(w.nis["A1"])
	if s := w.peerNIs["B1"].Sources(); s != nil {
		t.Errorf("is multi-rail, served by %v", s)
	}
}

func TestIncompleteViews(t *testing.T) {
	w := newFixture(t)
	w.routed(1, "R1")
	w.peer(Identity{}, "lo")
	loose := &PeerNI{}
	loose.Init(nidOf(t, "B1"), nil)
	back := w.to("R1")
	back.Hop = w.peerNIs["g1"]
	for name, r := range map[string]Request{"no peer": {Dest: loose}, "no 0@lo": w.to("lo")} {
		if _, err := w.view.Choose(&r); !errors.Is(err, ErrInconsistent) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.local("T1")
	if _, err := w.view.Choose(&back); !errors.Is(err, ErrInconsistent) {
		t.Errorf("gateway on no net of ours: %v", err)
	}
}

func TestChooseDoesNotAllocate(t *testing.T) {
	w := newFixture(t)
	w.routed(3, "R1", "R2")
	w.multiRail("B1", "B2")
	w.peer(Identity{}, "B3")
	reply := w.to("R1")
	reply.Source, reply.Hop, reply.Response = nidOf(t, "A1"), w.peerNIs["g2"], true
	forward := w.to("R1")
	forward.Forward = true
	for name, r := range map[string]Request{
		"multi-rail": w.to("B1"), "one NID": w.to("B3"), "routed": w.to("R1"), "reply": reply, "forwarded": forward,
	} {
		if n := testing.AllocsPerRun(100, func() {
			d, err := w.view.Choose(&r)
			if err != nil {
				t.Fatal(err)
			}
			d.Commit()
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// selection 5.7 (1)-(3)
func TestCommitStepsBothEnds(t *testing.T) {
	w := newFixture(t)
	w.routed(1, "R1")
	r := w.to("R1")
	for range 3 {
		w.send(r)
	}
	for name, got := range map[string]uint64{
		"local": w.view.Local.turn.Load(), "net": w.net("tcp").turn.Load(), "NI": w.nis["A1"].Turn(),
		"gateway": w.peerNIs["g1"].Peer().turn.Load(), "gateway's net": w.peerNet("g1").turn.Load(), "gateway's NI": w.peerNIs["g1"].Turn(),
		"peer": w.peerNIs["R1"].Peer().turn.Load(), "peer's net": w.peerNet("R1").turn.Load(), "peer NI": w.peerNIs["R1"].Turn(),
		"route": w.routes["g1"].Turn(),
	} {
		if got != 3 {
			t.Errorf("turn of %s: %d", name, got)
		}
	}
}

// A response that goes back through its router does not change the turn of a route.
//
// selection 5.5 (1)
func TestAnswersTakeNoTurnOfARoute(t *testing.T) {
	w := newFixture(t)
	w.routed(2, "R1")
	w.sends(3, w.to("R1"))
	before := [2]uint64{w.routes["g1"].Turn(), w.routes["g2"].Turn()}
	r := w.to("R1")
	r.Source, r.Hop, r.Response = nidOf(t, "A1"), w.peerNIs["g2"], true
	w.send(r)
	if after := [2]uint64{w.routes["g1"].Turn(), w.routes["g2"].Turn()}; after != before {
		t.Errorf("turns %v, before the answer %v", after, before)
	}
}

// A loopback message changes no turn, and Loopback returns true.
//
// selection 3 (1), 4.3 rails (1)
func TestLoopbackTakesNoTurn(t *testing.T) {
	w := newFixture(t)
	w.local("A1", "lo")
	w.multiRail("PO", "lo")
	w.peer(Identity{}, "B1")
	r := w.to("PO")
	d, err := w.view.Choose(&r)
	if err != nil || !d.Loopback() || d.Routed() {
		t.Fatalf("%+v, %v", d, err)
	}
	d.Commit()
	if turns := w.view.Local.turn.Load() + w.nis["lo"].Turn() + w.peerNIs["lo"].Turn() + w.peerNIs["PO"].Peer().turn.Load(); turns != 0 {
		t.Errorf("%d turns were taken", turns)
	}
}

func TestViewsFollowEachOther(t *testing.T) {
	w := newFixture(t)
	w.local("A1", "O1")
	p := w.multiRail("B1", "PO")
	w.net("o2ib").priority.set(4)
	w.sends(4, w.to("B1"))
	turn := w.net("o2ib").turn.Load()
	w.local("O1", "A2", "A1")
	q := w.multiRail("PO", "B2", "B1")
	// Without rules, applying them resets the priority. The turn stays.
	if n := w.net("o2ib"); n.Priority() != NoPriority || n.turn.Load() != turn || w.view.Local.turn.Load() != 4 {
		t.Errorf("net o2ib: priority %d, turn %d, before %d", n.Priority(), n.turn.Load(), turn)
	}
	if q.turn.Load() != p.turn.Load() || q.Nets[0].ID.Type() != lnet.TypeO2IB || q.Nets[0].turn.Load() == 0 {
		t.Errorf("peer turn %d after %d, first net %s with turn %d", q.turn.Load(), p.turn.Load(), q.Nets[0].ID, q.Nets[0].turn.Load())
	}
	if w.peerNIs["B1"].Peer() != q {
		t.Error("B1 is not of the new peer")
	}
	other := w.peer(Identity{}, "B3")
	w.peerNIs["B3"].turn.Store(100)
	if merged := NewPeer(q, q.Identity, append(q.Nets[0].NIs, w.peerNIs["B3"])); merged.turn.Load() != 100 {
		t.Errorf("turn %d of a peer with a NID that had 100", merged.turn.Load())
	}
	if other.Nets[0].Health() != MaxHealth {
		t.Error("new peer NI is not well")
	}
}

// Given a NID that was used before its peer was known, when the peer is created, then it
// keeps the turns: a net that was not used comes before the one that was.
func TestPeerContinuesAfterItsFirstNID(t *testing.T) {
	w := newFixture(t)
	w.local("A1", "O1")
	met := w.multiRail("B1")
	w.sends(4, w.to("B1"))
	w.peer(Identity{}, "PO")
	p := NewPeer(nil, met.Identity, []*PeerNI{w.peerNIs["B1"], w.peerNIs["PO"]})
	if p.turn != met.turn || p.Nets[0].turn != met.Nets[0].turn || p.Nets[0].turn.Load() != 4 || p.Nets[1].turn.Load() != 0 {
		t.Errorf("turns %d, %d and %d", p.turn.Load(), p.Nets[0].turn.Load(), p.Nets[1].turn.Load())
	}
}

// lnet-core 8.1 order
func TestRoutesKeepTheirPlaces(t *testing.T) {
	w := newFixture(t)
	w.local("A1")
	var routes []*Route
	for _, g := range []string{"g1", "g2", "g3"} {
		w.peer(Identity{}, g)
		r := &Route{}
		r.Init(lnet.MakeNet(lnet.TypeO2IB, 0), w.peerNIs[g], 0, 0)
		routes = append(routes, r)
	}
	other := &Route{}
	other.Init(lnet.MakeNet(lnet.TypeGNI, 0), w.peerNIs["g1"], 0, 0)
	var table *Routing
	table = table.With(routes[0], 5).With(other, 0).With(routes[1], 0).With(routes[2], 1)
	var order []string
	for _, r := range table.To(routes[0].Net) {
		order = append(order, r.Gateway.Owner.(string))
	}
	if diff := cmp.Diff([]string{"g2", "g3", "g1"}, order); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	less := table.without(routes[0])
	if len(less.Routes()) != 3 || len(table.Routes()) != 4 || !less.gateway(w.peerNIs["g1"].Peer()) {
		t.Errorf("%d routes, before %d", len(less.Routes()), len(table.Routes()))
	}
	if less = less.without(other); less.gateway(w.peerNIs["g1"].Peer()) {
		t.Error("g1 is a gateway without a route")
	}
}

// selection 5.3 (2)
func TestDistances(t *testing.T) {
	d := NewDistances([][]uint32{{10, 21}, {21, 10}})
	for _, c := range []struct {
		a, b int
		want uint32
	}{{0, 0, 10}, {0, 1, 21}, {1, 0, 21}, {UnknownCPT, 0, 21}, {0, UnknownCPT, 21}, {2, 2, 21}} {
		if got := d.Between(c.a, c.b); got != c.want {
			t.Errorf("%d to %d: %d, want %d", c.a, c.b, got, c.want)
		}
	}
	if (*Distances)(nil).Between(0, 1) != 0 {
		t.Error("no table")
	}
}
