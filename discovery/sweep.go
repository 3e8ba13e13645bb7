package discovery

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// sweep is an operation on all peers. It is done in several steps, each for a bounded
// number of peers.
type sweep struct {
	kind  sweepKind
	next  *peer
	state State // flags to set, for sweepPush
	visit func(p *peer)
}

type sweepKind uint8

const (
	sweepPush sweepKind = iota
	sweepNet
	sweepStop
)

func (m *Machine) start(s *sweep) {
	s.next = m.first
	m.sweeps = append(m.sweeps, s)
}

func (m *Machine) sweep() {
	for range sweepChunk {
		if len(m.sweeps) == 0 {
			return
		}
		s := m.sweeps[0]
		p := s.next
		if p == nil {
			m.sweeps[0] = nil
			m.sweeps = m.sweeps[1:]
			continue
		}
		s.next = p.next
		s.visit(p)
	}
}

// startPush starts a sweep that sets the flags force of each Multi-Rail peer, and enqueues
// each peer that needs a push. If such a sweep is in progress, it starts again from the
// first peer instead.
func (m *Machine) startPush(force State) {
	for _, s := range m.sweeps {
		if s.kind == sweepPush {
			s.next = m.first
			s.state |= force
			return
		}
	}
	s := &sweep{kind: sweepPush, state: force}
	s.visit = func(p *peer) {
		if m.stopped {
			return
		}
		if p.state.Has(MultiRail) {
			m.set(p, s.state)
		}
		if p.state.needsPush(m.local, p.ackedSeq) {
			p.resetFailures()
			m.enqueue(p)
		}
	}
	m.start(s)
}

// SetSeq sets the sequence number of the local ping info after NIs were added or removed.
// nets are the nets on which this node has NIs now. Peers that need the new ping info
// receive a push (discovery 5.2). The node must publish the new Local before it calls
// SetSeq.
func (m *Machine) SetSeq(now time.Duration, seq uint32, nets []lnet.Net) {
	m.beginEvent(now)
	m.local.Seq = seq
	m.setNets(nets)
	m.startPush(0)
	m.endEvent()
}

// ForcePushAll sends a push to every Multi-Rail peer, even if the peer has acknowledged
// the current sequence number. The node calls it when a status or a feature in the local
// ping info has changed but the number has not (discovery 5.2). If discovery is off, only
// the peers receive a push that would receive one after SetSeq.
func (m *Machine) ForcePushAll(now time.Duration) {
	m.beginEvent(now)
	if m.local.Mode.passive() {
		m.startPush(0)
	} else {
		m.startPush(ForcePush)
	}
	m.endEvent()
}

// SetMode sets the mode. If this turns discovery off, every Multi-Rail peer receives a
// push, so the local ping info must already show the change. If it turns discovery on, no
// push is sent (discovery 5.2). The node must publish the new Local before it calls
// SetMode.
func (m *Machine) SetMode(now time.Duration, mode Mode) {
	m.beginEvent(now)
	if mode.passive() && !m.local.Mode.passive() {
		m.startPush(ForcePush)
	}
	m.local.Mode = mode
	m.endEvent()
}

// RemoveNet reports to the Machine that the last NI on the net gone was removed. nets are
// the remaining nets. Peers that can no longer be reached are removed (discovery 8.3). The
// caller must have removed the routes through gateways on the net before.
func (m *Machine) RemoveNet(now time.Duration, gone lnet.Net, nets []lnet.Net) {
	m.beginEvent(now)
	m.setNets(nets)
	m.start(&sweep{kind: sweepNet, visit: func(p *peer) { m.unreach(p, gone) }})
	m.endEvent()
}

func (m *Machine) unreach(p *peer, gone lnet.Net) {
	if p.onNet(gone).IsZero() || m.isLocal(gone) { // the net may have been added again
		return
	}
	for _, i := range p.nis {
		if m.isLocal(i.nid.Net()) {
			if p.primary.Net() == gone && !p.state.Has(LockPrimary) {
				m.rename(p, i.nid)
				m.clear(p, NIDsUpToDate) // the peer reports another primary NID: ping it before the next message
			}
			return
		}
	}
	if p.primary.Net() == gone {
		m.destroy(p)
		return
	}
	for _, i := range append([]*ni(nil), p.nis...) {
		if i.nid.Net() == gone {
			_ = m.remove(p, i.nid, nextPrimary, fromAdmin) // the NID belongs to p and is not the primary NID
		}
	}
}

// Stop ends discovery in steps. Waiting callers get ErrClosed, and parked messages
// ErrCanceled. Discovery has ended when HasWork returns false.
func (m *Machine) Stop(now time.Duration) {
	m.beginEvent(now)
	if !m.stopped {
		m.stopped = true
		m.start(&sweep{kind: sweepStop, visit: func(p *peer) {
			m.cancelPing(p)
			m.cancelPush(p)
			m.timers.remove(p)
			if p.work != nil {
				m.endRound(p, ErrClosed)
			}
		}})
	}
	m.endEvent()
}
