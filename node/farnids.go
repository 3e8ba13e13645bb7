package node

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// farNIDs are the NIDs that gateways have on other nets, each with the NID that
// routes lead through. Kernels close all connections with a neighbour that sends
// them a message for another NID of theirs than that which it came to, so such a
// message is addressed to the NID on our net. Discovery, where it is on, joins
// them anyway.
type farNIDs map[lnet.NID]*peerNI

// farNIDs are those of the gateways of a route table.
func (d *discoverer) farNIDs(table *selection.Routing) farNIDs {
	far := farNIDs{}
	for _, r := range table.Routes() {
		q := gatewayOf(r)
		if q == nil {
			continue
		}
		for _, nid := range q.lists {
			if far[nid] == nil && nid != r.Gateway.NID {
				far[nid] = peerNIOf(r.Gateway)
			}
		}
	}
	return far
}

// listed notes which NIDs a gateway says that it has.
func (d *discoverer) listed(q *peer, info *lnet.PingInfo) {
	nids := make([]lnet.NID, 0, len(info.NIs))
	for _, i := range info.NIs {
		if !i.NID.IsLoopback() {
			nids = append(nids, i.NID)
		}
	}
	if !slices.Equal(q.lists, nids) {
		q.lists = nids
		d.route(d.node.topology.Load().view.Routing)
	}
}

// nearer is the NID to use for a message that leaves from the given source, if
// that is one, for a NID of a gateway's.
func (n *Node) nearer(t *topology, target, source lnet.NID) lnet.NID {
	near := t.far[target]
	if near == nil || t.first(target.Net()) != nil {
		return target
	}
	given := !source.IsZero() && !source.IsAny()
	if given && source.Net() != near.NID.Net() {
		return target
	}
	if p := n.peers.find(target); p != nil && !p.alone() && p.peer.Load() != near.peer.Load() {
		return target // another node has it, as discovery knows
	}
	return near.NID
}
