package clients

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// Rule defines which clients it applies to and what these may do (transport 9.8).
type Rule struct {
	// Name identifies the rule in logs and metrics.
	Name string
	// The rule applies to a client if its user is in UIDs or one of its groups is in GIDs. If both are
	// empty, the rule applies to every client.
	UIDs, GIDs []uint32
	// NIDs lists the NIDs at which clients may start TMs. If it is empty, all NIDs are permitted.
	NIDs []lnet.NID
	// Portals limits the portals of TMs, from 1 to 63, and TMIDs their numbers, from 1 to 4095. The zero
	// Span permits all.
	Portals, TMIDs Span
	// Connection limits each connection. User limits all connections of one user together. A zero field
	// means the default.
	Connection, User Quotas

	open *openTMIDs // chooses dynamic numbers if TMIDs limits them; nil if the Core chooses them
}

// openTMIDs chooses dynamic TM numbers for the clients of a rule that permits only some numbers.
type openTMIDs struct {
	mu sync.Mutex
	transport.TMIDs
}

// Span is the range from First to Last, inclusive.
type Span struct{ First, Last uint32 }

func (s Span) has(v uint32) bool { return v >= s.First && v <= s.Last }

// within returns s or, if s is the zero Span, all. It returns EINVAL if s is not within all.
func (s Span) within(all Span) (Span, error) {
	if s == (Span{}) {
		return all, nil
	}
	if s.First > s.Last || !all.has(s.First) || !all.has(s.Last) {
		return s, fmt.Errorf("%d to %d are not within %d to %d: %w", s.First, s.Last, all.First, all.Last, syscall.EINVAL)
	}
	return s, nil
}

var (
	allPortals = Span{lnet.ReservedPortal + 1, lnet.Portals - 1}
	allTMIDs   = Span{1, transport.MaxTMID}
)

// DefaultRules returns the rules that apply by default. They permit root and the user of this
// process to do everything within the default quotas, and no other user to connect.
func DefaultRules() []Rule {
	return []Rule{{Name: "default", UIDs: []uint32{0, uint32(os.Geteuid())}}}
}

// rulesWithDefaults returns the rules in want with defaults filled in. If want is empty, it returns
// DefaultRules. It returns EINVAL if a rule is invalid.
func rulesWithDefaults(want []Rule) ([]Rule, error) {
	if len(want) == 0 {
		want = DefaultRules()
	}
	rules := make([]Rule, len(want))
	for i, r := range want {
		var err error
		if rules[i], err = r.withDefaults(); err != nil {
			return nil, fmt.Errorf("clients: rule %d, %q: %w", i, r.Name, err)
		}
	}
	return rules, nil
}

func (r Rule) withDefaults() (_ Rule, err error) {
	if r.Portals, err = r.Portals.within(allPortals); err != nil {
		return r, fmt.Errorf("portals: %w", err)
	}
	if r.TMIDs, err = r.TMIDs.within(allTMIDs); err != nil {
		return r, fmt.Errorf("numbers of TMs: %w", err)
	}
	if r.TMIDs != allTMIDs {
		r.open = &openTMIDs{TMIDs: transport.TMIDs{First: uint16(r.TMIDs.First), Last: uint16(r.TMIDs.Last)}}
	}
	r.Connection = r.Connection.or(connectionQuotas)
	r.User = r.User.or(userQuotas)
	return r, nil
}

// appliesTo reports whether the rule applies to a process.
func (r *Rule) appliesTo(p *Process) bool { return p.IsOneOf(r.UIDs, r.GIDs) }

// permits returns EACCES if a client may not start a TM at the address.
func (r *Rule) permits(a transport.Address) error {
	switch {
	case len(r.NIDs) > 0 && !slices.Contains(r.NIDs, a.NID):
		return fmt.Errorf("rule %q does not permit a TM at %v: %w", r.Name, a.NID, syscall.EACCES)
	case !r.Portals.has(a.Portal):
		return fmt.Errorf("rule %q does not permit a TM at portal %d: %w", r.Name, a.Portal, syscall.EACCES)
	case a.TMID != transport.Dynamic && !r.TMIDs.has(uint32(a.TMID)):
		return fmt.Errorf("rule %q does not permit TM number %d: %w", r.Name, a.TMID, syscall.EACCES)
	}
	return nil
}
