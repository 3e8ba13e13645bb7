package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// rank creates candidates with values by name. Each except the first ranks below the one before it
// by a criterion.
func rank(candidates ...selection.Candidate) []selection.Candidate { return candidates }

func candidate(name string, by selection.Criterion, figures ...selection.Figure) selection.Candidate {
	return selection.Candidate{Name: name, By: by, Figures: figures}
}

func TestExplanations(t *testing.T) {
	tests := []struct {
		name   string
		e      selection.Explanation
		args   []string
		want   string
		status int
	}{
		{
			name: "ranks", args: []string{"10.0.0.9@tcp"},
			e: selection.Explanation{Case: "any NID of a multi-rail peer", Steps: []selection.Step{
				{What: "net", Candidates: rank(candidate("tcp", selection.ByNothing)),
					Excluded: []selection.Exclusion{{Name: "gni", Why: "not a net of this node"}}},
				{What: "NI", Candidates: rank(
					candidate("10.0.0.1@tcp", selection.ByNothing, selection.Figure{Criterion: selection.ByNIHealth, Value: 1000}),
					candidate("10.0.0.2@tcp", selection.ByOrder, selection.Figure{Criterion: selection.ByNIHealth, Value: 1000}),
					candidate("10.0.0.103@tcp", selection.ByNIHealth, selection.Figure{Criterion: selection.ByNIHealth, Value: 900}),
				)},
				{What: "NI 10.0.0.1@tcp is the preferred gateway"},
			}},
			want: `path  0@lo, within the node
case  any NID of a multi-rail peer

1. net
   > tcp  the only one
   x gni  excluded: not a net of this node

2. NI
   > 10.0.0.1@tcp    equal to the next, and first in order
     10.0.0.2@tcp    equal to the one above, but later in order
     10.0.0.103@tcp  NI health 900, the one above has 1000

3. NI 10.0.0.1@tcp is the preferred gateway
`,
		}, {
			name: "all figures", args: []string{"-v", "10.0.0.9@tcp"},
			e: selection.Explanation{Case: "any NID of a multi-rail peer", Steps: []selection.Step{
				{What: "net", Candidates: rank(
					candidate("tcp", selection.ByNothing,
						selection.Figure{Criterion: selection.ByPeerNetHealth, Value: 1000},
						selection.Figure{Criterion: selection.ByNetPriority, Value: 0},
						selection.Figure{Criterion: selection.ByPeerNetTurn, Value: 2}),
					candidate("o2ib", selection.ByPeerNetHealth,
						selection.Figure{Criterion: selection.ByPeerNetHealth, Value: 900},
						selection.Figure{Criterion: selection.ByPeerNetTurn, Value: 12}),
				), Excluded: []selection.Exclusion{{Name: "gni", Why: "not a net of this node"}}},
				{What: "route to o2ib", Candidates: rank(
					candidate("10.0.0.7@tcp", selection.ByNothing,
						selection.Figure{Criterion: selection.ByHops, Value: 1},
						selection.Figure{Criterion: selection.ByPreferredRouter, Value: 1}),
					candidate("10.0.0.8@tcp", selection.ByPreferredRouter,
						selection.Figure{Criterion: selection.ByHops, Value: 1},
						selection.Figure{Criterion: selection.ByPreferredRouter, Value: 0}),
				)},
			}},
			want: `path  0@lo, within the node
case  any NID of a multi-rail peer

1. net
           peer net       net  peer net
             health  priority      turn  why
   > tcp       1000         0         2  peer net health 1000, the next has 900
     o2ib       900         -        12  peer net health 900, the one above has 1000
   x gni                                 excluded: not a net of this node

2. route to o2ib
                         preferred
                   hops     router  why
   > 10.0.0.7@tcp     1        yes  preferred router yes, the next has no
     10.0.0.8@tcp     1         no  preferred router no, the one above has yes
`,
		}, {
			name: "no path", args: []string{"-v", "10.0.0.9@tcp9"}, status: exitFailure,
			e: selection.Explanation{Case: "exactly this NID, behind a router", Err: selection.ErrUnreachable, Steps: []selection.Step{
				{What: "route to tcp9", Excluded: []selection.Exclusion{{Name: "10.0.0.12@tcp", Why: "routing disabled on the gateway"}}},
			}},
			want: `path  none
why   unreachable
case  exactly this NID, behind a router

1. route to tcp9
   x 10.0.0.12@tcp  excluded: routing disabled on the gateway
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node := newCannedNode()
			node.ExplainFunc = func(_, _ lnet.NID, _ uint32) selection.Explanation { return tt.e }
			got := runProgram(program{}, append([]string{"--control-socket", serve(t, node), "explain"}, tt.args...)...)
			if diff := cmp.Diff(ran{tt.want, "", tt.status}, got, cmp.AllowUnexported(ran{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPaths(t *testing.T) {
	a, b, c := mustNID(t, "10.0.0.1@tcp"), mustNID(t, "10.0.0.7@tcp"), mustNID(t, "10.0.0.9@o2ib")
	for want, p := range map[string]*api.Path{
		"none":                         nil,
		"0@lo, within the node":        {From: lnet.LoopbackNID, To: lnet.LoopbackNID},
		"10.0.0.1@tcp -> 10.0.0.7@tcp": {From: a, To: b},
		"10.0.0.1@tcp -> 10.0.0.7@tcp (gateway) -> 10.0.0.9@o2ib": {From: a, Gateway: b, To: c},
	} {
		if got := pathText(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestExplainAsks(t *testing.T) {
	node := newCannedNode()
	var to, source lnet.NID
	var portal uint32
	node.ExplainFunc = func(t, s lnet.NID, p uint32) selection.Explanation {
		to, source, portal = t, s, p
		return selection.Explanation{Case: "a case"}
	}
	path := serve(t, node)
	got := runProgram(program{}, "explain", "--source", "10.0.0.1@tcp", "--portal=0x1a", "10.0.0.9@tcp0", "--control-socket", path)
	if got.status != exitOK || to.String() != "10.0.0.9@tcp" || source.String() != "10.0.0.1@tcp" || portal != 26 {
		t.Errorf("%s from %s portal %d: %+v", to, source, portal, got)
	}
	got = runProgram(program{}, "explain", "10.0.0.9@tcp", "--json", "--control-socket", path)
	var e api.Explanation
	if err := json.Unmarshal([]byte(got.stdout), &e); err != nil || e.Case != "a case" || e.Path == nil {
		t.Error(err, got)
	}
	for _, args := range [][]string{{"10.0.0.[1-2]@tcp"}, {"x"}, {"-p", "64", "10.0.0.9@tcp"}, {"-p", "x", "10.0.0.9@tcp"}, {"-s", "x@", "10.0.0.9@tcp"}} {
		got := runProgram(program{}, append([]string{"--control-socket", path, "explain"}, args...)...)
		if got.status != exitInvalid || got.stdout != "" || !strings.HasPrefix(got.stderr, "---\nshow:\n-     explain:\n") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
