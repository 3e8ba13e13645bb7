package node

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Distance is the distance from this node to a NID (lnet-core 12.7).
type Distance struct {
	// Hops is 0 for this node's own NIDs and 1 on a local net. Otherwise it is the hop count
	// of the best route plus one.
	Hops int
	// From is the local NID that messages to the NID would be sent from: that of the first NI
	// on its net or on the net of the gateway. For a NID of this node it is that NID.
	From lnet.NID
	// Order compares the distances of several NIDs; lower is nearer. It is 0 for 0@lo and 1
	// for other NIDs of this node. NIDs on local nets come next, in the order of the first
	// NIs of these nets, and NIDs behind routers come last.
	Order int
}

// Distance returns the distance to a NID. It returns ErrUnreachable if neither an NI nor a
// route leads to it.
func (n *Node) Distance(to lnet.NID) (Distance, error) {
	if err := n.checkMade(); err != nil {
		return Distance{}, fmt.Errorf("distance of %s: %w", to, err)
	}
	t := n.topology.Load()
	switch {
	case to.IsLoopback():
		return Distance{From: to}, nil
	case t.find(to) != nil:
		return Distance{From: to, Order: 1}, nil
	}
	for k, i := range t.nis {
		if i.net == to.Net() {
			return Distance{Hops: 1, From: i.NID, Order: 2 + k}, nil
		}
	}
	d := Distance{}
	for _, r := range t.view.Routing.To(to.Net()) {
		hops := int(r.HopCount()) + 1
		if i := t.first(r.Gateway.NID.Net()); i != nil && (d.Hops == 0 || hops < d.Hops) {
			d = Distance{Hops: hops, From: i.NID, Order: 2 + len(t.nis)}
		}
	}
	if d.Hops == 0 {
		return d, fmt.Errorf("distance of %s: %w", to, ErrUnreachable)
	}
	return d, nil
}
