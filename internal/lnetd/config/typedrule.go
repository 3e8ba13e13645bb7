package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// ruleTypes holds the types of "selection" rules. ruleTypeWords holds their names in documents, in the
// same order.
var (
	ruleTypes     = []selection.RuleType{selection.RuleNet, selection.RuleNID, selection.RulePeer}
	ruleTypeWords = Words{selection.RuleNet.String(), selection.RuleNID.String(), selection.RulePeer.String()}
)

// addTypedRules adds the items of "selection" to c (lnetctl 11). Rules without an ID get IDs that no
// other rule of the file has. It returns the IDs that the file contains, and the positions of all rules
// by ID.
func (c *Config) addTypedRules(list []place) (ids map[int]bool, where map[int]string) {
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
		return cmp.Compare(idOrder(a.rule.ID), idOrder(b.rule.ID))
	})
	var p selection.Policies
	ids, where = map[int]bool{}, map[int]string{}
	for _, i := range items {
		if has := sameRule(p.Typed(), &i.rule); has != nil {
			i.at.warn("the rule occurs twice; the other one has id %d", has.ID).remedyf("remove one of them")
			continue
		}
		if old := conflicting(p.Typed(), &i.rule); old != nil {
			remedy := "write only one of them"
			if old.ID == i.rule.ID {
				remedy = "give it another id, or remove the id"
			}
			i.at.problemf("%s", conflictText(old, &i.rule)).remedyf("%s", remedy)
			continue
		}
		id, err := p.AddTyped(i.rule)
		if err != nil {
			i.at.problemf("%v", err)
			continue
		}
		where[id] = i.at.position()
		if i.rule.ID != selection.AnyID {
			ids[id] = true
		}
	}
	c.TypedRules = p.Typed()
	return ids, where
}

// conflicting returns the first rule in list with the same ID or the same patterns as r, or nil. A node
// cannot have both rules.
func conflicting(list []selection.TypedRule, r *selection.TypedRule) *selection.TypedRule {
	return find(list, func(o *selection.TypedRule) bool { return o.ID == r.ID || o.SameMatch(r) })
}

// conflictText describes why r conflicts with old.
func conflictText(old, r *selection.TypedRule) string {
	if old.SameMatch(r) {
		return fmt.Sprintf("the %s rule with id %d has the same patterns, with priority %d", old.Type, old.ID, old.Priority)
	}
	return fmt.Sprintf("a %s rule with id %d already exists", old.Type, old.ID)
}

// sameRule returns the rule in list that has the same patterns and priority as r, or nil. The IDs may
// differ.
func sameRule(list []selection.TypedRule, r *selection.TypedRule) *selection.TypedRule {
	return find(list, func(o *selection.TypedRule) bool { return o.SameMatch(r) && o.Priority == r.Priority })
}

// addTypedRules adds to p the "selection" rules of the document c, except those that the node already
// has with the same or another ID. A rule without an ID in the document gets a free one.
func (m *merge) addTypedRules(p *selection.Policies, c *Config) {
	add := func(r selection.TypedRule) {
		where := c.Given.RuleWhere[r.ID]
		if !c.Given.RuleIDs[r.ID] {
			r.ID = selection.AnyID
		}
		list := p.Typed()
		if sameRule(list, &r) != nil {
			return
		}
		if old := conflicting(list, &r); old != nil {
			remedy := fmt.Sprintf("delete that rule first: lnetdctl selection %s del --id %d", old.Type, old.ID)
			if !old.SameMatch(&r) {
				remedy += "; or remove the id"
			}
			m.addConflict(where, conflictText(old, &r), remedy)
			return
		}
		if _, err := p.AddTyped(r); err != nil {
			m.addConflict(where, err.Error(), "")
		}
	}
	for _, given := range []bool{true, false} {
		for _, r := range c.TypedRules {
			if c.Given.RuleIDs[r.ID] == given {
				add(r)
			}
		}
	}
}

// KeepRuleIDs returns the "selection" rules of the document c, which replaces those in have, with the IDs
// that they will have. A rule that the node already has keeps its ID, even if the document has another
// ID for it. If the document has no ID for the rule, this also holds if only its priority changes. But
// if the document has that ID for a new rule, the new rule gets it. Other rules without an ID in the
// document get free ones.
func (c *Config) KeepRuleIDs(have *State) []selection.TypedRule {
	given := func(r *selection.TypedRule) bool { return c.Given.RuleIDs[r.ID] }
	kept := map[int]int{} // the ID of the node's rule, by the ID of the same rule in c
	for k := range c.TypedRules {
		r := &c.TypedRules[k]
		old := find(have.TypedRules, func(o *selection.TypedRule) bool {
			return o.SameMatch(r) && (o.Priority == r.Priority || !given(r))
		})
		if old != nil {
			kept[r.ID] = old.ID
		}
	}
	for again := true; again; {
		again = false
		for id, as := range kept {
			if _, keeps := kept[as]; !keeps && c.Given.RuleIDs[as] {
				delete(kept, id) // a new rule has this ID
				again = true
			}
		}
	}
	var p selection.Policies
	var open []selection.TypedRule
	for _, r := range c.TypedRules {
		as, keeps := kept[r.ID]
		switch {
		case keeps:
			r.ID = as
		case !given(&r):
			r.ID = selection.AnyID
			open = append(open, r)
			continue
		}
		_, _ = p.AddTyped(r) // cannot fail, because neither rules nor IDs occur twice
	}
	for _, r := range open {
		_, _ = p.AddTyped(r)
	}
	return p.Typed()
}

// TypedDeletion identifies "selection" rules to delete. A field that is not set matches any rule.
type TypedDeletion struct {
	selection.TypedRule
	// ByType reports whether Type is set. If a pattern is set, Type is set too.
	ByType bool
	// Where is the position in the file, "name:line: key".
	Where string
}

// readTypedDeletions returns the items of "selection" in a document that lists what to delete. An item
// identifies a rule by its ID, by its type and patterns, or by both. Priorities are ignored.
func readTypedDeletions(list []place) (out []TypedDeletion) {
	for _, at := range list {
		r, byType, ok := readTypedRule(at, false)
		switch {
		case !ok:
		case r.ID == selection.AnyID && !r.HasPattern():
			at.warn("neither \"id\" nor a pattern is given: the rule is skipped").
				remedyf("write the id of the rule from the output of lnetdctl export, or its type and patterns")
		case r.HasPattern() && !byType:
			at.missing("type", ruleTypeWords)
		default:
			out = append(out, TypedDeletion{r, byType, at.position()})
		}
	}
	return out
}

// NamesTypedRule reports whether d identifies the rule r.
func (d *Deletion) NamesTypedRule(r *selection.TypedRule) bool {
	return slices.ContainsFunc(d.TypedRules, func(t TypedDeletion) bool { return t.names(r) })
}

// names reports whether r is one of the rules that d identifies.
func (d *TypedDeletion) names(r *selection.TypedRule) bool {
	return (d.ID == selection.AnyID || d.ID == r.ID) && (!d.ByType || d.Type == r.Type) && (!d.HasPattern() || d.SameMatch(r))
}

// String returns a text with the fields that are set.
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

// deleteTypedRules deletes the rules that list identifies.
func (m *merge) deleteTypedRules(list []TypedDeletion, absent func(where, what string)) {
	m.TypedRules = slices.Clone(m.TypedRules)
	for k := range list {
		d := &list[k]
		had := len(m.TypedRules)
		m.TypedRules = slices.DeleteFunc(m.TypedRules, func(r selection.TypedRule) bool { return d.names(&r) })
		if len(m.TypedRules) == had {
			absent(d.Where, fmt.Sprintf("rule with %s does not exist; nothing is deleted", d))
		}
	}
}

// idOrder returns a sort key for IDs with which AnyID comes after all IDs.
func idOrder(id int) uint { return uint(id) }

// readTypedRule returns an item of "selection" as a rule. If whole is false, the priority and the type
// may be absent. The result byType reports whether the item has a type, and ok is false if
// readTypedRule has reported a problem.
func readTypedRule(at place, whole bool) (_ selection.TypedRule, byType, ok bool) {
	r := selection.TypedRule{ID: selection.AnyID}
	var typ, priority *place
	var patterns []member
	good := true
	for _, m := range at.members(false) {
		ok := true
		if _, pattern := patternTypes[m.key]; pattern {
			patterns = append(patterns, m)
		}
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
		if len(patterns) > 0 {
			r.Type = patternTypes[patterns[0].key]
		}
		return r, false, checkPatterns(patterns, r.Type) && good && !whole
	}
	k, ok := typ.word(ruleTypeWords)
	if !ok {
		return r, true, false
	}
	r.Type = ruleTypes[k]
	return r, true, checkPatterns(patterns, r.Type) && good
}

// patternTypes maps keys of patterns to the type of rule that has them.
var patternTypes = map[string]selection.RuleType{
	"net": selection.RuleNet, "nid": selection.RuleNID, "local": selection.RulePeer, "remote": selection.RulePeer,
}

// checkPatterns reports whether all patterns belong to rules of type typ, and adds a problem for
// each that does not.
func checkPatterns(patterns []member, typ selection.RuleType) (good bool) {
	own := slices.IndexFunc(patterns, func(m member) bool { return patternTypes[m.key] == typ })
	good = true
	for _, m := range patterns {
		of := patternTypes[m.key]
		switch {
		case of == typ:
			continue
		case own >= 0:
			m.at.problemf("'%s' and '%s' cannot be combined: they belong to the rule types %s and %s", patterns[own].key, m.key, typ, of).
				remedyf("write a separate rule for each, or remove one of them")
		default:
			m.at.problemf("a rule of type %s cannot have '%s'", typ, m.key).remedyf("write 'type: %s'", of)
		}
		good = false
	}
	return good
}
