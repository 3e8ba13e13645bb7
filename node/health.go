package node

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// health is the health of an NI or a peer NI, 0 to MaxHealth, with the state of the
// recovery pings to it (discovery 9.1, 9.7).
type health struct {
	value    *atomic.Int32 // of the selection.NI or PeerNI
	pings    atomic.Int32  // recovery pings since the last message arrived
	nextPing atomic.Int64  // when the next ping is due, in seconds of the node's clock; 0 if not planned
	// recovering is set while the NI or peer NI is in the recovery queue, pending while a
	// ping to it is under way.
	recovering, pending atomic.Bool
}

func (h *health) full() bool { return h.value.Load() == MaxHealth }

// add adds d to the health, but keeps it within 0 to MaxHealth. It returns the values
// before and after.
func (h *health) add(d int) (before, after int) {
	for {
		old := h.value.Load()
		v := min(max(int(old)+d, 0), MaxHealth)
		if v == int(old) || h.value.CompareAndSwap(old, int32(v)) {
			return int(old), v
		}
	}
}

// answered resets the number of pings because a message has arrived. If the next ping is
// planned for a time that is far away, as it may be after a long silence, it is sent
// within about a second instead.
func (h *health) answered(second int64) {
	if h.pings.Load() == 0 {
		return
	}
	h.pings.Store(0)
	if at := h.nextPing.Load(); at > second+2 { // longer than the pause before a second ping
		h.nextPing.CompareAndSwap(at, second+1)
	}
}

// Health describes the health of an NI or a peer NI.
type Health struct {
	// Fatal reports whether the NI's link is down. It is false for a peer NI.
	Fatal bool
	// Value is the health, 0 to MaxHealth.
	Value int
	HealthCounters
	// Pings is the number of recovery pings that were sent since a message last arrived.
	// NextPing is when the next recovery ping is due, or zero if none is planned.
	Pings    int
	NextPing time.Time
}

func (n *Node) healthInfo(h *health, s *trafficStats) Health {
	info := Health{Value: int(h.value.Load()), HealthCounters: s.health(), Pings: int(h.pings.Load())}
	if at := h.nextPing.Load(); at != 0 {
		info.NextPing = n.start.Add(time.Duration(at-1) * time.Second) // the first second is 1
	}
	return info
}

// Flags of a status: what a failure with this status lowers, and whether another attempt
// to send the message is allowed (discovery 9.2).
const (
	lowersLocal = 1 << iota
	lowersRemote
	resendable
)

var statusClass = [statuses]uint8{
	lnd.StatusLocalInterrupt: lowersLocal | resendable,
	lnd.StatusLocalDropped:   lowersLocal | resendable,
	lnd.StatusLocalAborted:   lowersLocal | resendable,
	lnd.StatusLocalNoRoute:   lowersLocal | resendable,
	lnd.StatusLocalError:     lowersLocal,
	lnd.StatusLocalTimeout:   lowersLocal | resendable,
	lnd.StatusRemoteError:    lowersRemote,
	lnd.StatusRemoteDropped:  lowersRemote | resendable,
	lnd.StatusRemoteTimeout:  lowersRemote,
	lnd.StatusNetworkTimeout: lowersLocal | lowersRemote,
}

// succeeded updates the health after m was sent, or has arrived if arrived is true. Both
// raise the health of the NI. An arrival also raises that of the neighbour (discovery
// 9.5).
func (m *message) succeeded(arrived bool) {
	n, i := m.node, m.ni
	if i.loopback || m.peer == nil {
		return
	}
	if !i.health.full() {
		i.raiseHealth(n.parameters.Load().HealthSensitivity)
	}
	if !arrived {
		return
	}
	second := n.second.Load()
	i.health.answered(second)
	p := m.peer
	p.health.answered(second)
	switch {
	case p.health.full():
	case p.gateway() || n.router.forwards():
		n.notePeerHealth(p, int(p.health.value.Swap(MaxHealth)), MaxHealth)
	default:
		before, v := p.health.add(n.parameters.Load().HealthSensitivity)
		n.notePeerHealth(p, before, v)
		if v < MaxHealth {
			n.recoverPeer(p)
		}
	}
}

// failed lowers the health of the NI or peer NI that caused the failure of m. It returns
// true if another attempt to send m is allowed and makes sense (discovery 9.2 to 9.4). It
// ignores a failure after the deadline of m, and returns false.
func (m *message) failed(err error) (again bool) {
	n, i, p := m.node, m.ni, m.peer
	if i == nil || i.loopback || p == nil || m.out.deadline != 0 && n.now() > m.out.deadline {
		return false
	}
	n.noteFailure(p, sendFailureText(err))
	s := lnd.StatusOf(err)
	if int(s) >= statuses {
		s = lnd.StatusLocalError
	}
	n.stats.status[s].Add(1)
	class := statusClass[s]
	if errors.Is(err, syscall.EFAULT) { // a program's memory is gone; another NI would not help
		return false
	}
	if errors.Is(err, ErrRestarted) { // no NI has caused it; a status that allows another attempt means that no byte of m was sent
		return class&resendable != 0
	}
	sensitivity := n.parameters.Load().HealthSensitivity
	if class&lowersLocal != 0 {
		if s < lnd.StatusRemoteError {
			i.stats.status[s].Add(1)
		}
		i.lowerHealth(sensitivity)
	}
	if class&lowersRemote != 0 {
		p.counters().status[s].Add(1)
		n.blame(p)
	}
	switch {
	case class&resendable == 0:
		return false
	case class&lowersLocal != 0:
		return n.topology.Load().other(i) || m.reroutable()
	default:
		return !p.isOnlyNID() || m.reroutable()
	}
}

// reroutable reports whether m, which goes through a gateway, could go through another
// one. The specification allows another attempt only if the neighbour has several NIDs. It
// is safe here as well, because a gateway to which no connection is possible has not
// received m.
func (m *message) reroutable() bool {
	return m.tx.To.NID != m.tx.Header.Dest && (m.arrival.from == nil || m.passage.forward) &&
		len(m.node.topology.Load().view.Routing.To(m.tx.Header.Dest.Net())) > 1
}

// raiseHealth raises an NI's health by d.
func (i *ni) raiseHealth(d int) {
	before, v := i.health.add(d)
	if before != v && v == MaxHealth {
		i.updateStatus()
	}
	i.noteHealth(before, v)
}

// lowerHealth lowers an NI's health by d. The NI then receives recovery pings until its
// health is full again.
func (i *ni) lowerHealth(d int) {
	before, v := i.health.add(-d)
	if before != v && v == 0 {
		i.updateStatus()
	}
	i.noteHealth(before, v)
	if v < MaxHealth {
		i.node.recoverNI(i)
	}
}

// blame lowers the health of a peer NI after a failure. It does nothing if p is the only
// NID of its node and so would be used anyway, unless p is a gateway or this node is a
// router. NIDs of this node are not affected.
func (n *Node) blame(p *peerNI) {
	if (!p.isOnlyNID() || p.gateway() || n.router.forwards()) && n.topology.Load().find(p.NID) == nil {
		n.lowerPeerHealth(p, n.parameters.Load().HealthSensitivity)
	}
}

// lowerPeerHealth lowers a peer NI's health by d and lets recovery pings follow.
func (n *Node) lowerPeerHealth(p *peerNI, d int) {
	before, v := p.health.add(-d)
	n.notePeerHealth(p, before, v)
	if v < MaxHealth {
		n.recoverPeer(p)
	}
}

// SetNIHealth sets the health of an NI. A value outside of 0 to MaxHealth means MaxHealth.
// It returns ErrNotFound if no NI has nid.
func (a *Admin) SetNIHealth(nid lnet.NID, value int) error {
	n := a.n
	if err := n.checkMade(); err != nil {
		return fmt.Errorf("set health of %s: %w", nid, err)
	}
	i := n.topology.Load().find(nid)
	if i == nil {
		return fmt.Errorf("set health of %s: %w", nid, ErrNotFound)
	}
	v := healthValue(value)
	before := i.health.value.Swap(int32(v))
	i.updateStatus()
	i.noteHealth(int(before), v)
	if v < MaxHealth {
		n.recoverNI(i)
	}
	return nil
}

// SetPeerHealth sets the health of a peer NI. A value outside of 0 to MaxHealth means
// MaxHealth. It returns ErrNotFound if there is no such peer NI.
func (a *Admin) SetPeerHealth(nid lnet.NID, value int) error {
	n := a.n
	if err := n.checkMade(); err != nil {
		return fmt.Errorf("set health of %s: %w", nid, err)
	}
	p := n.peers.find(nid)
	if p == nil {
		return fmt.Errorf("set health of %s: %w", nid, ErrNotFound)
	}
	v := healthValue(value)
	n.notePeerHealth(p, int(p.health.value.Swap(int32(v))), v)
	if v < MaxHealth {
		n.addRecovering(recoveringNI{node: n, peer: p, health: &p.health})
	}
	return nil
}

func healthValue(v int) int {
	if v < 0 || v > MaxHealth {
		return MaxHealth
	}
	return v
}
