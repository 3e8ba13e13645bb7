package peering

import (
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnet"
)

// hostRate limits how many unknown peers may connect from one IPv6 network per unit of time. A limit per
// address would be useless there, because a host can use any number of addresses of its network. The burst is
// large enough for all hosts of a cluster within one network to connect within seconds.
var hostRate = limit.Rate{Every: time.Second / 256, Burst: 16384}

// Admission limits what one source address can occupy of an interface: inbound connections, and entries in
// the table of peers that are created for the NIDs that callers announce. It is not safe for concurrent use;
// the lock of its owner guards it.
type Admission struct {
	// Claims limits new peers whose NID contains another address than the one that the caller connects from.
	Claims limit.Claims

	perSource int
	conns     map[netip.Addr]int
	hosts     limit.Claims // limits new peers whose NID contains the caller's own IPv6 address
}

// NewAdmission returns an Admission that permits perSource connections from one address.
func NewAdmission(perSource int) Admission {
	return Admission{
		perSource: perSource,
		conns:     make(map[netip.Addr]int),
		Claims:    limit.Claims{Rate: limit.ClaimRate},
		hosts:     limit.Claims{Rate: hostRate},
	}
}

// Enter admits a caller that connects from the given address and announces nid, and counts its connection
// until Leave is called. known reports whether the interface already has a peer with this NID. If the caller
// must be refused, Enter counts nothing and returns a *lnd.RefusedError.
func (a *Admission) Enter(from netip.Addr, nid lnet.NID, known bool, at time.Time) error {
	if a.conns[from] >= a.perSource {
		return lnd.Refuse(lnd.RefusedMany, "%s already has the maximum of %d connections", from, a.perSource)
	}
	if !known && !a.allowClaim(from, nid, at) {
		return lnd.Refuse(lnd.RefusedClaims, "%s connects with too many different NIDs", from)
	}
	a.conns[from]++
	return nil
}

// Leave subtracts one connection that Enter has counted for the address. It is called when that connection
// has ended.
func (a *Admission) Leave(from netip.Addr) {
	if a.conns[from]--; a.conns[from] <= 0 {
		delete(a.conns, from)
	}
}

// allowClaim reports whether the interface may create a peer for nid, which a caller from the given address
// announces. If so, it charges the new peer to the caller's source.
func (a *Admission) allowClaim(from netip.Addr, nid lnet.NID, at time.Time) bool {
	switch {
	case nid.IP() != from:
		return a.Claims.Allow(limit.SourceOf(from), at)
	case from.Is6():
		return a.hosts.Allow(limit.SourceOf(from), at)
	}
	return true
}
