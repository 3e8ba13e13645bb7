package selection

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		name    string
		given   func(w *fixture)
		to      string
		request func(w *fixture, r *Request)
		want    string
	}{
		{"nets, NIs and peer NIs", rails([]string{"A1", "A2", "O1"}, []string{"B1", "B2", "PO", "N1"}, func(w *fixture) {
			w.sends(3, w.to("B1"))
			w.nis["A1"].Fatal.Store(true)
			w.peerNIs["B2"].priority.set(7)
			w.peerNIs["PO"].Health.Store(900)
		}), "B1", nil, `any NID of a multi-rail peer
net
  1. tcp
  2. o2ib                     peer net health 900, tcp has 1000
  -  gni                      not a net of this node
NI
  1. 10.0.0.2@tcp
  2. 10.0.0.1@tcp             link down, 10.0.0.2@tcp has up
peer NI
  1. 10.0.0.12@tcp
  2. 10.0.0.11@tcp            peer NI priority none, 10.0.0.12@tcp has 7
path: 10.0.0.2@tcp to 10.0.0.12@tcp
`},
		{"all is equal", rails(a12, b12), "B1", nil, `any NID of a multi-rail peer
net
  1. tcp
NI
  1. 10.0.0.1@tcp
  2. 10.0.0.2@tcp             equal to 10.0.0.1@tcp
peer NI
  1. 10.0.0.11@tcp
  2. 10.0.0.12@tcp            equal to 10.0.0.11@tcp
path: 10.0.0.1@tcp to 10.0.0.11@tcp
`},
		{"a preference", rails(a1, b12, prefers("B2", "A1")), "B1", nil, `any NID of a multi-rail peer
net
  1. tcp
NI
  1. 10.0.0.1@tcp
peer NI
  1. 10.0.0.12@tcp
  2. 10.0.0.11@tcp            preferred source no, 10.0.0.12@tcp has yes
path: 10.0.0.1@tcp to 10.0.0.12@tcp
`},
		{"trouble", rails(a12, []string{"B1", "B2", "B3"}, stalled("A1", "B1"), stalled("A1", "B2"), down("B3")), "B1", nil, `any NID of a multi-rail peer
net
  1. tcp
NI
  1. 10.0.0.2@tcp
  2. 10.0.0.1@tcp             trouble from here not answering, 10.0.0.2@tcp has none
peer NI
  1. 10.0.0.11@tcp
  2. 10.0.0.12@tcp            equal to 10.0.0.11@tcp
  3. 10.0.0.13@tcp            peer NI trouble link down, 10.0.0.12@tcp has in doubt
path: 10.0.0.2@tcp to 10.0.0.11@tcp
`},
		{"the NI that serves", lone(a12, sent), "B1", nil, `exactly this NID, on a local net
NI 10.0.0.1@tcp is the preferred gateway
path: 10.0.0.1@tcp to 10.0.0.11@tcp
`},
		{"routes", func(w *fixture) {
			w.routed(3, "R1", "N1")
			w.routes["g1"].Up.Store(false)
			w.routes["g2"].Hops = 2
		}, "R1", nil, `any NID of a multi-rail peer
net
  -  o2ib                     not a net of this node
  -  gni                      not a net of this node
remote net
  1. o2ib
  -  gni                      no route
peer NI
  1. 10.1.0.21@o2ib
peer NI of gateway 10.0.0.32@tcp
  1. 10.0.0.32@tcp
peer NI of gateway 10.0.0.33@tcp
  1. 10.0.0.33@tcp
route to o2ib
  1. 10.0.0.33@tcp
  2. 10.0.0.32@tcp            hops 2, 10.0.0.33@tcp has 1
  -  10.0.0.31@tcp            route down
NI
  1. 10.0.0.1@tcp
path: 10.0.0.1@tcp to 10.1.0.21@o2ib through 10.0.0.33@tcp
`},
		{"a reply", func(w *fixture) { w.routed(2, "R1") }, "R1", func(w *fixture, r *Request) {
			r.Source, r.Hop, r.Response = w.nis["A1"].NID, w.peerNIs["g1"], true
		}, `given source, remote destination
back through gateway 10.0.0.31@tcp
path: 10.0.0.1@tcp to 10.1.0.21@o2ib through 10.0.0.31@tcp
`},
		{"nothing", func(w *fixture) {
			w.routed(1, "R1")
			w.peer(Identity{Removed: true}, "g1")
		}, "R1", nil, `any NID of a multi-rail peer
net
  -  o2ib                     not a net of this node
remote net
  1. o2ib
peer NI
  1. 10.1.0.21@o2ib
route to o2ib
  -  10.0.0.31@tcp            gateway dead
no path: 10.1.0.21@o2ib: no usable route to o2ib: unreachable
`},
		{"0@lo", func(w *fixture) {
			w.local("lo")
			w.peer(Identity{}, "lo")
		}, "lo", nil, "loopback\npath: 0@lo\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			c.given(w)
			r := w.to(c.to)
			if c.request != nil {
				c.request(w, &r)
			}
			e := w.view.Explain(&r)
			if diff := cmp.Diff(c.want, fmt.Sprint(e)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestCandidateFigures(t *testing.T) {
	w := newFixture(t)
	rails(a12, b12)(w)
	w.nis["A2"].Credits.Store(-2)
	r := w.to("B1")
	e := w.view.Explain(&r)
	ni := e.Steps[1].Candidates[1]
	want := []Figure{{ByFatal, 0}, {ByNITrouble, 0}, {ByNIHealth, 1000}, {ByNIPriority, -1}, {ByAffinity, 0}, {ByDistance, 0}, {ByNICredits, -2}, {ByNITurn, 0}}
	if diff := cmp.Diff(want, ni.Figures); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if ni.By != ByNICredits || ni.Value(ni.By) != -2 || ni.Value(ByHops) != 0 {
		t.Errorf("by %s, value %d", ni.By, ni.Value(ni.By))
	}
	for c := ByNothing; c <= ByOrder; c++ {
		if text, err := c.MarshalText(); err != nil || c != ByNothing && len(text) == 0 {
			t.Errorf("criterion %d: %q, %v", c, text, err)
		}
	}
	if s := Criterion(99).String(); s != "criterion 99" {
		t.Error(s)
	}
}
