package config

import (
	"cmp"
	"errors"
	"slices"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// ruleIndexMax bounds "idx" and "id".
const ruleIndexMax = 1 << 20

// notThere is how older releases print a pattern that a rule has not.
const notThere = "NA"

// fileRule is an item of "udsp".
type fileRule struct {
	at       place
	idx      *int
	rule     selection.Rule
	priority *place
}

// addRules takes the items of "udsp" in the order of their idx (lnetctl 9.4).
func (c *Config) addRules(list []place) {
	var rules []fileRule
	for _, at := range list {
		r, ok := readRule(at)
		switch {
		case !ok:
		case r.idx == nil:
			at.warn("the key \"idx\" is missing: the rule is skipped")
		default:
			rules = append(rules, r)
		}
	}
	slices.SortStableFunc(rules, func(a, b fileRule) int { return cmp.Compare(*a.idx, *b.idx) })
	var p selection.Policies
	for _, r := range rules {
		err := p.Add(r.rule, selection.Append)
		switch {
		case errors.Is(err, selection.ErrExists):
			r.at.warn("the rule %s stands twice", r.rule)
		case err != nil:
			r.at.wrong("%v", err)
		}
	}
	c.Rules = p.Rules()
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
			r.priority = &m.value
		case "action":
			if p, ok := m.value.member("priority"); ok {
				r.priority = &p
			}
		default:
			m.value.warn("unknown key, ignored")
		}
		good = good && ok
	}
	if r.priority == nil || !good {
		return r, good
	}
	if !r.rule.HasPriority() {
		r.priority.warn("a rule of two patterns has no priority: it is taken as a preference")
		return r, true
	}
	r.rule.Priority, good = r.priority.priority()
	return r, good
}

// rulePattern reads a pattern of "udsp".
func (p place) rulePattern() (lnet.Pattern, bool) {
	if p.empty() || p.node.Value == notThere {
		return lnet.Pattern{}, true
	}
	return p.pattern()
}

// ruleTypes are the values of "type" in "selection".
var ruleTypes = map[string]selection.RuleType{
	selection.RuleNet.String():  selection.RuleNet,
	selection.RuleNID.String():  selection.RuleNID,
	selection.RulePeer.String(): selection.RulePeer,
}

// addTypedRules takes the items of "selection" (lnetctl 11). Those without an ID
// get what is free when those with one have theirs.
func (c *Config) addTypedRules(list []place) {
	type item struct {
		at   place
		rule selection.TypedRule
	}
	var items []item
	for _, at := range list {
		if r, ok := readTypedRule(at); ok {
			items = append(items, item{at, r})
		}
	}
	slices.SortStableFunc(items, func(a, b item) int {
		return cmp.Compare(unsigned(a.rule.ID), unsigned(b.rule.ID))
	})
	var p selection.Policies
	for _, i := range items {
		if _, err := p.AddTyped(i.rule); err != nil {
			i.at.wrong("%v", err)
		}
	}
	c.TypedRules = p.Typed()
}

// unsigned puts AnyID behind all IDs.
func unsigned(id int) uint { return uint(id) }

func readTypedRule(at place) (selection.TypedRule, bool) {
	r := selection.TypedRule{ID: selection.AnyID}
	var typ, priority *place
	good := true
	for _, m := range at.members(false) {
		ok := true
		switch m.key {
		case "type":
			typ = &m.value
		case "net", "nid":
			r.Pattern, ok = m.value.pattern()
		case "local":
			r.Local, ok = m.value.pattern()
		case "remote":
			r.Remote, ok = m.value.pattern()
		case "priority":
			priority = &m.value
			r.Priority, ok = m.value.priority()
		case "id":
			r.ID, ok = m.value.number(0, ruleIndexMax)
		default:
			m.value.warn("unknown key, ignored")
		}
		good = good && ok
	}
	if typ == nil {
		at.missing("type")
		return r, false
	}
	if priority == nil {
		at.missing("priority")
		return r, false
	}
	word, ok := typ.text()
	if !ok {
		return r, false
	}
	t, known := ruleTypes[word]
	if !known {
		typ.wrong("%q is none of net, nid, peer", word)
		return r, false
	}
	r.Type = t
	return r, good
}
