package selection

import (
	"fmt"
	"slices"
)

// Policies holds the user-defined selection policies of the node: a list of Rules and a
// table of TypedRules. The zero value is empty. Policies is not safe for concurrent use.
// Changes take effect when Compile is called and the result is applied.
type Policies struct {
	rules  []Rule
	typed  []TypedRule
	nextID int
	// revision counts changes.
	revision uint64
}

// Clone returns an independent copy.
func (p *Policies) Clone() *Policies {
	c := *p
	c.rules, c.typed = slices.Clone(p.rules), slices.Clone(p.typed)
	return &c
}

// Append, as a place, means the end of the list.
const Append = -1

// Add inserts a rule into the list at the given place, from 0 (selection 6.3). A place
// outside of the list means the end. If the list has a rule for the same objects, Add
// instead changes the priority of that rule, which keeps its place. Add returns ErrExists
// if the existing rule has the same priority, and ErrInvalid if r is invalid.
func (p *Policies) Add(r Rule, place int) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("add rule: %w", err)
	}
	for k := range p.rules {
		old := &p.rules[k]
		if !old.sameMatch(&r) {
			continue
		}
		if old.Priority == r.Priority {
			return fmt.Errorf("add rule %s: %w", r, ErrExists)
		}
		old.Priority = r.Priority
		p.revision++
		return nil
	}
	if place < 0 || place > len(p.rules) {
		place = len(p.rules)
	}
	p.rules = slices.Insert(p.rules, place, r)
	p.revision++
	return nil
}

// Delete removes the rule at place. The rules after it move up. It returns ErrNotFound if
// the list has no such place.
func (p *Policies) Delete(place int) error {
	if place < 0 || place >= len(p.rules) {
		return fmt.Errorf("delete rule %d from a list of %d: %w", place, len(p.rules), ErrNotFound)
	}
	p.rules = slices.Delete(p.rules, place, place+1)
	p.revision++
	return nil
}

// DeleteAll removes all Rules from the list. The TypedRules remain.
func (p *Policies) DeleteAll() {
	p.rules = nil
	p.revision++
}

// Rules returns a copy of the list of Rules.
func (p *Policies) Rules() []Rule { return slices.Clone(p.rules) }

// effective returns all rules in order of precedence: those of the list, followed by the
// TypedRules in the form of Rules.
func (p *Policies) effective() []Rule {
	all := slices.Clone(p.rules)
	for k := range p.typed {
		if t := &p.typed[k]; t.Type != RulePeer {
			all = append(all,
				Rule{Src: t.Pattern, Priority: t.Priority}, Rule{Dst: t.Pattern, Priority: t.Priority})
		}
	}
	return append(all, p.pairs()...)
}
