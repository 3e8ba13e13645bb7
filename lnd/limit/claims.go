package limit

import (
	"net/netip"
	"time"
)

// ClaimRate is how many NIDs that are not its own, of peers that are not there, one
// source may call by. A cluster behind an address translation comes in within minutes.
var ClaimRate = Rate{Every: time.Second / 64, Burst: 1024}

// MaxClaimants is how many sources Claims tells apart.
const MaxClaimants = 1024

// Claims bounds how fast one source makes peers of NIDs that it calls by. It is not safe
// for concurrent use; Rate is set before the first Take.
type Claims struct {
	Rate Rate

	began  time.Time
	meters map[netip.Addr]*Meter
	others Meter // of sources for which there was no room
}

// Take tells whether a source may claim one more, and then counts it.
func (c *Claims) Take(from netip.Addr, at time.Time) bool {
	if c.meters == nil {
		c.began, c.meters = at, map[netip.Addr]*Meter{}
	}
	now := int64(at.Sub(c.began))
	m := c.meters[from]
	if m == nil && c.room(now) {
		m = new(Meter)
		c.meters[from] = m
	}
	if m == nil {
		m = &c.others
	}
	return m.Take(c.Rate, now, 1)
}

// room tells whether there is room for one more source, after forgetting those
// that claimed nothing lately.
func (c *Claims) room(now int64) bool {
	if len(c.meters) < MaxClaimants {
		return true
	}
	for a, m := range c.meters {
		if m.Idle(now) {
			delete(c.meters, a)
		}
	}
	return len(c.meters) < MaxClaimants
}
