package socklnd

import (
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

// claimRate is how many NIDs that are not its own, of peers that are not there,
// one address may call by. A cluster behind an address translation comes in
// within minutes.
var claimRate = lnd.Rate{Every: time.Second / 64, Burst: 1024}

// claimants is how many addresses are told apart.
const claimants = 1024

// claims bounds how fast one address makes peers of NIDs that it claims.
type claims struct {
	rate   lnd.Rate
	began  time.Time
	meters map[netip.Addr]*lnd.Meter
	others lnd.Meter // of addresses for which there was no room
}

// take tells whether an address may claim one more.
func (c *claims) take(from netip.Addr, at time.Time) bool {
	if c.meters == nil {
		c.began, c.meters = at, map[netip.Addr]*lnd.Meter{}
	}
	now := int64(at.Sub(c.began))
	m := c.meters[from]
	if m == nil && c.room(now) {
		m = new(lnd.Meter)
		c.meters[from] = m
	}
	if m == nil {
		m = &c.others
	}
	return m.Take(c.rate, now, 1)
}

// room tells whether there is room for one more address, after forgetting those
// that claimed nothing lately.
func (c *claims) room(now int64) bool {
	if len(c.meters) < claimants {
		return true
	}
	for a, m := range c.meters {
		if m.Idle(now) {
			delete(c.meters, a)
		}
	}
	return len(c.meters) < claimants
}
