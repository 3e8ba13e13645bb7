package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

func ruleTexts(rules []selection.Rule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, r.String())
	}
	return out
}

// lnetctl 9.4
func TestRules(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
		warns      string // text that the warning contains
	}{
		{"by idx, not by place", `
udsp:
    - idx: 3
      dst: 10.0.0.1@tcp
      rte: 10.0.0.20@tcp
    - idx: 1
      src: tcp
      dst: 10.78.0.12@tcp1
    - idx: 0
      src: tcp
      action:
          priority: 0
    - idx: 2
      src: 10.78.0.[0-255]@tcp1
      priority: 7
`, []string{
			"--src tcp --priority 0", "--src tcp --dst 10.78.0.12@tcp1", "--src 10.78.0.[0-255]@tcp1 --priority 7",
			"--dst 10.0.0.1@tcp --rte 10.0.0.20@tcp",
		}, ""},
		{"older releases print what is not there", "udsp: [{idx: 0, src: tcp, dst: NA, rte: NA, action: {priority: 0}}]\n",
			[]string{"--src tcp --priority 0"}, ""},
		{"no priority is the best", "udsp: [{idx: 0, dst: tcp}]\n", []string{"--dst tcp --priority 0"}, ""},
		{"the same match again", "udsp: [{idx: 0, dst: tcp}, {idx: 1, src: tcp1}, {idx: 2, dst: tcp, priority: 5}]\n",
			[]string{"--dst tcp --priority 5", "--src tcp1 --priority 0"}, ""},
		{"the same rule again", "udsp:\n  - {idx: 0, dst: tcp}\n  - {idx: 1, dst: tcp}\n",
			[]string{"--dst tcp --priority 0"}, "f:3: udsp[1]: the rule --dst tcp --priority 0 occurs twice"},
		{"no idx", "udsp: [{src: tcp}]\n", nil, `f:1: udsp[0]: the key "idx" is missing: the rule is skipped`},
		{"a pair with a priority", "udsp: [{idx: 0, src: tcp, dst: tcp1, priority: 3}]\n", []string{"--src tcp --dst tcp1"},
			"f:1: udsp[0].priority: a rule with two patterns has no priority"},
		{"patterns", "udsp: [{idx: 0, src: 'tcp*'}, {idx: 1, dst: '*@o2ib[1,2]'}]\n",
			[]string{"--src tcp[0-4294967295] --priority 0", "--dst [0-255].[0-255].[0-255].[0-255]@o2ib[1,2] --priority 0"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, tt.text)
			if diff := cmp.Diff(tt.want, ruleTexts(c.Rules)); diff != "" {
				t.Error(diff)
			}
			warnings := strings.Join(plain(c.Warnings), "\n")
			if !strings.HasPrefix(warnings, tt.warns) || tt.warns == "" && warnings != "" {
				t.Errorf("warnings %q, want %q", warnings, tt.warns)
			}
		})
	}
}

func TestRuleErrors(t *testing.T) {
	testErrors(t, []errorTest{
		{"src", "udsp:\n  - idx: 0\n    src: foo\n", []string{`f:3: udsp[0].src: "foo": `}},
		{"rte alone", "udsp:\n  - {idx: 0, rte: tcp}\n", []string{"f:2: udsp[0]: "}},
		{"all three", "udsp:\n  - {idx: 0, src: tcp, dst: tcp1, rte: tcp2}\n", []string{"f:2: udsp[0]: "}},
		{"nothing", "udsp:\n  - {idx: 0}\n", []string{"f:2: udsp[0]: "}},
		{"idx", "udsp:\n  - {idx: -1, src: tcp}\n", []string{"f:2: udsp[0].idx: -1 is not in 0 to "}},
		{"priority", "udsp:\n  - {idx: 0, src: tcp, action: {priority: best}}\n", []string{`f:2: udsp[0].action.priority: "best" is not`}},
	})
}

// lnetctl 11 (1)
func TestTypedRules(t *testing.T) {
	pattern := func(s string) lnet.Pattern {
		d, err := lnet.ParsePattern(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	c := mustParse(t, `
selection:
    - type: net
      net: o2ib[1-3, 7]
      priority: 0
lnetd:
    selection:
        - id: 1
          type: peer
          local: 10.0.0.*@tcp
          remote: 10.0.1.1@tcp
          priority: 3
        - type: nid
          nid: 10.0.0.1@tcp
          priority: 2
`)
	want := []selection.TypedRule{
		{ID: 1, Type: selection.RulePeer, Local: pattern("10.0.0.*@tcp"), Remote: pattern("10.0.1.1@tcp"), Priority: 3},
		{ID: 2, Type: selection.RuleNet, Pattern: pattern("o2ib[1-3, 7]")},
		{ID: 3, Type: selection.RuleNID, Pattern: pattern("10.0.0.1@tcp"), Priority: 2},
	}
	same := cmp.Comparer(func(a, b lnet.Pattern) bool { return a.Equal(b) })
	if diff := cmp.Diff(want, c.TypedRules, same); diff != "" {
		t.Error(diff)
	}
}

func TestTypedRuleErrors(t *testing.T) {
	testErrors(t, []errorTest{
		{"no type", "selection:\n  - {net: tcp, priority: 1}\n", []string{`f:2: selection[0]: the key "type" is missing`}},
		{"no priority", "selection:\n  - {type: net, net: tcp}\n", []string{`f:2: selection[0]: the key "priority" is missing`}},
		{"type", "selection:\n  - {type: ni, net: tcp, priority: 1}\n", []string{`f:2: selection[0].type: "ni" is not one of net, nid, peer`}},
		{"half a pair", "selection:\n  - {type: peer, local: tcp, priority: 1}\n", []string{"f:2: selection[0]: "}},
		{"a NID for a net", "lnetd:\n  selection:\n  - {type: net, net: 1@gni, priority: 1}\n", []string{"f:3: lnetd.selection[0]: "}},
		{"an ID twice", "selection:\n  - {id: 1, type: net, net: tcp, priority: 1}\n  - {id: 1, type: net, net: tcp1, priority: 1}\n",
			[]string{"f:3: selection[1]: "}},
		{"a rule twice, with two priorities", "selection:\n  - {type: net, net: tcp, priority: 1}\n  - {type: net, net: tcp, priority: 2}\n",
			[]string{"f:3: selection[1]: "}},
	})
}

// Two rules with the same idx are both used, in the order of the file, with a warning.
func TestIndexTwice(t *testing.T) {
	c := mustParse(t, "udsp:\n  - {idx: 1, src: tcp1}\n  - {idx: 0, src: tcp}\n  - {idx: 1, src: tcp2}\n")
	want := []string{"f:4: udsp[2]: the idx 1 occurs twice: rules with the same idx keep the order of the file"}
	if diff := cmp.Diff(want, plain(c.Warnings)); diff != "" || len(c.Rules) != 3 {
		t.Errorf("%s\n%v", diff, c.Rules)
	}
}
