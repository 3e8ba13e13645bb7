package selection

import (
	"fmt"
	"slices"
)

// Policies holds the selection rules of the node: a list of Rules and a table of
// TypedRules. The zero value is empty. It is not safe for concurrent use. Changes take
// effect with Compile.
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

// Append is the place at the end of the list.
const Append = -1

// Add inserts a rule into the list at place, which is 0 to the number of rules (selection
// 6.3). Any other place means the end. If the list has a rule for the same objects, Add
// instead changes the priority of that rule in place. It returns ErrExists if that would
// change nothing, and ErrInvalid if the rule is invalid.
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

// DeleteAll removes all rules from the list, but none of the TypedRules.
func (p *Policies) DeleteAll() {
	p.rules = nil
	p.revision++
}

// Rules returns a copy of the list.
func (p *Policies) Rules() []Rule { return slices.Clone(p.rules) }

// effective returns the rules of the list followed by those that the table is equivalent
// to, in order of precedence.
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
