package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// typedTexts returns the rules as text, with their IDs first.
func typedTexts(s *State) (out []string) {
	for k := range s.TypedRules {
		r := &s.TypedRules[k]
		out = append(out, fmt.Sprintf("%d %s %s%s %s %d", r.ID, r.Type, r.Pattern, r.Local, r.Remote, r.Priority))
	}
	return out
}

// Rules without IDs get one on the node. The documents are applied one after another, as in the
// design's examples. An equal rule is not a change, whatever its ID.
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
		{"an ID that another rule has", []string{net, "selection: [{id: 0, type: net, net: tcp, priority: 1}]"}, nil,
			"d:1: selection[0]: a net rule with id 0 already exists; delete that rule first: lnetdctl selection net del --id 0; or remove the id"},
		{"the ID of a rule of another type", []string{nid, "selection: [{id: 0, type: net, net: tcp, priority: 1}]"}, nil,
			"d:1: selection[0]: a nid rule with id 0 already exists; delete that rule first: lnetdctl selection nid del --id 0; or remove the id"},
		{"another priority", []string{net, "selection: [{type: net, net: 'o2ib[1,2]', priority: 9}]"}, nil,
			"d:1: selection[0]: the net rule with id 0 has the same patterns, with priority 0; delete that rule first: lnetdctl selection net del --id 0"},
		{"after the largest ID", []string{"selection: [{id: 2147483647, type: net, net: tcp, priority: 1}, {type: net, net: tcp1, priority: 1}]", nid},
			[]string{"0 net tcp1  1", "1 nid 10.0.0.[0-255]@tcp  1", "2147483647 net tcp  1"}, ""},
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
					want, _, err := Add(&have, "d", &c, testDrivers)
					var list Problems
					if errors.As(err, &list) {
						problem = list[0].Error()
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

// After a document replaces the configuration, the rules that remain keep their IDs. New rules
// have the IDs that the document gives them, which take precedence.
//
// lnetctl 11 (5)
func TestTypedRulesKeepTheirIDs(t *testing.T) {
	const a, b, c = "type: net, net: tcp, priority: 1", "type: net, net: tcp1, priority: 2", "type: nid, nid: 10.0.0.1@tcp, priority: 3"
	const have = "selection: [{id: 3, " + a + "}, {id: 5, " + b + "}]"
	tests := []struct {
		name, document string
		want           []string
	}{
		{"without IDs, in another order", "{" + b + "}, {" + a + "}", []string{"3 net tcp  1", "5 net tcp1  2"}},
		{"with other IDs", "{id: 0, " + a + "}, {id: 3, " + b + "}", []string{"3 net tcp  1", "5 net tcp1  2"}},
		{"with exchanged IDs", "{id: 5, " + a + "}, {id: 3, " + b + "}", []string{"3 net tcp  1", "5 net tcp1  2"}},
		{"with a new one", "{" + c + "}, {" + b + "}", []string{"5 net tcp1  2", "6 nid 10.0.0.1@tcp  3"}},
		{"with a new one that has an ID", "{id: 5, " + c + "}, {" + a + "}, {" + b + "}", []string{"3 net tcp  1", "5 nid 10.0.0.1@tcp  3", "6 net tcp1  2"}},
		{"one after another", "{id: 3, " + c + "}, {id: 5, " + a + "}, {id: 9, " + b + "}", []string{"3 nid 10.0.0.1@tcp  3", "5 net tcp  1", "9 net tcp1  2"}},
		{"with another priority", "{type: net, net: tcp1, priority: 7}", []string{"5 net tcp1  7"}},
		{"with another priority and ID", "{id: 1, type: net, net: tcp1, priority: 7}", []string{"1 net tcp1  7"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			has, doc := mustParse(t, have), mustParse(t, "selection: ["+tt.document+"]")
			want, _, err := Replace(&has.State, "d", &doc)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, typedTexts(&want)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Conflicting rules in one document.
func TestTypedRulesThatClash(t *testing.T) {
	for items, want := range map[string]string{
		"{id: 1, type: net, net: tcp, priority: 1}, {id: 1, type: nid, nid: 10.0.0.1@tcp, priority: 1}": "d:1:56: selection[1]: a net rule with id 1 already exists; " +
			"give it another id, or remove the id",
		"{type: net, net: tcp, priority: 1}, {type: net, net: tcp, priority: 2}": "d:1:49: selection[1]: the net rule with id 0 has the same patterns, with priority 1; " +
			"write only one of them",
	} {
		_, err := Parse("d", []byte("selection: ["+items+"]"), testDrivers)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", items, err, want)
		}
	}
}

// Patterns of several types, or of another type than that of the rule, contradict each other,
// also where a rule is deleted.
//
// lnetctl 11 (1), 11 (6)
func TestTypedRulesOfTwoTypes(t *testing.T) {
	const several, other = "'%s' and '%s' cannot be combined: they belong to the rule types %s and %s", "a rule of type %s cannot have '%s'"
	for _, tt := range []struct {
		item string
		want []string // the same if the type is absent
	}{
		{"type: nid, nid: 10.0.0.1@tcp, net: 10.0.0.2@tcp", []string{"net: " + fmt.Sprintf(several, "nid", "net", "nid", "net")}},
		{"type: nid, net: 10.0.0.2@tcp, nid: 10.0.0.1@tcp", []string{"net: " + fmt.Sprintf(several, "nid", "net", "nid", "net")}},
		{"type: net, nid: tcp, net: tcp1", []string{"nid: " + fmt.Sprintf(several, "net", "nid", "net", "nid")}},
		{"type: net, net: tcp, local: tcp, remote: tcp", []string{
			"local: " + fmt.Sprintf(several, "net", "local", "net", "peer"), "remote: " + fmt.Sprintf(several, "net", "remote", "net", "peer"),
		}},
		{"type: peer, local: tcp, nid: 10.0.0.1@tcp, remote: tcp", []string{"nid: " + fmt.Sprintf(several, "local", "nid", "peer", "nid")}},
		{"type: net, nid: tcp", []string{"nid: " + fmt.Sprintf(other, "net", "nid")}},
		{"type: nid, net: 10.0.0.1@tcp", []string{"net: " + fmt.Sprintf(other, "nid", "net")}},
		{"type: peer, net: tcp", []string{"net: " + fmt.Sprintf(other, "peer", "net")}},
		{"id: 0, net: tcp, nid: 10.0.0.1@tcp", []string{"nid: " + fmt.Sprintf(several, "net", "nid", "net", "nid")}},
	} {
		text := []byte("selection: [{" + tt.item + ", priority: 0}]")
		_, add := Parse("d", text, testDrivers)
		_, del := ParseDeletion(t.Context(), "d", text, testDrivers)
		for _, err := range []error{add, del} {
			var got Problems
			errors.As(err, &got)
			var lines []string
			for _, line := range plain(got) {
				if !strings.Contains(line, "is missing") {
					lines = append(lines, strings.TrimPrefix(line, "d:1: selection[0]."))
				}
			}
			if diff := cmp.Diff(tt.want, lines); diff != "" {
				t.Errorf("%s: %s", tt.item, diff)
			}
		}
	}
}

// An item that identifies no rule to delete gives a warning that explains where to find the ID.
// It does not suggest the first rule.
func TestRulesThatAreNotNamed(t *testing.T) {
	for text, want := range map[string]string{
		"selection: [{priority: 0}]": "write the id of the rule from the output of lnetdctl export, or its type and patterns",
		"selection: [{type: net}]":   "write the id of the rule from the output of lnetdctl export, or its type and patterns",
		"udsp: [{src: tcp}]":         "give the idx that lnetdctl udsp show prints for the rule",
	} {
		d, err := ParseDeletion(t.Context(), "d", []byte(text), testDrivers)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Warnings) != 1 || d.Warnings[0].Remedy != want || len(d.Rules)+len(d.TypedRules) > 0 {
			t.Errorf("%s: %v, want %q", text, d.Warnings, want)
		}
	}
}

// Rules are deleted by ID, by what they match, or by both. Priorities are ignored.
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
		{"id of another type", "{id: 1, type: net}", []int{0, 1, 2, 3}, "rule with id 1, type net does not exist; nothing is deleted"},
		{"net", "{type: net, net: tcp}", []int{1, 2, 3}, ""},
		{"as it was added", "{type: nid, nid: 10.0.0.*@tcp, priority: 1}", []int{0, 2, 3}, ""},
		{"with another priority", "{type: nid, nid: 10.0.0.*@tcp, priority: 9}", []int{0, 2, 3}, ""},
		{"pair", "{type: peer, local: tcp, remote: tcp1}", []int{0, 1, 3}, ""},
		{"id and pair", "{id: 3, type: peer, local: tcp1, remote: tcp1}", []int{0, 1, 2}, ""},
		{"id and another's pair", "{id: 3, type: peer, local: tcp, remote: tcp1}", []int{0, 1, 2, 3},
			"rule with id 3, type peer, local tcp, remote tcp1 does not exist; nothing is deleted"},
		{"what there is not", "{type: net, net: tcp7}", []int{0, 1, 2, 3}, "rule with type net, pattern tcp7 does not exist; nothing is deleted"},
		{"a type alone", "{type: net}", []int{0, 1, 2, 3}, `neither "id" nor a pattern is given: the rule is skipped`},
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
