package selection

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// RuleType is what a TypedRule is about.
type RuleType uint8

// Types of rules.
const (
	// RuleNet: nets of this node and of peers.
	RuleNet RuleType = iota
	// RuleNID: NIs of this node and of peers.
	RuleNID
	// RulePeer: pairs of local NIs and peer NIs.
	RulePeer
)

var ruleTypes = [...]string{RuleNet: "net", RuleNID: "nid", RulePeer: "peer"}

// String is "net", "nid" or "peer".
func (t RuleType) String() string {
	if int(t) < len(ruleTypes) {
		return ruleTypes[t]
	}
	return fmt.Sprintf("rule type %d", uint8(t))
}

// TypedRule is a selection rule as the Multi-Rail design has it (selection 7).
// It is about local objects and those of peers alike, and is known by an ID
// that never changes. Rules of the other kind, which have a place, come first.
type TypedRule struct {
	// ID is the rule's, from 0.
	ID   int
	Type RuleType
	// Pattern is the net or NIDs of RuleNet and RuleNID.
	Pattern lnet.Pattern
	// Local and Remote are the NIDs of RulePeer.
	Local, Remote lnet.Pattern
	// Priority is 0 for the best. Of pairs of one peer NI those with the best priority
	// count, all of them.
	Priority uint32
}

func (r *TypedRule) check() error {
	pattern, pair := !r.Pattern.IsZero(), !r.Local.IsZero() && !r.Remote.IsZero()
	switch {
	case r.Priority == NoPriority:
		return fmt.Errorf("priority %d stands for none: %w", r.Priority, ErrInvalid)
	case int(r.Type) >= len(ruleTypes):
		return fmt.Errorf("%s: %w", r.Type, ErrInvalid)
	case r.Type == RulePeer && (pattern || !pair):
		return fmt.Errorf("a peer rule has local %q and remote %q: %w", r.Local, r.Remote, ErrInvalid)
	case r.Type == RulePeer:
		return nil
	case !pattern || !r.Local.IsZero() || !r.Remote.IsZero():
		return fmt.Errorf("a %s rule has one pattern: %w", r.Type, ErrInvalid)
	case r.Type == RuleNID != r.Pattern.HasAddress():
		return fmt.Errorf("pattern %s of a %s rule: %w", r.Pattern, r.Type, ErrInvalid)
	}
	return nil
}

// SameMatch reports whether both rules are about the same objects.
func (r *TypedRule) SameMatch(o *TypedRule) bool {
	return r.Type == o.Type && r.Pattern.Equal(o.Pattern) && r.Local.Equal(o.Local) && r.Remote.Equal(o.Remote)
}

const (
	// AnyID leaves the ID of a TypedRule open.
	AnyID = -1
	// IDMax bounds the ID of a TypedRule.
	IDMax = math.MaxInt32
)

// AddTyped adds a rule and returns its ID: that of the rule if no other rule has it. For AnyID it
// is one that was never used, or the lowest free one if IDMax was used. ErrExists: there is a rule
// with that ID or about the same objects; ErrInvalid: the rule has no meaning.
func (p *Policies) AddTyped(r TypedRule) (int, error) {
	if err := r.check(); err != nil {
		return 0, fmt.Errorf("add %s rule: %w", r.Type, err)
	}
	if r.ID < AnyID || r.ID > IDMax {
		return 0, fmt.Errorf("add %s rule: id %d: %w", r.Type, r.ID, ErrInvalid)
	}
	for k := range p.typed {
		if old := &p.typed[k]; old.ID == r.ID || old.SameMatch(&r) {
			return 0, fmt.Errorf("add %s rule: like the one with id %d: %w", r.Type, old.ID, ErrExists)
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

// freeID returns the ID for a rule that has none.
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

// HasPattern reports whether the rule has a pattern of any kind.
func (r *TypedRule) HasPattern() bool {
	return !r.Pattern.IsZero() || !r.Local.IsZero() || !r.Remote.IsZero()
}

// DeleteTyped removes the rule of the type of r that has its ID, unless that is
// AnyID, and its patterns, unless it has none. ErrNotFound: no rule has both;
// ErrInvalid: neither is given.
func (p *Policies) DeleteTyped(r TypedRule) error {
	unnamed := !r.HasPattern()
	if r.ID < 0 && unnamed {
		return fmt.Errorf("delete %s rule: neither id nor pattern: %w", r.Type, ErrInvalid)
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

// Typed are the rules of the table by ID. The caller owns the result, which
// does not change.
func (p *Policies) Typed() []TypedRule { return slices.Clone(p.typed) }

// pairs are the peer rules of the table, the most important first.
func (p *Policies) pairs() []Rule {
	pairs := slices.DeleteFunc(p.Typed(), func(t TypedRule) bool { return t.Type != RulePeer })
	slices.SortStableFunc(pairs, func(a, b TypedRule) int { return cmp.Compare(a.Priority, b.Priority) })
	rules := make([]Rule, len(pairs))
	for k := range pairs {
		rules[k] = Rule{Src: pairs[k].Local, Dst: pairs[k].Remote, Priority: pairs[k].Priority}
	}
	return rules
}
