package o2iblnd

import (
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// rememberedPeers bounds what is remembered of peers that have gone; an entry takes about
// 100 bytes.
const rememberedPeers = 8192

// departed remembers peers that have left an interface's table, so that one that comes
// back with another incarnation is known to have restarted. It needs no clock: when the
// young are too many the old are forgotten, and the young are the old ones. The zero value
// remembers nobody.
type departed struct{ young, old map[lnet.NID]past }

type past struct {
	peering  protocol.Peering
	presumed bool
}

// keep remembers a peer that was met. Its lock is held.
func (d *departed) keep(p *peer) {
	if p.peering.Version == 0 {
		return
	}
	if len(d.young) >= rememberedPeers {
		d.old, d.young = d.young, nil
	}
	if d.young == nil {
		d.young = make(map[lnet.NID]past)
	}
	d.young[p.nid] = past{p.peering, p.presumed}
}

// recall hands out, for good, what is remembered of a peer that comes.
func (d *departed) recall(nid lnet.NID) (protocol.Peering, bool) {
	for _, m := range [...]map[lnet.NID]past{d.young, d.old} {
		if v, found := m[nid]; found {
			delete(m, nid)
			return v.peering, v.presumed
		}
	}
	return protocol.Peering{}, false
}

// claimRate is how many NIDs that are not its own, of peers that are not there, one source
// may call by.
var claimRate = lnd.Rate{Every: time.Second / 64, Burst: 1024}

// claimants is how many sources are told apart.
const claimants = 1024

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

// room tells whether there is room for one more source, after forgetting those that
// claimed nothing lately.
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
