package config

import (
	"cmp"
	"errors"
	"slices"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// ruleIndexMax is the maximum of the key "idx".
const ruleIndexMax = 1 << 20

// absentPattern is what older releases of Lustre print for a pattern that a rule does not have.
const absentPattern = "NA"

// fileRule is an item of "udsp".
type fileRule struct {
	at       place
	idx      *int
	rule     selection.Rule
	priority *member
}

// addRules adds the items of "udsp" to c, in the order of their idx (lnetctl 9.4). It returns the idx of
// each of c.Rules. Items without an idx are ignored with a warning.
func (c *Config) addRules(list []place) (indexes []int) {
	var rules []fileRule
	for _, at := range list {
		r, ok := readRule(at)
		switch {
		case !ok:
		case r.idx == nil:
			at.warn("the key \"idx\" is missing: the rule is skipped").remedyf("write \"idx: 0\" for the first rule")
		default:
			rules = append(rules, r)
		}
	}
	slices.SortStableFunc(rules, func(a, b fileRule) int { return cmp.Compare(*a.idx, *b.idx) })
	var p selection.Policies
	for k, r := range rules {
		if k > 0 && *rules[k-1].idx == *r.idx {
			r.at.warn("the idx %d occurs twice: rules with the same idx keep the order of the file", *r.idx).remedyf("give the rules the numbers 0, 1, 2 ...")
		}
		err := p.Add(r.rule, selection.Append)
		switch {
		case errors.Is(err, selection.ErrExists):
			r.at.warn("the rule %s occurs twice", r.rule)
		case err != nil:
			r.at.problemf("%v", err).remedyf("write 'src', 'dst' or both; or 'dst' and 'rte'")
		case len(p.Rules()) > len(indexes): // a new rule, not another priority of an existing one
			indexes = append(indexes, *r.idx)
		}
	}
	c.Rules = p.Rules()
	return indexes
}

func readRule(at place) (fileRule, bool) {
	r := fileRule{at: at}
	good := true
	for _, m := range at.members(false) {
		ok := true
		switch m.key {
		case "idx":
			var idx int
			idx, ok = m.value.number(0, ruleIndexMax)
			r.idx = &idx
		case "src":
			r.rule.Src, ok = m.value.rulePattern()
		case "dst":
			r.rule.Dst, ok = m.value.rulePattern()
		case "rte":
			r.rule.Rte, ok = m.value.rulePattern()
		case "priority":
			r.setPriority(m)
		case "action":
			for _, below := range m.value.members(false) {
				if below.key == "priority" {
					r.setPriority(below)
				}
			}
		}
		good = good && ok
	}
	switch {
	case r.priority == nil:
		return r, good
	case !good:
		r.priority.value.priority() // reports errors in the priority too
		return r, false
	case !r.rule.HasPriority():
		r.priority.value.warn("a rule with two patterns has no priority: it is used as a preference")
		return r, true
	}
	r.rule.Priority, good = r.priority.value.priority()
	return r, good
}

// setPriority records m as the priority of the rule. It can be in the rule itself or in its "action". If
// both have one, setPriority reports a problem.
func (r *fileRule) setPriority(m member) {
	if r.priority != nil {
		m.reportRepeated(*r.priority)
	}
	r.priority = &m
}

// rulePattern returns the value as a pattern of a "udsp" rule. A missing pattern is the zero Pattern. It
// returns false if it has reported a problem.
func (p place) rulePattern() (lnet.Pattern, bool) {
	if p.empty() || p.node.Value == absentPattern {
		return lnet.Pattern{}, true
	}
	return p.pattern()
}
