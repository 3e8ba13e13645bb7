package node

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

// Discharge removes an NI from the recovery queue, as the monitor does once its health is
// full.
func (n *Node) Discharge(nid lnet.NID) {
	r := &n.recovery
	r.mu.Lock()
	k := slices.IndexFunc(r.list, func(p *recoveringNI) bool { return p.ni != nil && p.ni.NID == nid })
	p := r.list[k]
	r.mu.Unlock()
	n.removeRecovering(p)
}

// CallSilent marks an NI as down on which no ping has arrived for a time, as the monitor
// does.
func (n *Node) CallSilent(nid lnet.NID, within time.Duration) {
	if n.topology.Load().find(nid).markSilent(n.second.Load() - int64(within/time.Second)) {
		n.republish()
	}
}

// CallDown records the status that a peer NI's own node reports.
func (n *Node) CallDown(nid lnet.NID, down bool) { n.reportDown(n.peers.find(nid), down) }

// View returns what discovery knows about the peer with a NID.
func (n *Node) View(nid lnet.NID) (v *discovery.View) {
	_ = n.discoverer.call(n.ctx, func(m *discovery.Machine) { v = m.Find(nid) })
	return v
}

// Describe does what Peer does when it has found a peer.
func (n *Node) Describe(v *discovery.View) (PeerInfo, bool) { return n.peerInfo(v, nil) }

// HoldDiscovery blocks the discoverer, so that events for it wait, until the returned
// function is called.
func (n *Node) HoldDiscovery() (release func()) {
	busy, done := make(chan struct{}), make(chan struct{})
	n.discoverer.post(func(*discovery.Machine, time.Duration) {
		close(busy)
		<-done
	})
	<-busy
	return func() { close(done) }
}

// RunDiscoverer calls f in the discoverer's goroutine with its search for gateways whose
// check is due.
func (n *Node) RunDiscoverer(f func(checkRouters func() time.Duration)) {
	_ = n.discoverer.call(n.ctx, func(*discovery.Machine) { f(n.discoverer.checkRouters) })
}
