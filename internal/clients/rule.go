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

// Rule says what some clients may do (transport 9.8).
type Rule struct {
	// Name is what kind of clients these are, for people and metrics.
	Name string
	// UIDs and GIDs are whose processes it holds for: a client fits if its user is among
	// the former, or one of its groups among the latter. Neither: everybody.
	UIDs, GIDs []uint32
	// NIDs are where the clients may start TMs; none: at all.
	NIDs []lnet.NID
	// Portals and TMIDs are the portals, 1 to 63, and the numbers, 1 to 4095, that their
	// TMs may have. The zero Span is all of them.
	Portals, TMIDs Span
	// Connection is what each connection may have, User what all connections of one user
	// may have together. What is 0 has the default.
	Connection, User Quotas

	open *openTMIDs // nil: the Core chooses
}

// openTMIDs are the numbers that clients of one rule may have, and lnetd chooses.
type openTMIDs struct {
	mu sync.Mutex
	transport.TMIDs
}

// Span is First to Last, both included.
type Span struct{ First, Last uint32 }

func (s Span) has(v uint32) bool { return v >= s.First && v <= s.Last }

// within is s, or all if s is zero. EINVAL: it is not within all.
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

// DefaultRules let root and this process's own user do anything.
func DefaultRules() []Rule {
	return []Rule{{Name: "default", UIDs: []uint32{0, uint32(os.Geteuid())}}}
}

// rulesWithDefaults are the rules that hold if these are wanted. EINVAL: they cannot be.
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

// fits tells whether the rule holds for a process.
func (r *Rule) fits(p *Process) bool {
	if len(r.UIDs) == 0 && len(r.GIDs) == 0 || slices.Contains(r.UIDs, p.UID) || slices.Contains(r.GIDs, p.GID) {
		return true
	}
	return slices.ContainsFunc(p.groups, func(g uint32) bool { return slices.Contains(r.GIDs, g) })
}

// permits is nil if a client may start a TM there, else an EACCES.
func (r *Rule) permits(a transport.Address) error {
	switch {
	case len(r.NIDs) > 0 && !slices.Contains(r.NIDs, a.NID):
		return fmt.Errorf("rule %q permits no TM at %v: %w", r.Name, a.NID, syscall.EACCES)
	case !r.Portals.has(a.Portal):
		return fmt.Errorf("rule %q permits no TM at portal %d: %w", r.Name, a.Portal, syscall.EACCES)
	case a.TMID != transport.Dynamic && !r.TMIDs.has(uint32(a.TMID)):
		return fmt.Errorf("rule %q permits no TM number %d: %w", r.Name, a.TMID, syscall.EACCES)
	}
	return nil
}
