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

// recovery holds the NIs and peer NIs whose health is not at its best. The
// monitor pings each until it is (discovery 9.7).
type recovery struct {
	mu       sync.Mutex // guards patients, the list; what is in it is the monitor's
	patients []*patient

	niPings, peerPings atomic.Uint64 // that were to be sent
}

// patient is an NI or a peer NI in the queue, and the handler of its pings.
type patient struct {
	node   *Node
	ni     *ni // nil: a peer NI
	peer   *peerNI
	health *health
	ping   lnet.Handle // the last one's MD; the monitor's
	pinged int64       // when that left, by the node's clock
}

// recoverNI puts an NI in the queue.
func (n *Node) recoverNI(i *ni) {
	n.admit(patient{node: n, ni: i, health: &i.health})
}

// recoverPeer puts a peer NI in the queue, if it was ever heard and has not
// been silent for too long.
func (n *Node) recoverPeer(p *peerNI) {
	if p.lastAlive.Load() == 0 || n.agedOut(p) {
		return
	}
	n.admit(patient{node: n, peer: p, health: &p.health})
}

// agedOut tells whether p has been silent for longer than the recovery limit,
// and then forgets its pings.
func (n *Node) agedOut(p *peerNI) bool {
	limit := n.parameters.Load().RecoveryLimit
	if limit <= 0 || n.second.Load()-p.lastAlive.Load() <= int64(limit/time.Second) {
		return false
	}
	p.health.pings.Store(0)
	return true
}

// admit puts p in the queue, unless it is there.
func (n *Node) admit(p patient) {
	h := p.health
	if h.recovering.Load() || h.recovering.Swap(true) {
		return
	}
	h.nextPing.Store(n.second.Load() + n.pingInterval(h))
	r := &n.recovery
	r.mu.Lock()
	r.patients = append(r.patients, new(p))
	r.mu.Unlock()
}

// pingInterval is the pause before the next ping in seconds: 1, 2, 4 and so on.
func (n *Node) pingInterval(h *health) int64 {
	longest := int64(n.parameters.Load().MaxRecoveryPingInterval / time.Second)
	count := int(h.pings.Load())
	if count > bits.Len64(uint64(longest))-1 {
		return longest
	}
	return 1 << count
}

// runRecovery pings those who are due. The monitor calls it.
func (n *Node) runRecovery(second int64) {
	r := &n.recovery
	r.mu.Lock()
	patients := slices.Clone(r.patients)
	r.mu.Unlock()
	for _, p := range patients {
		if n.mended(p) {
			n.discharge(p)
			continue
		}
		if p.health.nextPing.Load() <= second && !p.health.pending.Swap(true) {
			p.health.pings.Add(1)
			p.health.nextPing.Store(second + n.pingInterval(p.health))
			n.pingPatient(p)
		}
	}
}

// tryAgain has the NI i, and the peer NIs on its net, pinged at once, and then as often
// as if they had just been hurt: its link is back.
func (n *Node) tryAgain(i *ni) {
	r := &n.recovery
	r.mu.Lock()
	for _, p := range r.patients {
		if p.ni == i || p.ni == nil && p.peer.NID.Net() == i.net {
			p.health.pings.Store(0)
			p.health.nextPing.Store(n.second.Load())
		}
	}
	r.mu.Unlock()
	n.wakeMonitor()
}

// pinged are the patients of which pings are under way. The monitor calls it.
func (r *recovery) pinged() (out []*patient) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.patients {
		if p.health.pending.Load() {
			out = append(out, p)
		}
	}
	return out
}

// mended says that a patient needs no ping any more.
func (n *Node) mended(p *patient) bool {
	if p.health.full() {
		return true
	}
	if p.ni != nil {
		return p.ni.closing.Load()
	}
	return p.peer.gone.Load() || n.agedOut(p.peer)
}

// discharge takes p out of the queue.
func (n *Node) discharge(p *patient) {
	r := &n.recovery
	r.mu.Lock()
	r.patients = slices.DeleteFunc(r.patients, func(o *patient) bool { return o == p })
	r.mu.Unlock()
	p.health.nextPing.Store(0)
	p.health.recovering.Store(false)
	if p.health.pending.Load() {
		_ = n.table.Unlink(p.ping) // not found: it is through
	}
	if !n.mended(p) { // hurt again while it left
		if p.ni != nil {
			n.recoverNI(p.ni)
		} else {
			n.recoverPeer(p.peer)
		}
	}
}

// pingPatient sends a ping that nothing stands in for: it is not sent again,
// and goes to exactly this NID.
func (n *Node) pingPatient(p *patient) {
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
		_ = n.table.Unlink(h) // not found: closing
	}
}

// HandleEvent hears of a ping. An answer counts for a peer NI as a message that
// came from it, of which is known that it left after the ping; our own NI gains by it
// here.
func (p *patient) HandleEvent(e *portals.Event) {
	switch {
	case e.Err != nil && !e.Unlinked:
		_ = p.node.table.Unlink(e.MD) // not found: it is through
	case e.Err == nil && e.Type == portals.EventReply && p.ni != nil:
		p.ni.gainHealth(p.node.parameters.Load().HealthSensitivity)
	case e.Err == nil && e.Type == portals.EventReply && e.Sender == p.peer.NID:
		p.node.provedUp(p.peer, p.pinged)
	}
	if e.Unlinked {
		p.health.pending.Store(false)
	}
}

// Recovering are the NIDs that are pinged until they are well, of local NIs and of peers, in
// the order in which they fell ill.
func (n *Node) Recovering() (local, peers []lnet.NID) {
	r := &n.made().recovery
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.patients {
		if p.ni != nil {
			local = append(local, p.ni.NID)
		} else {
			peers = append(peers, p.peer.NID)
		}
	}
	return local, peers
}
