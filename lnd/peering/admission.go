package peering

import (
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnet"
)

// hostRate limits how many unknown peers may connect from one IPv6 network, in which any host has as
// many addresses as it likes. A cluster within one such network can connect within seconds.
var hostRate = limit.Rate{Every: time.Second / 256, Burst: 16384}

// Admission limits what one source address can occupy of an interface: inbound connections, and peers
// that are created because of a caller's NID. Its owner's lock guards it.
type Admission struct {
	// Claims limits peers with a NID other than the caller's own address.
	Claims limit.Claims

	perSource int
	conns     map[netip.Addr]int
	hosts     limit.Claims // peers with the caller's own address, over IPv6
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

// Enter counts a connection from an address, until Leave. known reports whether the interface already
// has a peer with the NID that the caller uses. If the caller must be refused, Enter counts nothing and
// returns a *lnd.RefusedError.
func (a *Admission) Enter(from netip.Addr, nid lnet.NID, known bool, at time.Time) error {
	if a.conns[from] >= a.perSource {
		return lnd.Refuse(lnd.RefusedMany, "%s has %d connections", from, a.perSource)
	}
	if !known && !a.allowClaim(from, nid, at) {
		return lnd.Refuse(lnd.RefusedClaims, "%s calls by too many NIDs", from)
	}
	a.conns[from]++
	return nil
}

// Leave undoes Enter when the connection has ended.
func (a *Admission) Leave(from netip.Addr) {
	if a.conns[from]--; a.conns[from] <= 0 {
		delete(a.conns, from)
	}
}

// allowClaim reports whether a caller may create a peer.
func (a *Admission) allowClaim(from netip.Addr, nid lnet.NID, at time.Time) bool {
	switch {
	case nid.IP() != from:
		return a.Claims.Allow(limit.SourceOf(from), at)
	case from.Is6():
		return a.hosts.Allow(limit.SourceOf(from), at)
	}
	return true
}
