package selection

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// RuleType is the kind of objects that a TypedRule applies to.
type RuleType uint8

// The types of TypedRules.
const (
	// RuleNet matches nets of this node and of peers.
	RuleNet RuleType = iota
	// RuleNID matches NIs of this node and of peers.
	RuleNID
	// RulePeer matches pairs of local NIs and peer NIs, and makes the local NIs preferred for
	// these peer NIs.
	RulePeer
)

var ruleTypes = [...]string{RuleNet: "net", RuleNID: "nid", RulePeer: "peer"}

// String returns "net", "nid" or "peer".
func (t RuleType) String() string {
	if int(t) < len(ruleTypes) {
		return ruleTypes[t]
	}
	return fmt.Sprintf("rule type %d", uint8(t))
}

// TypedRule is a selection policy in the form of the Multi-Rail design (selection 7). It
// applies to local objects and to those of peers, and has an ID that does not change.
// Rules in the list of Policies take precedence over TypedRules.
type TypedRule struct {
	// ID identifies the rule, from 0.
	ID   int
	Type RuleType
	// Pattern is the pattern of a RuleNet for nets, or of a RuleNID for NIDs.
	Pattern lnet.Pattern
	// Local and Remote are the patterns of a RulePeer for local and peer NIDs.
	Local, Remote lnet.Pattern
	// Priority is the priority that the rule sets; the best is 0. For a RulePeer it is the
	// priority of the rule itself: of those that match a peer NI, all with the best priority
	// apply.
	Priority uint32
}

func (r *TypedRule) check() error {
	pattern, pair := !r.Pattern.IsZero(), !r.Local.IsZero() && !r.Remote.IsZero()
	switch {
	case r.Priority == NoPriority:
		return fmt.Errorf("priority %d is reserved for rules without one: %w", r.Priority, ErrInvalid)
	case int(r.Type) >= len(ruleTypes):
		return fmt.Errorf("unknown type: %w", ErrInvalid)
	case r.Type == RulePeer && (pattern || !pair):
		return fmt.Errorf("local %q, remote %q: a peer rule requires both and no other pattern: %w", r.Local, r.Remote, ErrInvalid)
	case r.Type == RulePeer:
		return nil
	case !pattern || !r.Local.IsZero() || !r.Remote.IsZero():
		return fmt.Errorf("a %s rule requires a pattern, and has neither local nor remote: %w", r.Type, ErrInvalid)
	case r.Type == RuleNID && !r.Pattern.HasAddress():
		return fmt.Errorf("pattern %s: a %s rule requires an address: %w", r.Pattern, r.Type, ErrInvalid)
	case r.Type != RuleNID && r.Pattern.HasAddress():
		return fmt.Errorf("pattern %s: a %s rule cannot have an address: %w", r.Pattern, r.Type, ErrInvalid)
	}
	return nil
}

// SameMatch reports whether r and o match the same objects.
func (r *TypedRule) SameMatch(o *TypedRule) bool {
	return r.Type == o.Type && r.Pattern.Equal(o.Pattern) && r.Local.Equal(o.Local) && r.Remote.Equal(o.Remote)
}

const (
	// AnyID means that AddTyped chooses the ID of a TypedRule.
	AnyID = -1
	// IDMax is the largest ID of a TypedRule.
	IDMax = math.MaxInt32
)

// AddTyped adds a rule and returns its ID. If r.ID is AnyID, it chooses an ID that was
// never used, or the lowest free ID if IDMax was used already. It returns ErrExists if a
// rule with the same ID or for the same objects exists, and ErrInvalid if r is invalid.
func (p *Policies) AddTyped(r TypedRule) (int, error) {
	if err := r.check(); err != nil {
		return 0, fmt.Errorf("add %s rule: %w", r.Type, err)
	}
	if r.ID < AnyID || r.ID > IDMax {
		return 0, fmt.Errorf("add %s rule: id %d: not within 0 to %d: %w", r.Type, r.ID, IDMax, ErrInvalid)
	}
	for k := range p.typed {
		if old := &p.typed[k]; old.ID == r.ID || old.SameMatch(&r) {
			return 0, fmt.Errorf("add %s rule: the rule with id %d has this id or the same patterns: %w", r.Type, old.ID, ErrExists)
		}
	}
	if r.ID == AnyID {
		r.ID = p.freeID()
	}
	p.nextID = max(p.nextID, r.ID+1)
	at, _ := slices.BinarySearchFunc(p.typed, r.ID, func(t TypedRule, id int) int { return cmp.Compare(t.ID, id) })
	p.typed = slices.Insert(p.typed, at, r)
	p.revision++
	return r.ID, nil
}

// freeID returns the ID for a rule that is added with AnyID.
func (p *Policies) freeID() int {
	if p.nextID <= IDMax {
		return p.nextID
	}
	for k := range p.typed {
		if p.typed[k].ID > k {
			return k
		}
	}
	return len(p.typed)
}

// HasPattern reports whether at least one of the rule's patterns is set.
func (r *TypedRule) HasPattern() bool {
	return !r.Pattern.IsZero() || !r.Local.IsZero() || !r.Remote.IsZero()
}

// DeleteTyped removes one rule of r's type. If r has an ID, it removes the rule with that
// ID. If r has patterns, it removes the rule with these patterns; with both, the rule must
// match both. It returns ErrNotFound if no rule matches, and ErrInvalid if r has neither
// an ID nor a pattern.
func (p *Policies) DeleteTyped(r TypedRule) error {
	unnamed := !r.HasPattern()
	if r.ID < 0 && unnamed {
		return fmt.Errorf("delete %s rule: an id or a pattern is required: %w", r.Type, ErrInvalid)
	}
	for k := range p.typed {
		t := &p.typed[k]
		if t.Type == r.Type && (r.ID < 0 || t.ID == r.ID) && (unnamed || t.SameMatch(&r)) {
			p.typed = slices.Delete(p.typed, k, k+1)
			p.revision++
			return nil
		}
	}
	return fmt.Errorf("delete %s rule: %w", r.Type, ErrNotFound)
}

// Typed returns a copy of the TypedRules, in order of their IDs.
func (p *Policies) Typed() []TypedRule { return slices.Clone(p.typed) }

// pairs returns the TypedRules of the type RulePeer in the form of Rules, in order of
// precedence.
func (p *Policies) pairs() []Rule {
	pairs := slices.DeleteFunc(p.Typed(), func(t TypedRule) bool { return t.Type != RulePeer })
	slices.SortStableFunc(pairs, func(a, b TypedRule) int { return cmp.Compare(a.Priority, b.Priority) })
	rules := make([]Rule, len(pairs))
	for k := range pairs {
		rules[k] = Rule{Src: pairs[k].Local, Dst: pairs[k].Remote, Priority: pairs[k].Priority}
	}
	return rules
}
