package node

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// Detour tells for how long messages to a node have gone round a way that was
// found to be in trouble; of several it is the latest that counts. What is on such a way
// may stay there until it works again. false: no way to the node is in trouble, or
// all are. It does not block, and is cheap enough to be asked several times a second.
func (n *Node) Detour(to lnet.NID) (time.Duration, bool) {
	p := n.made().peers.find(to)
	if p == nil {
		return 0, false
	}
	t := n.topology.Load()
	var d detour
	for _, net := range p.Peer().Nets {
		d.add(t, net)
		for _, r := range t.view.Routing.To(net.ID) {
			for _, near := range r.Gateway.Peer().Nets {
				d.add(t, near)
			}
		}
	}
	if !d.open || d.since == 0 {
		return 0, false
	}
	return time.Duration(n.now() - d.since), true
}

// detour is what there is to be said of several ways: whether one is open, and
// since when, by the node's clock, another one is avoided, 0: none is.
type detour struct {
	open  bool
	since int64
}

// add looks at the ways from here to the NIDs on a net.
func (d *detour) add(t *topology, net *selection.PeerNet) {
	for _, i := range t.nis {
		if i.net != net.ID {
			continue
		}
		for _, q := range net.NIs {
			switch {
			case i.Fatal.Load():
				d.since = max(d.since, i.downSince.Load())
			case q.Trouble(&i.NI) != selection.NoTrouble:
				d.since = max(d.since, peerNIOf(q).avoidedSince.Load())
			default:
				d.open = true
			}
		}
	}
}
