package node

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// recovery is the queue of NIs and peer NIs whose health is not full. The monitor pings
// each of them until its health is full (discovery 9.7).
type recovery struct {
	mu   sync.Mutex // guards list; its elements belong to the monitor
	list []*recoveringNI

	niPings, peerPings atomic.Uint64 // pings that were started
}

// recoveringNI is an NI or a peer NI in the recovery queue, and the handler of its pings.
type recoveringNI struct {
	node   *Node
	ni     *ni // nil for a peer NI
	peer   *peerNI
	health *health
	ping   lnet.Handle // MD of the last ping; accessed by the monitor only
	pinged int64       // when that ping was sent, by the node's clock
}

// recoverNI adds an NI to the recovery queue.
func (n *Node) recoverNI(i *ni) {
	n.addRecovering(recoveringNI{node: n, ni: i, health: &i.health})
}

// recoverPeer adds a peer NI to the recovery queue, if a message has ever arrived from it
// and the last one is not older than the recovery limit.
func (n *Node) recoverPeer(p *peerNI) {
	if p.lastAlive.Load() == 0 || n.agedOut(p) {
		return
	}
	n.addRecovering(recoveringNI{node: n, peer: p, health: &p.health})
}

// agedOut reports whether the last message from p is older than the recovery limit, so
// that p is pinged no longer. If so, it also resets the number of pings.
func (n *Node) agedOut(p *peerNI) bool {
	limit := n.parameters.Load().RecoveryLimit
	if limit <= 0 || n.second.Load()-p.lastAlive.Load() <= int64(limit/time.Second) {
		return false
	}
	p.health.pings.Store(0)
	return true
}

// addRecovering adds p to the queue unless it is there already, and plans its first ping.
func (n *Node) addRecovering(p recoveringNI) {
	h := p.health
	if h.recovering.Load() || h.recovering.Swap(true) {
		return
	}
	h.nextPing.Store(n.second.Load() + n.pingInterval(h))
	r := &n.recovery
	r.mu.Lock()
	r.list = append(r.list, new(p))
	r.mu.Unlock()
}

// pingInterval returns the pause before the next ping, in seconds. It is 1 at first and
// doubles with each ping, up to MaxRecoveryPingInterval.
func (n *Node) pingInterval(h *health) int64 {
	longest := int64(n.parameters.Load().MaxRecoveryPingInterval / time.Second)
	count := int(h.pings.Load())
	if count > bits.Len64(uint64(longest))-1 {
		return longest
	}
	return 1 << count
}

// runRecovery sends the pings that are due, and removes NIs that have recovered from the
// queue. The monitor calls it.
func (n *Node) runRecovery(second int64) {
	r := &n.recovery
	r.mu.Lock()
	list := slices.Clone(r.list)
	r.mu.Unlock()
	for _, p := range list {
		if n.isRecovered(p) {
			n.removeRecovering(p)
			continue
		}
		if p.health.nextPing.Load() <= second && !p.health.pending.Swap(true) {
			p.health.pings.Add(1)
			p.health.nextPing.Store(second + n.pingInterval(p.health))
			n.pingRecovering(p)
		}
	}
}

// pingSoon makes the monitor ping the NI i and the peer NIs on its net immediately, if
// they are in the queue, because the link of i is up again. The pauses between further
// pings start again at 1 s.
func (n *Node) pingSoon(i *ni) {
	r := &n.recovery
	r.mu.Lock()
	for _, p := range r.list {
		if p.ni == i || p.ni == nil && p.peer.NID.Net() == i.net {
			p.health.pings.Store(0)
			p.health.nextPing.Store(n.second.Load())
		}
	}
	r.mu.Unlock()
	n.wakeMonitor()
}

// pinged returns the NIs and peer NIs with a ping under way. The monitor calls it.
func (r *recovery) pinged() (out []*recoveringNI) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.list {
		if p.health.pending.Load() {
			out = append(out, p)
		}
	}
	return out
}

// isRecovered reports whether p needs no more pings: its health is full, it is gone, or it
// has been silent for too long.
func (n *Node) isRecovered(p *recoveringNI) bool {
	if p.health.full() {
		return true
	}
	if p.ni != nil {
		return p.ni.closing.Load()
	}
	return p.peer.gone.Load() || n.agedOut(p.peer)
}

// removeRecovering removes p, which needs no more pings, from the queue and unlinks the MD
// of its last ping. If p has lost health since, it is added again.
func (n *Node) removeRecovering(p *recoveringNI) {
	r := &n.recovery
	r.mu.Lock()
	r.list = slices.DeleteFunc(r.list, func(o *recoveringNI) bool { return o == p })
	r.mu.Unlock()
	p.health.nextPing.Store(0)
	p.health.recovering.Store(false)
	if p.health.pending.Load() {
		_ = n.table.Unlink(p.ping) // not found: the MD has ended already
	}
	if !n.isRecovered(p) { // it has lost health since the caller's check
		if p.ni != nil {
			n.recoverNI(p.ni)
		} else {
			n.recoverPeer(p.peer)
		}
	}
}

// pingRecovering sends a ping to exactly the NID of p, not to another NID of the same
// node. A ping that fails is not resent.
func (n *Node) pingRecovering(p *recoveringNI) {
	h, err := n.table.Bind(portals.MD{
		Bytes: make([]byte, lnet.PingBufferMin), Threshold: 2, Unlink: true,
		Options: portals.Truncate | portals.TrackResponse, Handler: p,
	})
	if err != nil { // the node is closing
		p.health.pending.Store(false)
		return
	}
	p.ping, p.pinged = h, p.node.now()
	r := request{
		typ: lnet.MsgGet, portal: lnet.ReservedPortal, bits: lnet.PingMatchBits,
		wantReply: true, recovery: true,
	}
	to := lnet.ProcessID{PID: lnet.PIDLustre}
	if p.ni != nil {
		to.NID = p.ni.NID
		n.recovery.niPings.Add(1)
	} else {
		to.NID = p.peer.NID
		n.recovery.peerPings.Add(1)
	}
	if n.request(h, to, &r) != nil {
		_ = n.table.Unlink(h) // not found: the node is closing
	}
}

// HandleEvent implements portals.Handler for the events of the ping. The REPLY from a peer
// NI raises its health in the same way as any message does; here it only proves that the
// peer NI was up when the ping was sent. The REPLY from an NI of this node raises the NI's
// health here.
func (p *recoveringNI) HandleEvent(e *portals.Event) {
	switch {
	case e.Err != nil && !e.Unlinked:
		_ = p.node.table.Unlink(e.MD) // not found: the MD has ended already
	case e.Err == nil && e.Type == portals.EventReply && p.ni != nil:
		p.ni.raiseHealth(p.node.parameters.Load().HealthSensitivity)
	case e.Err == nil && e.Type == portals.EventReply && e.Sender == p.peer.NID:
		p.node.reportUp(p.peer, p.pinged)
	}
	if e.Unlinked {
		p.health.pending.Store(false)
	}
}

// Recovering returns the NIDs of the NIs and peer NIs that receive recovery pings, in the
// order in which they lost health.
func (a *Admin) Recovering() (local, peers []lnet.NID) {
	if !a.n.isMade() {
		return nil, nil
	}
	return a.n.recovering()
}

func (n *Node) recovering() (local, peers []lnet.NID) {
	r := &n.recovery
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.list {
		if p.ni != nil {
			local = append(local, p.ni.NID)
		} else {
			peers = append(peers, p.peer.NID)
		}
	}
	return local, peers
}
