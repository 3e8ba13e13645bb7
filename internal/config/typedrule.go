package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// ruleTypes are the values of "type" in "selection", ruleTypeWords their names.
var (
	ruleTypes     = []selection.RuleType{selection.RuleNet, selection.RuleNID, selection.RulePeer}
	ruleTypeWords = Words{selection.RuleNet.String(), selection.RuleNID.String(), selection.RulePeer.String()}
)

// addTypedRules takes the items of "selection" (lnetctl 11). Those without an ID
// get what is free when those with one have theirs. It returns the IDs of the others.
func (c *Config) addTypedRules(list []place) (ids map[int]bool) {
	type item struct {
		at   place
		rule selection.TypedRule
	}
	var items []item
	for _, at := range list {
		if r, _, ok := readTypedRule(at, true); ok {
			items = append(items, item{at, r})
		}
	}
	slices.SortStableFunc(items, func(a, b item) int {
		return cmp.Compare(unsigned(a.rule.ID), unsigned(b.rule.ID))
	})
	var p selection.Policies
	ids = map[int]bool{}
	for _, i := range items {
		if has := sameRule(p.Typed(), &i.rule); has != nil {
			i.at.warn("the rule stands twice: it is the one with id %d", has.ID).try("write it once")
			continue
		}
		if _, err := p.AddTyped(i.rule); err != nil {
			i.at.wrong("%v", err)
		}
		if i.rule.ID != selection.AnyID {
			ids[i.rule.ID] = true
		}
	}
	c.TypedRules = p.Typed()
	return ids
}

// sameRule returns the rule of a list that is r, whatever its ID is, or nil.
func sameRule(list []selection.TypedRule, r *selection.TypedRule) *selection.TypedRule {
	return find(list, func(o *selection.TypedRule) bool { return o.SameMatch(r) && o.Priority == r.Priority })
}

// addTypedRules adds the rules of a document that are not there, under whichever ID. A rule that
// has no ID in the document gets one that no rule of the node has.
func (m *merge) addTypedRules(p *selection.Policies, c *Config) {
	add := func(r selection.TypedRule) {
		if sameRule(p.Typed(), &r) != nil {
			return
		}
		if _, err := p.AddTyped(r); err != nil {
			m.wrong("selection", err.Error(), "delete the rule that there is first: lnetdctl selection "+r.Type.String()+" del; or leave the id out")
		}
	}
	var open []selection.TypedRule
	for _, r := range c.TypedRules {
		if !c.Given.RuleIDs[r.ID] {
			r.ID = selection.AnyID
			open = append(open, r)
			continue
		}
		add(r)
	}
	for _, r := range open {
		add(r)
	}
}

// TypedDeletion names a rule of "selection" that is to be deleted, by what is given of it.
type TypedDeletion struct {
	selection.TypedRule
	// ByType says that Type is given; with patterns it always is.
	ByType bool
	// Where is the place in the file, "name:line: key".
	Where string
}

// readTypedDeletions reads the items of "selection" in a document of what is to be deleted: by
// ID, by what the rule matches, or both. Their priorities do not count.
func readTypedDeletions(list []place) (out []TypedDeletion) {
	for _, at := range list {
		r, byType, ok := readTypedRule(at, false)
		switch {
		case !ok:
		case r.ID == selection.AnyID && !r.HasPattern():
			at.warn("neither \"id\" nor a pattern is there: the rule is skipped").try("write \"id: 0\", or the rule as it was added")
		case r.HasPattern() && !byType:
			at.missing("type", ruleTypeWords)
		default:
			out = append(out, TypedDeletion{r, byType, at.where()})
		}
	}
	return out
}

// names reports whether d is about the rule r.
func (d *TypedDeletion) names(r *selection.TypedRule) bool {
	return (d.ID == selection.AnyID || d.ID == r.ID) && (!d.ByType || d.Type == r.Type) && (!d.HasPattern() || d.SameMatch(r))
}

// String says what names the rule.
func (d *TypedDeletion) String() string {
	var words []string
	if d.ID != selection.AnyID {
		words = append(words, "id "+strconv.Itoa(d.ID))
	}
	if d.ByType {
		words = append(words, "type "+d.Type.String())
	}
	for _, p := range []struct {
		name    string
		pattern lnet.Pattern
	}{{"pattern", d.Pattern}, {"local", d.Local}, {"remote", d.Remote}} {
		if !p.pattern.IsZero() {
			words = append(words, p.name+" "+p.pattern.String())
		}
	}
	return strings.Join(words, ", ")
}

// deleteTypedRules deletes the rules that are named.
func (m *merge) deleteTypedRules(list []TypedDeletion, absent func(where, what string)) {
	m.TypedRules = slices.Clone(m.TypedRules)
	for k := range list {
		d := &list[k]
		had := len(m.TypedRules)
		m.TypedRules = slices.DeleteFunc(m.TypedRules, func(r selection.TypedRule) bool { return d.names(&r) })
		if len(m.TypedRules) == had {
			absent(d.Where, fmt.Sprintf("there is no rule with %s: nothing is deleted", d))
		}
	}
}

// unsigned puts AnyID behind all IDs.
func unsigned(id int) uint { return uint(id) }

// readTypedRule reads a rule. If it is not whole it need have neither a priority nor a type. byType
// says that it has one.
func readTypedRule(at place, whole bool) (_ selection.TypedRule, byType, ok bool) {
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
			r.ID, ok = m.value.in(api.RuleIDRange)
		}
		good = good && ok
	}
	if priority == nil && whole {
		at.missing("priority", Whole{0, math.MaxInt32})
		good = false
	}
	if typ == nil {
		if whole {
			at.missing("type", ruleTypeWords)
		}
		return r, false, good && !whole
	}
	k, ok := typ.word(ruleTypeWords)
	if ok {
		r.Type = ruleTypes[k]
	}
	return r, true, good && ok
}
