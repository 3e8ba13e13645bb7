package socklnd

import (
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnet"
)

// hostRate is how many callers, of peers that are not there, a network of IPv6 may
// have: any host of it has as many addresses as it likes. A cluster that is one such
// network comes in within seconds.
var hostRate = limit.Rate{Every: time.Second / 256, Burst: 16384}

// admitNID tells whether a peer may be made of a NID by which an address calls. i.mu
// is held.
func (i *Interface) admitNID(nid lnet.NID, from netip.Addr, at time.Time) bool {
	switch {
	case nid.IP() != from:
		return i.claims.Take(limit.SourceOf(from), at)
	case from.Is6():
		return i.hosts.Take(limit.SourceOf(from), at)
	}
	return true
}
