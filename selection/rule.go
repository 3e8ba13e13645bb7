package selection

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Rule is a user-defined selection policy (selection 6.1). Its effect depends on which
// patterns are set:
//
//	Src              priority of local nets, or with an address of local NIs
//	Dst              priority of peer nets, or with an address of peer NIs
//	Src and Dst      the NIs that match Src are preferred for peer NIs that match Dst
//	Dst and Rte      the gateways that match Rte are preferred for those
//
// A preference never excludes objects that it does not match.
type Rule struct {
	Src, Dst, Rte lnet.Pattern
	// Priority is the priority that the rule sets, if only Src or only Dst is set. The best
	// priority is 0.
	Priority uint32
}

// HasPriority reports whether the rule sets a priority. If it does not, it sets preferred
// NIs or gateways.
func (r *Rule) HasPriority() bool { return r.Rte.IsZero() && (r.Src.IsZero() || r.Dst.IsZero()) }

// check returns ErrInvalid if the patterns that are set have no effect together. Kernels
// accept some of these combinations.
func (r *Rule) check() error {
	switch {
	case !r.Src.IsZero() && !r.Dst.IsZero() && !r.Rte.IsZero():
		return fmt.Errorf("src %s, dst %s and rte %s cannot be combined: %w", r.Src, r.Dst, r.Rte, ErrInvalid)
	case !r.Src.IsZero() && !r.Rte.IsZero():
		return fmt.Errorf("src %s and rte %s cannot be combined: %w", r.Src, r.Rte, ErrInvalid)
	case r.Src.IsZero() && r.Dst.IsZero() && !r.Rte.IsZero():
		return fmt.Errorf("rte %s requires a dst: %w", r.Rte, ErrInvalid)
	case r.Src.IsZero() && r.Dst.IsZero():
		return fmt.Errorf("src or dst is required: %w", ErrInvalid)
	case r.Priority == NoPriority:
		return fmt.Errorf("priority %d is reserved for rules without one: %w", r.Priority, ErrInvalid)
	case !r.HasPriority() && r.Priority != 0:
		return fmt.Errorf("priority %d: a rule with two patterns cannot have a priority: %w", r.Priority, ErrInvalid)
	}
	return nil
}

// sameMatch reports whether r and o match the same objects.
func (r *Rule) sameMatch(o *Rule) bool {
	return r.Src.Equal(o.Src) && r.Dst.Equal(o.Dst) && r.Rte.Equal(o.Rte)
}

// String returns the rule as command line options.
func (r Rule) String() string {
	s := ""
	for _, part := range []struct {
		name string
		d    lnet.Pattern
	}{{"src", r.Src}, {"dst", r.Dst}, {"rte", r.Rte}} {
		if !part.d.IsZero() {
			s += fmt.Sprintf("--%s %s ", part.name, part.d)
		}
	}
	if r.HasPriority() {
		return s + fmt.Sprintf("--priority %d", r.Priority)
	}
	return s[:max(len(s)-1, 0)]
}
