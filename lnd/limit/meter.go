package limit

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// Rate bounds how often something may happen: Burst times at once, and then once
// per Every.
type Rate struct {
	Every time.Duration
	Burst int
}

// Meter measures one source by a Rate. It takes one word; the zero value has seen
// nothing. It is safe for concurrent use.
type Meter struct {
	// owed is the time at which all that has happened is paid off, in ns of the
	// caller's clock.
	owed atomic.Int64
}

// Take tells whether n more may happen at a time of the caller's clock, in ns,
// and then counts them. n is 0 or more; more than the burst never may.
func (m *Meter) Take(r Rate, now int64, n int) bool {
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

// Give takes back n that Take has counted by the same Rate.
func (m *Meter) Give(r Rate, n int) { m.owed.Add(-int64(n) * int64(r.Every)) }

// Idle tells whether all that has happened is paid off: the meter could as well
// be a new one.
func (m *Meter) Idle(now int64) bool { return m.owed.Load() <= now }

// SourceOf is whom an address counts for where sources are told apart: all of an
// IPv6 network of 64 bits may be one host's. An IPv4 address within IPv6 is the IPv4
// address.
func SourceOf(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().Addr()
	}
	return a
}
