package node

import (
	"context"

	"github.com/lnetd/lnetd/discovery"
)

// Activity shows what the node does on its own, besides sending the messages of programs.
type Activity struct {
	Discovery discovery.Figures
	// Parked is the number of messages that wait for discovery. Resends is the number of
	// messages that wait for the monitor to send them, mostly after a failure.
	Parked, Resends int
	// RecoveringNIs and RecoveringPeerNIs are the numbers of NIs and peer NIs that are pinged
	// until their health is full. NIPings and PeerNIPings count these pings.
	RecoveringNIs, RecoveringPeerNIs int
	NIPings, PeerNIPings             uint64
}

// Activity returns what the node does on its own. It returns ErrClosed or ctx's error if
// discovery does not answer; the result then lacks the figures of discovery. It returns
// ErrInHandler if a handler calls it.
func (a *Admin) Activity(ctx context.Context) (Activity, error) {
	n := a.n
	if err := n.checkMayBlock(); err != nil {
		return Activity{}, err
	}
	nis, peers := n.recovering()
	out := Activity{
		Resends: int(n.resends.length.Load()), RecoveringNIs: len(nis), RecoveringPeerNIs: len(peers),
		NIPings: n.recovery.niPings.Load(), PeerNIPings: n.recovery.peerPings.Load(),
	}
	d := &n.discoverer
	err := d.call(ctx, func(m *discovery.Machine) {
		out.Discovery, out.Parked = m.Figures(), len(d.parked)
	})
	return out, err
}
