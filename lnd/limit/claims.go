package limit

import (
	"net/netip"
	"time"
)

// ClaimRate limits how many new peers one source may create by connecting with NIDs that do not contain its
// address. A whole cluster behind address translation can connect within minutes.
var ClaimRate = Rate{Every: time.Second / 64, Burst: 1024}

// MaxClaimants is the number of sources that Claims tracks separately.
const MaxClaimants = 1024

// Claims limits how fast one source can create peers by connecting with different NIDs. It is not safe for
// concurrent use. Set Rate before the first call of Allow.
type Claims struct {
	Rate Rate

	began  time.Time
	meters map[netip.Addr]*Meter
	others Meter // shared by sources above MaxClaimants
}

// Allow counts one more NID of the source from and returns true. If the source has reached its limit, it counts
// nothing and returns false.
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

// makeRoom reports whether another source can be tracked separately. If the table is full, it first removes
// sources that have used no NIDs recently.
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
