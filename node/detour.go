package node

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// Detour returns how long messages to a node have been avoiding a failed path because
// another path works. If several paths have failed, the most recent failure counts.
// Messages that were queued on a failed path before it failed may stay there until it
// works again. Detour returns false if no path to the node has failed, or if all have. It
// does not block, and is cheap enough to be called several times a second.
func (n *Node) Detour(to lnet.NID) (time.Duration, bool) {
	if !n.isMade() {
		return 0, false
	}
	p := n.peers.find(to)
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

// detour summarizes several paths. open reports whether one of them works. since is when
// the most recent failure of another one began, by the node's clock, or 0 if no path has
// failed.
type detour struct {
	open  bool
	since int64
}

// add adds the paths from this node's NIs to the NIDs of one net to the summary.
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
