package node

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

// Discharge has an NI leave the queue of those that are pinged, as the monitor does
// once it has seen it well.
func (n *Node) Discharge(nid lnet.NID) {
	r := &n.recovery
	r.mu.Lock()
	k := slices.IndexFunc(r.patients, func(p *patient) bool { return p.ni != nil && p.ni.NID == nid })
	p := r.patients[k]
	r.mu.Unlock()
	n.discharge(p)
}

// CallSilent calls an NI down on which no ping came for a time, as the monitor does
// once it has seen that.
func (n *Node) CallSilent(nid lnet.NID, within time.Duration) {
	if n.topology.Load().find(nid).callSilent(n.second.Load() - int64(within/time.Second)) {
		n.restate()
	}
}

// CallDown notes what a peer NI's own node says of it.
func (n *Node) CallDown(nid lnet.NID, down bool) { n.calledDown(n.peers.find(nid), down) }

// View is what discovery knows of the peer with a NID.
func (n *Node) View(nid lnet.NID) (v *discovery.View) {
	_ = n.discoverer.call(n.ctx, func(m *discovery.Machine) { v = m.Find(nid) })
	return v
}

// Describe is what Peer does when it has found a peer.
func (n *Node) Describe(v *discovery.View) (PeerInfo, bool) { return n.peerInfo(v, nil) }

// HoldDiscovery keeps discovery busy, so that what comes for it waits, until the
// function that it returns is called.
func (n *Node) HoldDiscovery() (release func()) {
	busy, done := make(chan struct{}), make(chan struct{})
	n.discoverer.post(func(*discovery.Machine, time.Duration) {
		close(busy)
		<-done
	})
	<-busy
	return func() { close(done) }
}
