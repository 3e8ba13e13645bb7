package selection

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// row is a row of selection 8. given prepares the world. Each element of want is the result
// of one request for a path to "to", modified by request.
type row struct {
	number  int
	name    string
	given   func(w *fixture)
	to      string
	request func(w *fixture, r *Request)
	want    []string
}

func runRows(t *testing.T, rows []row, first, last int) {
	t.Helper()
	seen := make(map[int]bool)
	for _, row := range rows {
		seen[row.number] = true
		t.Run(row.name, func(t *testing.T) {
			w := newFixture(t)
			row.given(w)
			r := w.to(row.to)
			if row.request != nil {
				row.request(w, &r)
			}
			if diff := cmp.Diff(row.want, w.sends(len(row.want), r)); diff != "" {
				t.Errorf("row %d: (-want +got)\n%s", row.number, diff)
			}
		})
	}
	for n := first; n <= last; n++ {
		if !seen[n] {
			t.Errorf("row %d is missing", n)
		}
	}
}

// rails returns a setup with a node and a multi-rail peer that have these NIs.
func rails(local, peer []string, more ...func(w *fixture)) func(w *fixture) {
	return func(w *fixture) {
		w.local(local...)
		w.multiRail(peer...)
		for _, f := range more {
			f(w)
		}
	}
}

var (
	a1   = []string{"A1"}
	a12  = []string{"A1", "A2"}
	b1   = []string{"B1"}
	b12  = []string{"B1", "B2"}
	both = []string{"A1", "O1"}
	bPO  = []string{"B1", "PO"}
)

// near sets CPTs for the memory and the NIs A1 and A2 with these distances.
func near(d1, d2 uint32) func(w *fixture) {
	return func(w *fixture) {
		w.nis["A1"].CPT, w.nis["A2"].CPT = 1, 2
		w.view.Distances = NewDistances([][]uint32{{10, d1, d2}, {d1, 10, 40}, {d2, 40, 10}})
	}
}

func onCPT0(_ *fixture, r *Request) { r.CPT = 0 }

// prefers makes a peer NI prefer an NI by policy.
func prefers(dst, src string) func(w *fixture) {
	return func(w *fixture) {
		w.peerNIs[dst].sources.Store(newPreferences([]lnet.NID{nidOf(w.t, src)}))
	}
}

// selection 8.1 (1)-(21), 4.3 rails (1)
// selection 5.2 (1)-(3), 5.2 (5)-(7), 5.2 last, 5.3 (3)
// selection 5.4 (1)-(5), 5.4 others
func TestLocalScenarios(t *testing.T) {
	few := func(w *fixture) { w.nis["A2"].Credits.Store(1) }
	runRows(t, []row{
		{1, "two NIs and two peer NIs", rails(a12, b12), "B1", nil, twice("A1 B1", "A2 B2")},
		{
			2, "two NIs and three peer NIs", rails(a12, []string{"B1", "B2", "B3"}), "B1", nil,
			[]string{"A1 B1", "A2 B2", "A1 B3", "A2 B1", "A1 B2", "A2 B3"},
		},
		{3, "more NI credits", rails(a12, b12, func(w *fixture) { w.nis["A1"].Credits.Store(200) }), "B1", nil, []string{"A2 B1"}},
		{4, "NI health", rails(a12, b1, func(w *fixture) { w.nis["A1"].Health.Store(900) }), "B1", nil, twice("A2 B1")},
		{5, "NI health before priority", rails(a12, b1, func(w *fixture) {
			w.nis["A1"].Health.Store(900)
			w.nis["A1"].priority.set(0)
			w.nis["A2"].priority.set(5)
		}), "B1", nil, twice("A2 B1")},
		{6, "fatal before health", rails(a12, b1, func(w *fixture) {
			w.nis["A1"].Health.Store(100)
			w.nis["A2"].Fatal.Store(true)
		}), "B1", nil, twice("A1 B1")},
		{7, "all fatal", rails(a12, b1, func(w *fixture) {
			w.nis["A1"].Fatal.Store(true)
			w.nis["A2"].Fatal.Store(true)
		}), "B1", nil, twice("A1 B1", "A2 B1")},
		{8, "NI priority before distance", rails(a12, b1, near(10, 20), func(w *fixture) { w.nis["A2"].priority.set(0) }), "B1", onCPT0, twice("A2 B1")},
		{9, "distance before credits", rails(a12, b1, near(21, 10), few), "B1", onCPT0, twice("A2 B1")},
		{10, "distances within the NUMA range", rails(a12, b1, near(21, 10), few, func(w *fixture) { w.view.NUMARange = 21 }), "B1", onCPT0, twice("A1 B1")},
		{11, "a distance outside of the NUMA range", rails(a12, b1, near(21, 10), few, func(w *fixture) { w.view.NUMARange = 20 }), "B1", onCPT0, twice("A2 B1")},
		{12, "peer NI health", rails(a1, b12, func(w *fixture) { w.peerNIs["B1"].Health.Store(900) }), "B1", nil, twice("A1 B2")},
		{13, "peer NI priority", rails(a1, b12, func(w *fixture) {
			w.peerNIs["B1"].priority.set(1)
			w.peerNIs["B2"].priority.set(0)
		}), "B1", nil, twice("A1 B2")},
		{14, "preference before credits", rails(a1, b12, prefers("B2", "A1"), func(w *fixture) { w.peerNIs["B2"].Credits.Store(-3) }), "B1", nil, twice("A1 B2")},
		{15, "priority before preference", rails(a1, b12, prefers("B2", "A1"), func(w *fixture) { w.peerNIs["B1"].priority.set(0) }), "B1", nil, twice("A1 B1")},
		{16, "preference for another", rails(a1, b12, prefers("B1", "T1")), "B1", nil, []string{"A1 B1", "A1 B2", "A1 B1"}},
		{17, "peer NI credits", rails(a1, []string{"B1", "B2", "B3"}, func(w *fixture) {
			w.peerNIs["B1"].Credits.Store(2)
			w.peerNIs["B2"].Credits.Store(5)
			w.peerNIs["B3"].Credits.Store(5)
		}), "B1", nil, []string{"A1 B2", "A1 B3", "A1 B2"}},
		{18, "each NI has its preferred peer NI", rails(a12, b12, prefers("B1", "A1"), prefers("B2", "A2")), "B1", nil, twice("A1 B1", "A2 B2")},
		{19, "all prefer one NI", rails(a12, b12, prefers("B1", "A2"), prefers("B2", "A2")), "B1", nil, twice("A1 B1", "A2 B2")},
		{20, "another NID of the peer is given", rails(a12, b12), "B2", nil, twice("A1 B1", "A2 B2")},
		{21, "all health is 0", rails(a12, b12, func(w *fixture) {
			for _, i := range w.nis {
				i.Health.Store(0)
			}
			for _, p := range w.peerNIs {
				p.Health.Store(0)
			}
		}), "B1", nil, twice("A1 B1", "A2 B2")},
	}, 1, 21)
}

// selection 8.2 (22)-(31), 5.1 (1)-(5), 5.1 local
func TestNetScenarios(t *testing.T) {
	localO2IB := func(w *fixture) { w.net("o2ib").priority.set(0) }
	runRows(t, []row{
		{22, "nets alternate", rails(both, bPO), "B1", nil, twice("A1 B1", "O1 PO")},
		{23, "net priority", rails(both, bPO, localO2IB), "B1", nil, twice("O1 PO")},
		{24, "peer net priority before net priority", rails(both, bPO, localO2IB, func(w *fixture) { w.peerNet("B1").priority.set(3) }), "B1", nil, twice("A1 B1")},
		{25, "peer net health before net priority", rails(both, bPO, localO2IB, func(w *fixture) { w.peerNIs["PO"].Health.Store(900) }), "B1", nil, twice("A1 B1")},
		{26, "peer net priority before net health", rails(both, bPO, func(w *fixture) {
			w.peerNet("PO").priority.set(0)
			w.nis["O1"].Health.Store(500)
		}), "B1", nil, twice("O1 PO")},
		{27, "net health before net priority", rails(both, bPO, localO2IB, func(w *fixture) { w.nis["O1"].Health.Store(500) }), "B1", nil, twice("A1 B1")},
		{28, "a net whose NIs are fatal", rails(both, bPO, localO2IB, func(w *fixture) { w.nis["O1"].Fatal.Store(true) }), "B1", nil, twice("A1 B1")},
		{
			29, "nets alternate, not NIs", rails([]string{"A1", "A2", "O1"}, []string{"B1", "B2", "PO"}), "B1", nil,
			[]string{"A1 B1", "O1 PO", "A2 B2", "O1 PO", "A1 B1"},
		},
		{30, "peer net health", rails(both, bPO, func(w *fixture) { w.peerNIs["B1"].Health.Store(900) }), "B1", nil, twice("O1 PO")},
		{
			31, "a peer net is as well as its best NI", rails(both, []string{"B1", "B2", "PO"}, func(w *fixture) { w.peerNIs["B1"].Health.Store(900) }), "B1", nil,
			twice("A1 B2", "O1 PO"),
		},
	}, 22, 31)
}

// lone returns a setup with a node that has these NIs and a peer B1 that is not multi-rail.
func lone(local []string, more ...func(w *fixture)) func(w *fixture) {
	return func(w *fixture) {
		w.local(local...)
		w.peer(Identity{}, "B1")
		for _, f := range more {
			f(w)
		}
	}
}

func sent(w *fixture) { w.send(w.to("B1")) }

// selection 8.3 (32)-(43), 3 (5), 3 note
// selection 4.1 (2), 4.2 (1), 4.2 (3), 4.3 local (1), 4.3 local (3)-(5)
// selection 4.5 (1), 4.6, 5.5 (1), 5.5 (2a)
func TestSourceAndResponseScenarios(t *testing.T) {
	from := func(name string) func(w *fixture, r *Request) {
		return func(w *fixture, r *Request) { r.Source = nidOf(w.t, name) }
	}
	back := func(source, hop string) func(w *fixture, r *Request) {
		return func(w *fixture, r *Request) {
			r.Source, r.Hop, r.Response = nidOf(w.t, source), w.peerNIs[hop], true
		}
	}
	runRows(t, []row{
		{32, "a given source has no health", rails(a12, b12, func(w *fixture) { w.nis["A2"].Health.Store(0) }), "B1", from("A2"), twice("A2 B1")},
		{33, "the source is not ours", rails(a12, b12), "B1", from("T1"), []string{"no source"}},
		{34, "source on another net, no route", rails(both, bPO), "PO", from("A1"), []string{"unreachable"}},
		{35, "the first NI keeps serving", lone(a12, func(w *fixture) {
			sent(w)
			w.nis["A1"].Health.Store(0)
			w.nis["A1"].Fatal.Store(true)
		}), "B1", nil, twice("A1 B1")},
		{36, "first heard on A2", lone(a12, func(w *fixture) { w.peerNIs["B1"].Prefer(w.nis["A2"]) }), "B1", nil, twice("A2 B1")},
		{37, "the NI that served is gone", lone(a12, sent, func(w *fixture) { w.local("A2") }), "B1", nil, twice("A2 B1")},
		{37, "the NI that served is back", lone(a12, sent, func(w *fixture) {
			w.local("A2")
			sent(w)
			w.local("A2", "A1")
		}), "B1", nil, twice("A1 B1")},
		{38, "the peer becomes multi-rail", lone(a12, sent, func(w *fixture) { w.multiRail("B1", "B2") }), "B1", nil, twice("A2 B2", "A1 B1")},
		{39, "ping to a peer that A1 serves", lone(a12, sent), "B1", func(_ *fixture, r *Request) { r.Reserved = true }, twice("A2 B1", "A1 B1")},
		{40, "recovery ping", rails(a12, b12), "B2", func(_ *fixture, r *Request) { r.Reserved, r.Recovery = true, true }, twice("A1 B2", "A2 B2")},
		{41, "acknowledgement", rails(a12, b12, func(w *fixture) { w.nis["A2"].Health.Store(0) }), "B2", back("A2", "B2"), twice("A2 B2")},
		{42, "reply through the gateway that it came by", func(w *fixture) {
			w.routed(2, "R1", "R2")
			w.routes["g2"].Up.Store(false)
		}, "R1", back("A1", "g2"), twice("A1 R1 g2")},
		{43, "the gateway has no route any more", func(w *fixture) {
			w.routed(2, "R1", "R2")
			w.view.Routing = w.view.Routing.without(w.routes["g2"])
		}, "R1", back("A1", "g2"), twice("A1 R1 g1")},
	}, 32, 43)
}

// selection 8.4 (44)-(65), 4.2 (2), 4.3 rails (2), 4.3 remote (1)-(2)
// selection 5.5 (2b), 5.5 (3), 5.5 (6), 5.5 compare (1)-(7), 5.6 known, 5.6 any
// lnet-core 8.2 (1)-(5)
func TestRoutedScenarios(t *testing.T) {
	two := func(f func(w *fixture)) func(w *fixture) {
		return func(w *fixture) {
			w.routed(2, "R1")
			f(w)
		}
	}
	// routers returns a setup with discovered gateways on both nets.
	routers := func(n int, f func(w *fixture)) func(w *fixture) {
		return func(w *fixture) {
			w.routed(0, "R1")
			for _, names := range [][]string{{"g1", "g1o"}, {"g2", "g2o"}}[:n] {
				w.router(names...)
			}
			f(w)
		}
	}
	asym := func(w *fixture) {
		w.routes["g1"].Hops, w.routes["g2"].Hops = 1, 1
		w.peerNIs["g1o"].Up.Store(false)
	}
	twoNets := func(second uint32) func(w *fixture) {
		return func(w *fixture) {
			w.local("A1", "T1")
			w.multiRail("R1")
			w.router("g1", "h1")
			w.peerNIs["g1"].priority.set(0)
			w.peerNIs["h1"].priority.set(second)
		}
	}
	runRows(t, []row{
		{44, "two gateways and two peer NIs", func(w *fixture) { w.routed(2, "R1", "R2") }, "R1", nil, twice("A1 R1 g2", "A1 R2 g1")},
		{45, "three gateways", func(w *fixture) { w.routed(3, "R1") }, "R1", nil, twice("A1 R1 g3", "A1 R1 g2", "A1 R1 g1")},
		{46, "route priority", two(func(w *fixture) { w.routes["g1"].Priority = 1 }), "R1", nil, twice("A1 R1 g2")},
		{47, "hops", two(func(w *fixture) { w.routes["g1"].Hops, w.routes["g2"].Hops = 2, 1 }), "R1", nil, twice("A1 R1 g2")},
		{48, "undefined hops count as one", two(func(w *fixture) { w.routes["g2"].Hops = 1 }), "R1", nil, twice("A1 R1 g2", "A1 R1 g1")},
		{49, "route priority before hops", two(func(w *fixture) {
			w.routes["g1"].Priority, w.routes["g1"].Hops = 1, 1
			w.routes["g2"].Hops = 2
		}), "R1", nil, twice("A1 R1 g2")},
		{50, "preferred router before priority", two(func(w *fixture) {
			w.peerNIs["R1"].routers.Store(newPreferences([]lnet.NID{nidOf(w.t, "g2")}))
			w.routes["g2"].Priority = 1
		}), "R1", nil, twice("A1 R1 g2")},
		{51, "gateway health", two(func(w *fixture) { w.peerNIs["g1"].Health.Store(900) }), "R1", nil, twice("A1 R1 g2")},
		{52, "queued bytes before credits", two(func(w *fixture) {
			w.peerNIs["g1"].Queued.Store(5000)
			w.peerNIs["g2"].Credits.Store(1)
		}), "R1", nil, twice("A1 R1 g2")},
		{53, "gateway credits", two(func(w *fixture) { w.peerNIs["g1"].Credits.Store(3) }), "R1", nil, twice("A1 R1 g2")},
		{54, "gateway down", two(func(w *fixture) { w.routes["g1"].Up.Store(false) }), "R1", nil, twice("A1 R1 g2")},
		{54, "gateway's NI down", routers(2, func(w *fixture) { w.peerNIs["g1"].Up.Store(false) }), "R1", nil, twice("A1 R1 g2")},
		{54, "gateway dead", routers(2, func(w *fixture) {
			w.peer(Identity{MultiRail: true, RoutingEnabled: true, Removed: true}, "g1", "g1o")
		}), "R1", nil, twice("A1 R1 g2")},
		{55, "single hop, remote side down", routers(2, asym), "R1", nil, twice("A1 R1 g2")},
		{56, "two hops, remote side down", routers(1, func(w *fixture) {
			w.routes["g1"].Hops = 2
			w.peerNIs["g1o"].Up.Store(false)
		}), "R1", nil, twice("A1 R1 g1")},
		{57, "single hop, remote side down, allowed", routers(2, func(w *fixture) {
			asym(w)
			w.view.AsymmetricRoutes = true
		}), "R1", nil, twice("A1 R1 g2", "A1 R1 g1")},
		{58, "routing disabled", routers(1, func(w *fixture) { w.peer(Identity{MultiRail: true}, "g1", "g1o") }), "R1", nil, []string{"unreachable"}},
		{59, "priority of a remote net", func(w *fixture) {
			w.routed(2, "R1", "N1")
			w.route("gni", "g2")
			w.peerNet("N1").priority.set(0)
		}, "R1", nil, twice("A1 N1 g2")},
		{60, "a local NID is never routed to", func(w *fixture) {
			w.routed(2, "R1", "B1")
			w.peerNet("R1").priority.set(0)
			w.peerNIs["B1"].Health.Store(100)
		}, "R1", nil, twice("A1 B1")},
		{61, "a gateway with two NIs", func(w *fixture) {
			w.local("A1", "A2")
			w.multiRail("R1", "R2")
			w.router("g1", "g1b")
		}, "R1", nil, twice("A1 R1 g1", "A2 R2 g1b")},
		{62, "gateway on two nets, priority on the first", twoNets(NoPriority), "R1", nil, twice("A1 R1 g1")},
		{63, "gateway on two nets, priority on both", twoNets(7), "R1", nil, twice("A1 R1 g1")},
		{64, "gateway not on the source's net", func(w *fixture) {
			w.local("A1", "T1")
			w.multiRail("R1")
			w.router("h1")
		}, "R1", func(w *fixture, r *Request) { r.Source = nidOf(w.t, "A1") }, []string{"unreachable"}},
		{65, "remote peer that A2 serves", func(w *fixture) {
			w.local("T1", "A1", "A2")
			w.peer(Identity{}, "R1")
			w.peerNIs["R1"].Prefer(w.nis["A2"])
			w.router("h1")
			w.router("g1")
		}, "R1", nil, twice("A2 R1 g1")},
	}, 44, 65)
}

// selection 8.5 (66)-(70), 4.3 local (2), 4.4 last (1)-(2), 4.4 onward
func TestRouterScenarios(t *testing.T) {
	forwarded := func(fromMultiRail bool) func(w *fixture, r *Request) {
		return func(_ *fixture, r *Request) { r.Forward, r.FromMultiRail = true, fromMultiRail }
	}
	onRouter := func(more ...func(w *fixture)) func(w *fixture) {
		return rails([]string{"A1", "O1"}, []string{"R1", "R2"}, more...)
	}
	sick := func(w *fixture) { w.peerNIs["R1"].Health.Store(900) }
	runRows(t, []row{
		{66, "final hop, healthy", onRouter(), "R1", forwarded(true), twice("O1 R1")},
		{67, "final hop, unwell", onRouter(sick), "R1", forwarded(true), twice("O1 R2")},
		{68, "the sender is not multi-rail", onRouter(sick), "R1", forwarded(false), twice("O1 R1")},
		{69, "last status down", onRouter(func(w *fixture) { w.peerNIs["R1"].Up.Store(false) }), "R1", forwarded(true), twice("O1 R1", "O1 R2")},
		{70, "not the final hop, another NID is local", rails(a1, []string{"R1", "B1"}), "R1", forwarded(false), twice("A1 B1")},
	}, 66, 70)
}

// selection 8.6 (71)-(80), 6.1, 6.3 (2), 6.4 (2), 6.5 first, 6.6 (4)
func TestPolicyScenarios(t *testing.T) {
	rule := func(src, dst, rte string, priority uint32) func(w *fixture) {
		return func(w *fixture) {
			if err := w.rule(src, dst, rte, priority, Append); err != nil {
				w.t.Error(err)
			}
		}
	}
	priorities := func(want1, want2 int64) func(w *fixture) {
		return func(w *fixture) {
			if p, q := priorityValue(w.peerNIs["B1"].Priority()), priorityValue(w.peerNIs["B2"].Priority()); p != want1 || q != want2 {
				w.t.Errorf("priorities %d and %d, want %d and %d", p, q, want1, want2)
			}
		}
	}
	all := "*.*.*.*@tcp"
	runRows(t, []row{
		{71, "a local net", rails([]string{"O1", "A1"}, []string{"PO", "B1"}, rule("tcp", "", "", 0)), "B1", nil, twice("A1 B1")},
		{72, "a peer net", rails(both, bPO, rule("", "o2ib", "", 0)), "B1", nil, twice("O1 PO")},
		{72, "a remote net", func(w *fixture) {
			w.routed(2, "N1", "R1")
			w.route("gni", "g2")
			rule("", "o2ib", "", 0)(w)
		}, "N1", nil, []string{"A1 R1 g2", "A1 R1 g1"}},
		{73, "a local NI", rails(a12, b1, rule("A2", "", "", 0)), "B1", nil, twice("A2 B1")},
		{73, "a local NI that is unwell", rails(a12, b1, rule("A2", "", "", 0), func(w *fixture) { w.nis["A2"].Health.Store(900) }), "B1", nil, twice("A1 B1")},
		{74, "a pair", rails(a1, b12, rule("A1", "B2", "", 0)), "B1", nil, twice("A1 B2")},
		{75, "the first rule that matches", rails(a1, b12, rule("", "B1", "", 5), rule("", all, "", 1), priorities(5, 1)), "B1", nil, twice("A1 B2")},
		{76, "the wider rule first", rails(a1, b12, rule("", all, "", 1), rule("", "B1", "", 5), priorities(1, 1)), "B1", nil, twice("A1 B1", "A1 B2")},
		{77, "a deleted rule uncovers the next", rails(a1, b12, rule("", "B1", "", 5), rule("", all, "", 1), func(w *fixture) {
			if err := w.policies.Delete(0); err != nil {
				w.t.Error(err)
			}
			w.apply()
		}, priorities(1, 1)), "B1", nil, twice("A1 B1", "A1 B2")},
		{78, "the same match with another priority", rails(a1, b1, rule("tcp", "", "", 1), rule("tcp", "", "", 4), func(w *fixture) {
			if rules := w.policies.Rules(); len(rules) != 1 || rules[0].Priority != 4 || w.net("tcp").Priority() != 4 {
				w.t.Errorf("rules %v, net has %d", rules, w.net("tcp").Priority())
			}
		}), "B1", nil, []string{"A1 B1"}},
		{79, "the same pair again", rails(a1, b12, rule("A1", "B1", "", 0), func(w *fixture) {
			if err := w.rule("A1", "B1", "", 0, Append); !errors.Is(err, ErrExists) {
				w.t.Errorf("second time: %v", err)
			}
		}), "B2", nil, twice("A1 B1")},
		{80, "a preferred router", func(w *fixture) {
			w.routed(2, "R1")
			w.routes["g2"].Priority = 1
			rule("", "R1", "g2", 0)(w)
		}, "R1", nil, twice("A1 R1 g2")},
	}, 71, 80)
}
