package discovery

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// sweep is something that is done to each peer, some at a time.
type sweep struct {
	kind  sweepKind
	next  *peer
	state State // to be set; of sweepPush
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

// startPush queues each peer that needs a push. One such sweep at a time will
// do: it starts over.
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
		if p.state.needsPush(m.local, p.told) {
			p.startOver()
			m.enqueue(p)
		}
	}
	m.start(s)
}

// SetSeq says that our ping info has another sequence number: NIs came or went.
// Nets are those that we have NIs on now. Who needs it is pushed to (discovery 5.2). The
// node publishes Local before.
func (m *Machine) SetSeq(now time.Duration, seq uint32, nets []lnet.Net) {
	m.begin(now)
	m.local.Seq = seq
	m.setNets(nets)
	m.startPush(0)
	m.end()
}

// ForcePushAll says that our ping info has changed under the same sequence
// number, a status or a feature: every Multi-Rail peer is pushed to (discovery 5.2). With
// discovery off it does what SetSeq does.
func (m *Machine) ForcePushAll(now time.Duration) {
	m.begin(now)
	if m.local.Mode.passive() {
		m.startPush(0)
	} else {
		m.startPush(ForcePush)
	}
	m.end()
}

// SetMode says what is done with what peers tell from now on. When discovery is
// turned off every Multi-Rail peer is told so; the ping info must say it
// already. When it is turned on nobody is told (discovery 5.2). The node publishes Local
// before.
func (m *Machine) SetMode(now time.Duration, mode Mode) {
	m.begin(now)
	if mode.passive() && !m.local.Mode.passive() {
		m.startPush(ForcePush)
	}
	m.local.Mode = mode
	m.end()
}

// RemoveNet says that our last NI on a net is gone; nets are those that are left.
// Peers that cannot be reached any more go (discovery 8.3). Routes through gateways there
// must have been removed already.
func (m *Machine) RemoveNet(now time.Duration, gone lnet.Net, nets []lnet.Net) {
	m.begin(now)
	m.setNets(nets)
	m.start(&sweep{kind: sweepNet, visit: func(p *peer) { m.unreach(p, gone) }})
	m.end()
}

func (m *Machine) unreach(p *peer, gone lnet.Net) {
	if p.onNet(gone).IsZero() || m.isLocal(gone) { // it may have come back
		return
	}
	for _, i := range p.nis {
		if m.isLocal(i.nid.Net()) {
			if p.primary.Net() == gone && !p.state.Has(LockPrimary) {
				m.rename(p, i.nid)
				m.clear(p, NIDsUpToDate) // it calls itself otherwise: ask when it matters
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
			_ = m.remove(p, i.nid, nextPrimary, byAdmin) // it is there, and not the primary one
		}
	}
}

// Stop ends discovery: who waits gets ErrClosed, parked messages ErrCanceled.
// That is done when Ready is false.
func (m *Machine) Stop(now time.Duration) {
	m.begin(now)
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
	m.end()
}
