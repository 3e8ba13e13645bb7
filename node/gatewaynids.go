package node

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// gatewayNIDs maps the NIDs that gateways have on other nets to the gateways' NIDs that
// are used in routes. A kernel gateway closes all its connections with us if a message for
// one of its NIDs arrives on another one. A message for a NID in this map is therefore
// addressed to the gateway's NID on our net. This matters if discovery is off; otherwise
// discovery combines the NIDs of a gateway in one peer.
type gatewayNIDs map[lnet.NID]*peerNI

// farNIDs returns the map for a route table: all NIDs that its gateways reported and that
// the routes do not use.
func (d *discoverer) farNIDs(table *selection.Routing) gatewayNIDs {
	far := gatewayNIDs{}
	for _, r := range table.Routes() {
		q := gatewayOf(r)
		if q == nil {
			continue
		}
		for _, nid := range q.reportedNIDs {
			if far[nid] == nil && nid != r.Gateway.NID {
				far[nid] = peerNIOf(r.Gateway)
			}
		}
	}
	return far
}

// recordGatewayNIDs records the NIDs that the gateway q reported as its own, and updates
// the topology if they changed.
func (d *discoverer) recordGatewayNIDs(q *peer, info *lnet.PingInfo) {
	nids := make([]lnet.NID, 0, len(info.NIs))
	for _, i := range info.NIs {
		if !i.NID.IsLoopback() {
			nids = append(nids, i.NID)
		}
	}
	if !slices.Equal(q.reportedNIDs, nids) {
		q.reportedNIDs = nids
		d.route(d.node.topology.Load().view.Routing)
	}
}

// gatewayNID returns the NID to which a message for target is addressed. If target belongs
// to a gateway and is not on a local net, that is the gateway's NID on our net. Otherwise
// it is target itself. source, if not zero or AnyNID, is the NID that the message must be
// sent from.
func (n *Node) gatewayNID(t *topology, target, source lnet.NID) lnet.NID {
	near := t.gatewayNIDs[target]
	if near == nil || t.first(target.Net()) != nil {
		return target
	}
	given := !source.IsZero() && !source.IsAny()
	if given && source.Net() != near.NID.Net() {
		return target
	}
	if p := n.peers.find(target); p != nil && !p.isOnlyNID() && p.peer.Load() != near.peer.Load() {
		return target // discovery found that it belongs to another node
	}
	return near.NID
}
