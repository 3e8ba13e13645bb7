package selection

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

// drawView draws a node with some nets and a multi-rail peer with NIDs on these and on
// other nets. Their attributes have few possible values, so that they are often equal.
func drawView(t *rapid.T) (*View, *Peer) {
	few := rapid.Int64Range(0, 2)
	priorities := rapid.SampledFrom([]uint32{NoPriority, NoPriority, 0, 1})
	id := func(net, host int) lnet.NID {
		return lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, uint16(net)), uint32(host))
	}
	var local []*NI
	for net := range rapid.IntRange(1, 3).Draw(t, "nets") {
		for k := range rapid.IntRange(1, 3).Draw(t, "NIs") {
			i := &NI{}
			i.Init(id(net, k+1), rapid.IntRange(-1, 2).Draw(t, "CPT"), nil)
			i.Fatal.Store(rapid.Bool().Draw(t, "fatal"))
			i.Health.Store(int32(500 * few.Draw(t, "health")))
			i.Credits.Store(few.Draw(t, "credits"))
			i.priority.set(priorities.Draw(t, "priority"))
			i.turn.Store(uint64(few.Draw(t, "turn")))
			local = append(local, i)
		}
	}
	v := &View{Local: NewLocal(nil, local), Distances: NewDistances([][]uint32{{10, 21}, {21, 10}}), NUMARange: uint32(10 * few.Draw(t, "range"))}
	for _, n := range v.Local.Nets {
		n.priority.set(priorities.Draw(t, "net priority"))
		n.turn.Store(uint64(few.Draw(t, "net turn")))
	}
	var nis []*PeerNI
	peerNI := func(nid lnet.NID) *PeerNI {
		p := &PeerNI{}
		p.Init(nid, nil)
		p.Up.Store(rapid.Bool().Draw(t, "up"))
		p.Health.Store(int32(500 * few.Draw(t, "peer health")))
		if rapid.IntRange(0, 3).Draw(t, "troubled") == 0 {
			p.SetStalled(rapid.SampledFrom(local).Draw(t, "stalled from"), true)
			p.SetReportedDown(rapid.Bool().Draw(t, "reported down"))
		}
		p.Credits.Store(few.Draw(t, "peer credits"))
		p.Queued.Store(few.Draw(t, "queued"))
		p.priority.set(priorities.Draw(t, "peer priority"))
		p.turn.Store(uint64(few.Draw(t, "peer turn")))
		if rapid.Bool().Draw(t, "prefers") {
			p.sources.Store(newPreferences([]lnet.NID{rapid.SampledFrom(local).Draw(t, "preferred").NID}))
		}
		return p
	}
	for _, net := range rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 1, 4, rapid.ID[int]).Draw(t, "peer nets") {
		for k := range rapid.IntRange(1, 3).Draw(t, "peer NIs") {
			nis = append(nis, peerNI(id(net, 100+k)))
		}
	}
	p := NewPeer(nil, Identity{Primary: nis[0].NID, MultiRail: rapid.Bool().Draw(t, "multi-rail")}, nis)
	for _, n := range p.Nets {
		n.priority.set(priorities.Draw(t, "peer net priority"))
		n.turn.Store(uint64(few.Draw(t, "peer net turn")))
	}
	p.Publish()
	for k := range rapid.IntRange(0, 4).Draw(t, "routes") {
		g := peerNI(id(rapid.IntRange(0, 2).Draw(t, "gateway net"), 200+k))
		NewPeer(nil, Identity{Primary: g.NID}, []*PeerNI{g}).Publish()
		r := &Route{}
		r.Init(lnet.MakeNet(lnet.TypeTCP, uint16(rapid.IntRange(3, 5).Draw(t, "remote net"))), g, uint32(few.Draw(t, "priority")), uint32(few.Draw(t, "hops")))
		r.turn.Store(uint64(few.Draw(t, "route turn")))
		v.Routing = v.Routing.With(r, rapid.IntRange(0, 3).Draw(t, "place"))
	}
	return v, p
}

func drawRequest(t *rapid.T, v *View, p *Peer) Request {
	r := Request{CPT: rapid.IntRange(-1, 2).Draw(t, "memory CPT")}
	nis := rapid.SampledFrom(p.Nets).Draw(t, "net").NIs
	r.Dest = rapid.SampledFrom(nis).Draw(t, "dest")
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		r.Source = rapid.SampledFrom(rapid.SampledFrom(v.Local.Nets).Draw(t, "source net").NIs).Draw(t, "source").NID
	case 1:
		r.Forward, r.FromMultiRail = true, rapid.Bool().Draw(t, "from multi-rail")
		r.From = rapid.SampledFrom(nis).Draw(t, "from")
	case 2:
		r.Reserved, r.Recovery = true, rapid.Bool().Draw(t, "recovery")
	}
	return r
}

func TestExplainChoosesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, p := drawView(t)
		r := drawRequest(t, v, p)
		d, err := v.Choose(&r)
		again, errAgain := v.Choose(&r)
		e := v.Explain(&r)
		if d != again || d != e.Decision || fmt.Sprint(err) != fmt.Sprint(errAgain) || fmt.Sprint(err) != fmt.Sprint(e.Err) {
			t.Fatalf("chose %+v (%v), then %+v (%v), explained %+v (%v)", d, err, again, errAgain, e.Decision, e.Err)
		}
		for _, s := range e.Steps {
			for k, c := range s.Candidates {
				if (c.By == ByNothing) != (k == 0) {
					t.Fatalf("%s: candidate %d is there by %s", s.What, k, c.By)
				}
			}
		}
		if err != nil {
			if !errors.Is(err, ErrUnreachable) || d != (Decision{}) {
				t.Fatalf("%+v, %v", d, err)
			}
			return
		}
		// The choice is the first candidate of each step that has candidates.
		for _, s := range e.Steps {
			if s.What == "NI" && len(s.Candidates) > 0 && s.Candidates[0].Name != d.NI.NID.String() {
				t.Fatalf("%s is ranked first, %s was chosen", s.Candidates[0].Name, d.NI.NID)
			}
			if s.What == "peer NI" && s.Candidates[0].Name != d.Final.NID.String() {
				t.Fatalf("%s is ranked first, %s was chosen", s.Candidates[0].Name, d.Final.NID)
			}
		}
		if d.Next == r.From || d.Next.NID.Net() != d.NI.NID.Net() {
			t.Fatalf("%s to %s, which came from %v", d.NI.NID, d.Next.NID, r.From)
		}
	})
}

// Within a net, an NI whose link is down is chosen only if all links are down.
//
// selection 5.2 (1)
func TestFatalIsTheLastResort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, p := drawView(t)
		p = NewPeer(p, Identity{Primary: p.Primary, MultiRail: true}, p.Nets[0].NIs)
		p.Publish()
		r := Request{Dest: p.Nets[0].NIs[0]}
		d, err := v.Choose(&r)
		if err != nil || !d.NI.Fatal.Load() {
			return
		}
		for _, i := range v.Local.Net(d.NI.NID.Net()).NIs {
			if !i.Fatal.Load() {
				t.Fatalf("%s is down, %s is not", d.NI.NID, i.NID)
			}
		}
	})
}

// Consecutive messages over equal rails are distributed evenly.
//
// selection 5.1 (5)-(6), 5.2 (7), 5.4 (5)
func TestEqualRailsShareEqually(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nets, nis, peerNIs := rapid.IntRange(1, 4).Draw(t, "nets"), rapid.IntRange(1, 5).Draw(t, "NIs"), rapid.IntRange(1, 5).Draw(t, "peer NIs")
		v, peers := grid(nets, nis, 1, peerNIs)
		r := Request{Dest: peers[0].Nets[0].NIs[0]}
		total := rapid.IntRange(1000, 3000).Draw(t, "messages")
		from, to := make(map[*NI]int), make(map[*PeerNI]int)
		for range total {
			d, err := v.Choose(&r)
			if err != nil {
				t.Fatal(err)
			}
			d.Commit()
			from[d.NI]++
			to[d.Next]++
		}
		// Counts within a net never differ by more than one, and neither do those of nets.
		fair := func(n, of int) {
			if share := total / of; n < share-1-nets || n > share+1+nets {
				t.Fatalf("%d of %d messages where %d would be fair", n, total, share)
			}
		}
		for _, n := range v.Local.Nets {
			for _, i := range n.NIs {
				fair(from[i], nets*nis)
			}
		}
		for _, n := range peers[0].Nets {
			for _, i := range n.NIs {
				fair(to[i], nets*peerNIs)
			}
		}
	})
}

// drawRule draws a rule for the nets and NIDs of drawView.
func drawRule(t *rapid.T) Rule {
	net := rapid.SampledFrom([]string{"tcp", "tcp1", "tcp2", "tcp4", "tcp*", "tcp[1-2]", "tcp[0,3,5]"})
	address := rapid.SampledFrom([]string{"", "", "*@", "0.0.0.*@", "0.0.0.1@", "0.0.0.[1-2]@", "0.0.0.[100,102]@", "0.0.0.[200-203/2]@"})
	draw := func(label string) lnet.Pattern {
		d, err := lnet.ParsePattern(address.Draw(t, label) + net.Draw(t, label+" net"))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	var r Rule
	switch rapid.IntRange(0, 3).Draw(t, "kind of rule") {
	case 0:
		r.Src, r.Priority = draw("src"), rapid.Uint32Range(0, 3).Draw(t, "priority")
	case 1:
		r.Dst, r.Priority = draw("dst"), rapid.Uint32Range(0, 3).Draw(t, "priority")
	case 2:
		r.Src, r.Dst = draw("src"), draw("dst")
	default:
		r.Dst, r.Rte = draw("dst"), draw("rte")
	}
	return r
}

// firstMatch returns the effect of the rules on a peer NI, found by a simple search.
func firstMatch(v *View, rules []Rule, nid lnet.NID) (priority uint32, sources, routers []lnet.NID) {
	priority = NoPriority
	havePriority := false
	for _, r := range rules {
		if r.Dst.IsZero() || !r.Dst.MatchNID(nid) {
			continue
		}
		switch {
		case r.HasPriority() && r.Dst.HasAddress() && !havePriority:
			priority, havePriority = r.Priority, true
		case !r.Src.IsZero() && sources == nil:
			sources = v.Local.matching(r.Src)
		case !r.Rte.IsZero() && routers == nil:
			routers = v.Routing.matching(r.Rte)
		}
	}
	return priority, sources, routers
}

// selection 6.5 first, 6.6 (4)
func TestFirstMatchingRuleDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, p := drawView(t)
		var policies Policies
		for range rapid.IntRange(0, 12).Draw(t, "changes") {
			if n := len(policies.Rules()); n > 0 && rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
				if err := policies.Delete(rapid.IntRange(0, n-1).Draw(t, "which")); err != nil {
					t.Fatal(err)
				}
			} else if err := policies.Add(drawRule(t), rapid.IntRange(-1, 5).Draw(t, "place")); err != nil && !errors.Is(err, ErrExists) {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "apply") {
				policies.Compile(v.Local, v.Routing).ApplyPeer(p)
			}
		}
		c := policies.Compile(v.Local, v.Routing)
		c.ApplyPeer(p)
		c.ApplyLocal(v.Local)
		rules := policies.Rules()
		for _, n := range p.Nets {
			for _, i := range n.NIs {
				priority, sources, routers := firstMatch(v, rules, i.NID)
				if i.Priority() != priority || fmt.Sprint(i.Sources()) != fmt.Sprint(sources) || fmt.Sprint(i.Routers()) != fmt.Sprint(routers) {
					t.Fatalf("%s has %d, %v, %v; want %d, %v, %v", i.NID, priorityValue(i.Priority()), i.Sources(), i.Routers(), priorityValue(priority), sources, routers)
				}
			}
		}
		for _, n := range v.Local.Nets {
			want := NoPriority
			for _, r := range rules {
				if r.Dst.IsZero() && !r.Src.HasAddress() && r.Src.MatchNet(n.ID) {
					want = r.Priority
					break
				}
			}
			if n.Priority() != want {
				t.Fatalf("%s has %d, want %d", n.ID, priorityValue(n.Priority()), priorityValue(want))
			}
		}
	})
}

// A rule for a net without a NID of the peer has no effect.
func TestRuleForAnotherNetChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, p := drawView(t)
		other := rapid.SampledFrom([]string{"o2ib", "*@o2ib", "tcp9", "0.0.0.100@tcp9", "*@tcp[9-20]"}).Draw(t, "net")
		d, err := lnet.ParsePattern(other)
		if err != nil {
			t.Fatal(err)
		}
		var policies Policies
		for range rapid.IntRange(0, 4).Draw(t, "rules") {
			_ = policies.Add(drawRule(t), Append)
		}
		choose := func() Decision {
			c := policies.Compile(v.Local, v.Routing)
			c.ApplyLocal(v.Local)
			c.ApplyPeer(p)
			r := Request{Dest: p.Nets[0].NIs[0]}
			decision, _ := v.Choose(&r)
			return decision
		}
		before := choose()
		if err := policies.Add(Rule{Dst: d}, 0); err != nil {
			t.Fatal(err)
		}
		if after := choose(); after != before {
			t.Fatalf("%+v became %+v", before, after)
		}
	})
}
