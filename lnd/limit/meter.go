package limit

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// Rate limits how often something may happen: Burst times in immediate succession, and after that once per
// Every.
type Rate struct {
	Every time.Duration
	Burst int
}

// Meter counts the events of one source and compares them with a Rate. It occupies one word. The zero value has
// counted nothing. It is safe for concurrent use.
type Meter struct {
	// clearAt is the time at which the events so far no longer count against the burst, in ns of the caller's
	// clock.
	clearAt atomic.Int64
}

// Allow counts n events at time now, in ns of the caller's clock, and returns true. If the rate does not
// permit n more, it counts nothing and returns false. n must not be negative. If n is more than the
// burst, Allow always returns false.
func (m *Meter) Allow(r Rate, now int64, n int) bool {
	if n > r.Burst {
		return false
	}
	for {
		clearAt := m.clearAt.Load()
		next := max(clearAt, now) + int64(n)*int64(r.Every)
		if next > now+int64(r.Burst)*int64(r.Every) {
			return false
		}
		if m.clearAt.CompareAndSwap(clearAt, next) {
			return true
		}
	}
}

// Return takes back n events that Allow has counted with the same Rate.
func (m *Meter) Return(r Rate, n int) { m.clearAt.Add(-int64(n) * int64(r.Every)) }

// Idle reports whether none of the events so far counts against the burst any more. The meter is then
// equivalent to a new one.
func (m *Meter) Idle(now int64) bool { return m.clearAt.Load() <= now }

// SourceOf returns the address under which limits count the source a. For an IPv6 address it is the /64
// network, because one host may have all addresses of it. For an IPv4-mapped IPv6 address it is the IPv4
// address.
func SourceOf(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().Addr()
	}
	return a
}
