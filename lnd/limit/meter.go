package limit

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// Rate limits how often something may happen: Burst times at once, and then once per Every.
type Rate struct {
	Every time.Duration
	Burst int
}

// Meter measures one source against a Rate. It occupies one word. The zero value has counted nothing.
// It is safe for concurrent use.
type Meter struct {
	// owed is the time at which everything counted so far is paid off, in ns of the caller's clock.
	owed atomic.Int64
}

// Allow counts n events at time now, in ns of the caller's clock, and returns true. If the rate does not
// permit n more, it counts nothing and returns false. n must not be negative. If n is more than the
// burst, Allow always returns false.
func (m *Meter) Allow(r Rate, now int64, n int) bool {
	if n > r.Burst {
		return false
	}
	for {
		owed := m.owed.Load()
		next := max(owed, now) + int64(n)*int64(r.Every)
		if next > now+int64(r.Burst)*int64(r.Every) {
			return false
		}
		if m.owed.CompareAndSwap(owed, next) {
			return true
		}
	}
}

// Return undoes a Take of n at the same Rate.
func (m *Meter) Return(r Rate, n int) { m.owed.Add(-int64(n) * int64(r.Every)) }

// Idle reports whether everything counted is paid off. The meter is then equivalent to a new one.
func (m *Meter) Idle(now int64) bool { return m.owed.Load() <= now }

// SourceOf returns the address under which limits count a. An IPv6 address is reduced to its /64
// network, since one host may own all of it. An IPv4-mapped IPv6 address becomes the IPv4 address.
func SourceOf(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().Addr()
	}
	return a
}
