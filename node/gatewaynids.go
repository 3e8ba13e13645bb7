package node

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// gatewayNIDs maps the NIDs that gateways have on other nets to the gateways' NIDs that are
// used in routes. A kernel closes all its connections with a neighbour if a message for
// one of the kernel's NIDs arrives on another one. A message for such a NID is therefore
// addressed to the gateway's NID on our net. If discovery is on, it merges these NIDs
// anyway.
type gatewayNIDs map[lnet.NID]*peerNI

// farNIDs returns the NIDs on other nets of the gateways in a route table.
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

// recordGatewayNIDs records the NIDs that a gateway reported as its own.
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

// gatewayNID returns the NID to which a message for target is addressed: target itself, or if
// it belongs to a gateway, the gateway's NID on our net. source, if not zero or AnyNID,
// is the NID that the message must be sent from.
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
