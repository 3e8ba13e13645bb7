package limit

import (
	"net/netip"
	"time"
)

// ClaimRate is how many NIDs other than its own, of peers that do not exist yet, one source may use
// when it connects. A whole cluster behind address translation can connect within minutes.
var ClaimRate = Rate{Every: time.Second / 64, Burst: 1024}

// MaxClaimants is how many sources Claims tracks separately.
const MaxClaimants = 1024

// Claims limits how fast one source creates peers by connecting with different NIDs. It is not safe for
// concurrent use. Set Rate before the first Take.
type Claims struct {
	Rate Rate

	began  time.Time
	meters map[netip.Addr]*Meter
	others Meter // shared by sources above MaxClaimants
}

// Allow counts one more NID of a source and returns true, or returns false if the source has reached its
// limit.
func (c *Claims) Allow(from netip.Addr, at time.Time) bool {
	if c.meters == nil {
		c.began, c.meters = at, map[netip.Addr]*Meter{}
	}
	now := int64(at.Sub(c.began))
	m := c.meters[from]
	if m == nil && c.makeRoom(now) {
		m = new(Meter)
		c.meters[from] = m
	}
	if m == nil {
		m = &c.others
	}
	return m.Allow(c.Rate, now, 1)
}

// makeRoom reports whether another source can be tracked. If the table is full, it first removes sources
// without recent claims.
func (c *Claims) makeRoom(now int64) bool {
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
