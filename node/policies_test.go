package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// discovery 2.5 (2)
// selection 5.1 (2), 5.1 (4), 6.3 (2), 6.3 (4), 6.5 events (1), 6.5 events (3)
// selection 6.6 (1)-(2), 8.6 (71)-(72)
func TestPoliciesMoveTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric()
		a, b := f.discovering(t, a0, a1), f.discovering(t, b0, b1)
		inbox(t, b)
		ctx := context.Background()
		// The rule exists before the peer.
		rule := func(src, dst string) selection.Rule {
			var r selection.Rule
			var err error
			for _, part := range []struct {
				d *lnet.Pattern
				s string
			}{{&r.Src, src}, {&r.Dst, dst}} {
				if part.s != "" {
					if *part.d, err = lnet.ParsePattern(part.s); err != nil {
						t.Fatal(err)
					}
				}
			}
			return r
		}
		add := func(r selection.Rule) func(*selection.Policies) error {
			return func(p *selection.Policies) error { return p.Add(r, selection.Append) }
		}
		if err := a.Admin().ChangePolicies(ctx, add(rule("", "tcp1"))); err != nil {
			t.Fatal(err)
		}
		share := func() (first, second uint64) {
			t.Helper()
			if err := say(t, a, b0); err != nil { // discovery has ended
				t.Fatal(err)
			}
			synctest.Wait()
			before := a.NIs()
			for range 100 {
				if err := say(t, a, b0); err != nil {
					t.Fatal(err)
				}
			}
			after := a.NIs()
			return after[1].Traffic.Sent.Put - before[1].Traffic.Sent.Put, after[2].Traffic.Sent.Put - before[2].Traffic.Sent.Put
		}
		if x, y := share(); x != 0 || y != 100 {
			t.Errorf("with tcp1 preferred: %d and %d", x, y)
		}
		if p, _ := a.Peer(parseNID(t, b0)); p.NIs[1].Policy.NetPriority != 0 || p.NIs[0].Policy.NetPriority != selection.NoPriority {
			t.Errorf("policies %+v", p.NIs)
		}
		if err := a.Admin().ChangePolicies(ctx, add(rule("", "tcp1"))); !errors.Is(err, selection.ErrExists) || len(a.Admin().Rules()) != 1 {
			t.Errorf("the rule twice: %v, %d rules", err, len(a.Admin().Rules()))
		}
		if err := a.Admin().ChangePolicies(ctx, func(p *selection.Policies) error { return p.Delete(0) }); err != nil {
			t.Fatal(err)
		}
		if x, y := share(); x != 50 || y != 50 {
			t.Errorf("without rules: %d and %d", x, y)
		}
		if err := a.Admin().ChangePolicies(ctx, add(rule("tcp", ""))); err != nil {
			t.Fatal(err)
		}
		if x, y := share(); x != 100 || y != 0 {
			t.Errorf("with our tcp preferred: %d and %d", x, y)
		}
		e := a.Admin().Explain(parseNID(t, b1), node.ExplainOptions{})
		if e.Err != nil || e.Decision.NI.NID != parseNID(t, a0) || e.Steps[0].Candidates[1].By != selection.ByNetPriority {
			t.Errorf("explanation:\n%s", e.String())
		}
	})
}
