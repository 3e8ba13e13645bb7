package selection

import (
	"fmt"
	"slices"
)

// Policies are the rules of the node: the list of Rules, and the table of
// TypedRules. The zero value has none. It is not for concurrent use. A change
// takes effect with Compile and what follows it.
type Policies struct {
	rules  []Rule
	typed  []TypedRule
	nextID int
	// revision counts changes.
	revision uint64
}

// Clone is a copy that can be changed on its own.
func (p *Policies) Clone() *Policies {
	c := *p
	c.rules, c.typed = slices.Clone(p.rules), slices.Clone(p.typed)
	return &c
}

// Append is the place of a rule behind all others.
const Append = -1

// Add puts a rule at a place of the list, 0 to the number of rules; what is
// beyond that, or negative, is the end (selection 6.3). A rule about the same
// objects stays where it is and gets the new priority; if that is the same, or
// the rule has none, it is ErrExists. ErrInvalid: the rule has no meaning.
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

// Delete removes the rule at a place; those behind it move up. ErrNotFound:
// there is none.
func (p *Policies) Delete(place int) error {
	if place < 0 || place >= len(p.rules) {
		return fmt.Errorf("delete rule %d of %d: %w", place, len(p.rules), ErrNotFound)
	}
	p.rules = slices.Delete(p.rules, place, place+1)
	p.revision++
	return nil
}

// DeleteAll empties the list. The table of TypedRules stays.
func (p *Policies) DeleteAll() {
	p.rules = nil
	p.revision++
}

// Rules are the rules of the list by place. The caller owns the result, which
// does not change.
func (p *Policies) Rules() []Rule { return slices.Clone(p.rules) }

// effective are the rules that the list and the table come to, the most
// important first: those of the list, then those of the table.
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
