package selection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// stalled marks a peer NI that does not acknowledge messages from an NI; down marks one
// that its node reports as down.
func stalled(from, to string) func(w *fixture) {
	return func(w *fixture) { w.peerNIs[to].SetStalled(w.nis[from], true) }
}

func down(name string) func(w *fixture) {
	return func(w *fixture) { w.peerNIs[name].SetReportedDown(true) }
}

// The path with less trouble is chosen, whatever its other attributes. If all paths have
// the same trouble, it has no effect.
func TestTrouble(t *testing.T) {
	worse := func(name string) func(w *fixture) {
		return func(w *fixture) { w.peerNIs[name].Health.Store(100) }
	}
	fatal := func(name string) func(w *fixture) {
		return func(w *fixture) { w.nis[name].Fatal.Store(true) }
	}
	for _, c := range []row{
		{name: "a peer NI stalls", given: rails(a1, b12, stalled("A1", "B1")), want: twice("A1 B2")},
		{name: "a peer NI is down", given: rails(a1, b12, down("B1")), want: twice("A1 B2")},
		{name: "before health", given: rails(a1, b12, stalled("A1", "B1"), worse("B2")), want: twice("A1 B2")},
		{name: "stalled rather than down", given: rails(a1, b12, stalled("A1", "B1"), down("B2")), want: twice("A1 B1")},
		{name: "all stall", given: rails(a1, b12, stalled("A1", "B1"), stalled("A1", "B2")), want: twice("A1 B1", "A1 B2")},
		{name: "all are down", given: rails(a12, b12, down("B1"), down("B2")), want: twice("A1 B1", "A2 B2")},
		{name: "the only one stalls", given: rails(a1, b1, stalled("A1", "B1")), want: twice("A1 B1")},
		{name: "from one NI", given: rails(a12, b1, stalled("A1", "B1")), want: twice("A2 B1")},
		{name: "from one NI to one peer NI: neither is used", given: rails(a12, b12, stalled("A1", "B1")), want: twice("A2 B2")},
		{name: "two ways cross", given: rails(a12, b12, stalled("A1", "B1"), stalled("A2", "B2")), want: twice("A1 B2", "A2 B1")},
		{name: "one end of both ways", given: rails(a12, b12, stalled("A1", "B1"), stalled("A1", "B2")), want: twice("A2 B1", "A2 B2")},
		{name: "an end in doubt rather than one that is down", given: rails(a12, b12, stalled("A1", "B1"), down("B2")), want: twice("A2 B1")},
		{name: "an NI whose link is down is worse", given: rails(a12, b1, stalled("A1", "B1"), fatal("A2")), want: twice("A1 B1")},
		{name: "a net", given: rails(both, bPO, stalled("A1", "B1")), want: twice("O1 PO")},
		{name: "a net that is down", given: rails(both, bPO, down("B1"), worse("PO")), want: twice("O1 PO")},
		{name: "a net whose link is down is worse", given: rails(both, bPO, stalled("A1", "B1"), fatal("O1")), want: twice("A1 B1")},
		{name: "a net of which one NI stalls", given: rails([]string{"A1", "A2", "O1"}, bPO, stalled("A1", "B1")), want: []string{"A2 B1", "O1 PO", "A2 B1", "O1 PO"}},
		{name: "over", given: rails(a1, b12, stalled("A1", "B1"), down("B1"), func(w *fixture) {
			w.peerNIs["B1"].SetStalled(w.nis["A1"], false)
			w.peerNIs["B1"].SetReportedDown(false)
		}), want: twice("A1 B1", "A1 B2")},
		{name: "a lone peer stays with the NI that serves it", given: lone(a12, sent, stalled("A1", "B1")), want: twice("A1 B1")},
		{name: "a recovery ping goes where it shall", given: rails(a1, b12, stalled("A1", "B1")), want: twice("A1 B1"), request: func(_ *fixture, r *Request) {
			r.Recovery, r.Reserved = true, true
		}},
		{name: "an answer goes where it shall", given: rails(a12, b12, stalled("A1", "B1")), want: twice("A1 B1"), request: func(w *fixture, r *Request) {
			r.Source, r.Response = nidOf(w.t, "A1"), true
		}},
		{name: "a gateway", given: func(w *fixture) {
			w.routed(2, "R1")
			stalled("A1", "g1")(w)
			w.routes["g2"].Priority = 7
		}, to: "R1", want: twice("A1 R1 g2")},
		{name: "a NID behind gateways", given: func(w *fixture) {
			w.routed(1, "R1", "R2")
			down("R1")(w)
		}, to: "R1", want: twice("A1 R2 g1")},
		{name: "a router may pass on to another NID", given: rails([]string{"A1", "O1"}, []string{"R1", "R2"}, down("R1")), to: "R1", want: twice("O1 R2"), request: func(_ *fixture, r *Request) {
			r.Forward, r.FromMultiRail = true, true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			c.given(w)
			if c.to == "" {
				c.to = "B1"
			}
			r := w.to(c.to)
			if c.request != nil {
				c.request(w, &r)
			}
			if diff := cmp.Diff(c.want, w.sends(len(c.want), r)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Each change of trouble is reported once, even if more NIs than slots were added and
// removed.
func TestTroubleChangesAreReportedOnce(t *testing.T) {
	w := newFixture(t)
	rails(a1, b1)(w)
	for range 2 * troubleBits {
		w.nis = map[string]*NI{}
		w.local("A1")
		i, p := w.nis["A1"], w.peerNIs["B1"]
		for _, s := range []bool{true, false} {
			if !p.SetStalled(i, s) || p.SetStalled(i, s) || !p.SetReportedDown(s) || p.SetReportedDown(s) {
				t.Fatalf("stalled and down %t: not news once", s)
			}
			if want := map[bool]Trouble{true: ReportedDown}[s]; p.Trouble(i) != want || p.Trouble(nil) != want {
				t.Fatalf("trouble %s, want %s", p.Trouble(i), want)
			}
		}
	}
}

// Whatever the other attributes: in a net with a link up, no path is chosen if another one
// has less trouble. Trouble alone makes no peer unreachable.
func TestTroubleIsTheLastResort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, p := drawView(t)
		p = NewPeer(p, Identity{Primary: p.Primary, MultiRail: true}, p.Nets[0].NIs)
		p.Publish()
		r := Request{Dest: p.Nets[0].NIs[0], CPT: UnknownCPT}
		_, err := v.Choose(&r)
		for _, q := range p.Nets[0].NIs {
			q.troubles.Store(0)
		}
		if _, without := v.Choose(&r); (err == nil) != (without == nil) {
			t.Fatalf("with trouble %v, without %v", err, without)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		v, p := drawView(t)
		p = NewPeer(p, Identity{Primary: p.Primary, MultiRail: true}, p.Nets[0].NIs)
		p.Publish()
		r := Request{Dest: p.Nets[0].NIs[0], CPT: UnknownCPT}
		d, err := v.Choose(&r)
		if err != nil || d.Routed() || d.NI.Fatal.Load() {
			return
		}
		for _, i := range v.Local.Net(d.NI.NID.Net()).NIs {
			for _, q := range p.Nets[0].NIs {
				if !i.Fatal.Load() && q.Trouble(i) < d.Final.Trouble(d.NI) {
					t.Fatalf("%s to %s: %s; %s to %s: %s", d.NI.NID, d.Final.NID, d.Final.Trouble(d.NI), i.NID, q.NID, q.Trouble(i))
				}
			}
		}
	})
}
