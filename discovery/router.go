package discovery

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// AddRoute records that one more route leads through the NID, whose peer is created if
// necessary. The peer with all its NIDs is then a gateway, and cannot be deleted. AddRoute
// returns ErrNoPeer if no peer can have the NID.
func (m *Machine) AddRoute(now time.Duration, gateway lnet.NID) error {
	m.beginEvent(now)
	defer m.endEvent()
	p := m.findOrCreate(gateway)
	if p == nil || gateway.IsLoopback() {
		return peerError("route through", gateway, gateway, ErrNoPeer)
	}
	m.addRoutes(p, gateway, 1)
	return nil
}

// RemoveRoute undoes one AddRoute. If a MoveRoutes has moved the route, the caller must
// pass the NID to which it was moved. RemoveRoute returns ErrNotFound if no route leads
// through the NID.
func (m *Machine) RemoveRoute(now time.Duration, gateway lnet.NID) error {
	m.beginEvent(now)
	defer m.endEvent()
	i := m.nis[gateway]
	if i == nil || i.routes == 0 {
		return peerError("remove route through", gateway, gateway, ErrNotFound)
	}
	i.routes--
	i.peer.routes--
	if i.peer.routes == 0 && i.peer.work != nil {
		i.peer.work.net = 0 // lnet-core 8.1
	}
	m.changed(i.peer)
	return nil
}

// gateway is a NID through which routes lead, and the number of these routes.
type gateway struct {
	nid    lnet.NID
	routes int
}

// gateways returns the NIDs of the peer through which routes lead.
func (p *peer) gateways() []gateway {
	var all []gateway
	for _, i := range p.nis {
		if i.routes > 0 {
			all = append(all, gateway{i.nid, i.routes})
		}
	}
	return all
}

func (m *Machine) addRoutes(p *peer, nid lnet.NID, n int) {
	m.nis[nid].routes += n
	p.routes += n
	m.changed(p)
}

// CheckRouter begins a check of the gateway that has the NID, with a ping over the given
// net, on which the gateway has a NID (lnet-core 8.5). A GatewayChecked reports the
// result. CheckRouter returns false and does nothing if no route leads through the NID's
// peer, or if a check of it is in progress.
func (m *Machine) CheckRouter(now time.Duration, gateway lnet.NID, over lnet.Net) bool {
	m.beginEvent(now)
	defer m.endEvent()
	i := m.nis[gateway]
	if i == nil || i.peer.routes == 0 || i.peer.state.Has(RouterDiscovery) || m.stopped {
		return false
	}
	p := i.peer
	m.clear(p, NIDsUpToDate)
	m.set(p, ForcePing|ForcePush|RouterDiscovery)
	p.startWork().net = over
	m.enqueue(p)
	return true
}
