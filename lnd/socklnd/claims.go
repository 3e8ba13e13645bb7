package socklnd

import (
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnet"
)

// hostRate limits how many unknown peers may connect from one IPv6 network, in which any host has as
// many addresses as it likes. A cluster within one such network can connect within seconds.
var hostRate = limit.Rate{Every: time.Second / 256, Burst: 16384}

// admitNID reports whether to create a peer for a NID used by a caller at an address. i.mu is held.
func (i *Interface) admitNID(nid lnet.NID, from netip.Addr, at time.Time) bool {
	switch {
	case nid.IP() != from:
		return i.claims.Take(limit.SourceOf(from), at)
	case from.Is6():
		return i.hosts.Take(limit.SourceOf(from), at)
	}
	return true
}
