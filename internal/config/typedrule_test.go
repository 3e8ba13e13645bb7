package config

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// typedTexts are the rules with their IDs first.
func typedTexts(s *State) (out []string) {
	for k := range s.TypedRules {
		r := &s.TypedRules[k]
		out = append(out, fmt.Sprintf("%d %s %s%s %s %d", r.ID, r.Type, r.Pattern, r.Local, r.Remote, r.Priority))
	}
	return out
}

// Rules without IDs get theirs on the node, one document after another, as the design's own
// examples are. The same rule is no change, whichever ID it has.
//
// lnetctl 11 (5)
func TestTypedRulesOfSeveralDocuments(t *testing.T) {
	const (
		net  = "selection:\n  - type: net\n    net: o2ib[1,2]\n    priority: 0\n"
		nid  = "selection:\n  - type: nid\n    nid: 10.0.0.*@tcp\n    priority: 1\n"
		peer = "selection:\n  - type: peer\n    local: 10.0.0.1@tcp\n    remote: 10.0.0.*@tcp\n    priority: 2\n"
	)
	tests := []struct {
		name      string
		documents []string
		want      []string
		problem   string
	}{
		{"the design's examples", []string{net, nid, peer, nid}, []string{"0 net o2ib[1,2]  0", "1 nid 10.0.0.[0-255]@tcp  1", "2 peer 10.0.0.1@tcp 10.0.0.[0-255]@tcp 2"}, ""},
		{"beside one with an ID", []string{"selection: [{id: 5, type: net, net: tcp, priority: 3}]", net}, []string{"5 net tcp  3", "6 net o2ib[1,2]  0"}, ""},
		{"the same under another ID", []string{net, "selection: [{id: 7, type: net, net: 'o2ib[1,2]', priority: 0}]"}, []string{"0 net o2ib[1,2]  0"}, ""},
		{"IDs of the document come first", []string{net, "selection: [{type: net, net: tcp, priority: 1}, {id: 1, type: net, net: tcp1, priority: 1}]"},
			[]string{"0 net o2ib[1,2]  0", "1 net tcp1  1", "2 net tcp  1"}, ""},
		{"twice in a document", []string{"selection: [{type: net, net: tcp, priority: 1}, {type: net, net: tcp, priority: 1}]"}, []string{"0 net tcp  1"}, ""},
		{"an ID that another rule has", []string{net, "selection: [{id: 0, type: net, net: tcp, priority: 1}]"}, nil, "add net rule: like the one with id 0: rule exists"},
		{"another priority", []string{net, "selection: [{type: net, net: 'o2ib[1,2]', priority: 9}]"}, nil, "add net rule: like the one with id 0: rule exists"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var have State
			problem := ""
			for _, text := range tt.documents {
				for range 2 {
					c, err := Parse("d", []byte(text), testDrivers)
					if err != nil {
						t.Fatal(err)
					}
					want, _, err := Add(&have, "d", &c)
					var list Problems
					if errors.As(err, &list) {
						problem = list[0].Text
						continue
					}
					have = want
				}
			}
			if tt.problem != "" {
				if problem != tt.problem {
					t.Errorf("problem %q, want %q", problem, tt.problem)
				}
				return
			}
			if diff := cmp.Diff(tt.want, typedTexts(&have)); diff != "" || problem != "" {
				t.Error(diff, problem)
			}
		})
	}
}

// Rules are deleted by ID, by what they match, or by both; priorities do not count.
//
// lnetctl 11 (6)
func TestTypedRulesAreDeleted(t *testing.T) {
	const have = `
selection:
  - {id: 0, type: net, net: tcp, priority: 0}
  - {id: 1, type: nid, nid: 10.0.0.*@tcp, priority: 1}
  - {id: 2, type: peer, local: tcp, remote: tcp1, priority: 2}
  - {id: 3, type: peer, local: tcp1, remote: tcp1, priority: 2}
`
	tests := []struct {
		name, item string
		want       []int
		said       string
	}{
		{"id", "{id: 1}", []int{0, 2, 3}, ""},
		{"id and type", "{id: 1, type: nid}", []int{0, 2, 3}, ""},
		{"id of another type", "{id: 1, type: net}", []int{0, 1, 2, 3}, "there is no rule with id 1, type net: nothing is deleted"},
		{"net", "{type: net, net: tcp}", []int{1, 2, 3}, ""},
		{"as it was added", "{type: nid, nid: 10.0.0.*@tcp, priority: 1}", []int{0, 2, 3}, ""},
		{"with another priority", "{type: nid, nid: 10.0.0.*@tcp, priority: 9}", []int{0, 2, 3}, ""},
		{"pair", "{type: peer, local: tcp, remote: tcp1}", []int{0, 1, 3}, ""},
		{"id and pair", "{id: 3, type: peer, local: tcp1, remote: tcp1}", []int{0, 1, 2}, ""},
		{"id and another's pair", "{id: 3, type: peer, local: tcp, remote: tcp1}", []int{0, 1, 2, 3},
			"there is no rule with id 3, type peer, local tcp, remote tcp1: nothing is deleted"},
		{"what there is not", "{type: net, net: tcp7}", []int{0, 1, 2, 3}, "there is no rule with type net, pattern tcp7: nothing is deleted"},
		{"a type alone", "{type: net}", []int{0, 1, 2, 3}, `neither "id" nor a pattern is there: the rule is skipped`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, have)
			d, err := ParseDeletion(t.Context(), "d", []byte("selection: ["+tt.item+"]"), testDrivers)
			if err != nil {
				t.Fatal(err)
			}
			left, warnings, err := Delete(&c.State, &d)
			if err != nil {
				t.Fatal(err)
			}
			var ids []int
			for _, r := range left.TypedRules {
				ids = append(ids, r.ID)
			}
			var said []string
			if tt.said != "" {
				said = []string{tt.said}
			}
			if diff := cmp.Diff(tt.want, ids) + cmp.Diff(said, append(warningTexts(d.Warnings), warningTexts(warnings)...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
