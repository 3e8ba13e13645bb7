package socklnd

import (
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// claimRate is how many NIDs that are not its own, of peers that are not there,
// one source may call by. A cluster behind an address translation comes in
// within minutes.
var claimRate = lnd.Rate{Every: time.Second / 64, Burst: 1024}

// hostRate is how many callers, of peers that are not there, a network of IPv6 may
// have: any host of it has as many addresses as it likes. A cluster that is one such
// network comes in within seconds.
var hostRate = lnd.Rate{Every: time.Second / 256, Burst: 16384}

// claimants is how many sources are told apart.
const claimants = 1024

// admitNID tells whether a peer may be made of a NID by which an address calls. i.mu
// is held.
func (i *Interface) admitNID(nid lnet.NID, from netip.Addr, at time.Time) bool {
	switch {
	case nid.IP() != from:
		return i.claims.take(lnd.SourceOf(from), at)
	case from.Is6():
		return i.hosts.take(lnd.SourceOf(from), at)
	}
	return true
}

// claims bounds how fast one source makes peers of NIDs that it calls by.
type claims struct {
	rate   lnd.Rate
	began  time.Time
	meters map[netip.Addr]*lnd.Meter
	others lnd.Meter // of sources for which there was no room
}

// take tells whether a source may claim one more.
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

// room tells whether there is room for one more source, after forgetting those
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
