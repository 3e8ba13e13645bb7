package node

import (
	"context"

	"github.com/lnetd/lnetd/discovery"
)

// Activity is what the node's own parts do, beside the messages of programs.
type Activity struct {
	Discovery discovery.Figures
	// Parked is how many messages wait for discovery, Resends how many to be sent
	// again, or at last.
	Parked, Resends int
	// RecoveringNIs and RecoveringPeerNIs are pinged until they are well, of which
	// the numbers of pings tell.
	RecoveringNIs, RecoveringPeerNIs int
	NIPings, PeerNIPings             uint64
}

// Activity tells what the node's own parts do. An error, ErrClosed or ctx's, says that
// discovery has not answered: then what it does is missing. ErrInHandler: a handler asks.
func (n *Node) Activity(ctx context.Context) (Activity, error) {
	if err := n.mayWait(); err != nil {
		return Activity{}, err
	}
	nis, peers := n.Recovering()
	a := Activity{
		Resends: int(n.resends.length.Load()), RecoveringNIs: len(nis), RecoveringPeerNIs: len(peers),
		NIPings: n.recovery.niPings.Load(), PeerNIPings: n.recovery.peerPings.Load(),
	}
	d := &n.discoverer
	err := d.call(ctx, func(m *discovery.Machine) {
		a.Discovery, a.Parked = m.Figures(), len(d.parked)
	})
	return a, err
}
