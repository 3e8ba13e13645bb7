package discovery

import (
	"errors"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// run does the one next thing for a peer whose round runs (discovery 6.1).
func (m *Machine) run(p *peer) {
	w := p.doing()
	switch {
	case m.stopped:
		m.endRound(p, ErrClosed)
	case p.state.Has(MarkDeletion):
		m.unlearn(p)
	case w.merge != nil:
		m.mergeSome(p)
		m.later(p)
	case p.state.Has(DataPresent):
		m.process(p)
		m.later(p)
	case p.state.Has(PingFailed):
		m.pingFailed(p)
	case p.state.Has(PushFailed):
		m.pushFailed(p)
	case p.state.needsPing() && m.leaveAlone(p):
		m.clear(p, ForcePing)
		m.set(p, NIDsUpToDate)
		m.again(p)
	case p.state.needsPing():
		if w.ping == 0 { // else its reply is worth waiting for (discovery 6.1)
			m.ping(p)
		}
	case p.state.needsPush(m.local, p.told):
		m.push(p)
	default: // one push at a time: the ACK of one under way brings us here again
		m.clear(p, Rediscover)
		m.set(p, Discovered)
		m.endRound(p, nil) // which makes p up to date
	}
}

// leaveAlone says that a peer is not pinged, since nobody has asked for it: what
// is known of it has to do (discovery 11.2).
func (m *Machine) leaveAlone(p *peer) bool {
	return m.local.Mode == Static && len(p.work.waiters) == 0 && !p.state.Has(RouterDiscovery)
}

// again makes a peer the next one once more, if it is still there.
func (m *Machine) again(p *peer) {
	if !p.state.Has(MarkDeleted) && p.state.Has(Discovering) {
		m.enqueueFront(p)
	}
}

// later has a peer go on when others have had their turn: its lists may be long,
// and new ones may come all the time.
func (m *Machine) later(p *peer) {
	if !p.state.Has(MarkDeleted) && p.state.Has(Discovering) {
		m.enqueue(p)
	}
}

func (m *Machine) request(p *peer) RequestID {
	m.lastRequest++
	m.requests[m.lastRequest] = p
	return m.lastRequest
}

// ping sends one (discovery 6.2). What comes in from now on is compared with the reply.
func (m *Machine) ping(p *peer) {
	w := p.work
	m.clear(p, ForcePing)
	m.set(p, PingSent)
	p.hears = false
	if p.doubt != 0 {
		w.repings++
	}
	m.order++
	w.asked = m.order
	w.ping = m.request(p)
	m.figures.Pings++
	m.figures.PingsSent++
	a := SendPing{ID: w.ping, Peer: p.id, To: p.primary, Size: max(int(p.dataSize), lnet.PingBufferMin)}
	if nid := p.onNet(w.net); w.net != 0 && !nid.IsZero() {
		a.To, a.Net = nid, w.net
	} else if !w.about.IsZero() && p.failures%2 == 0 {
		a.To = w.about
		if m.isLocal(a.To.Net()) {
			a.Net = a.To.Net()
		}
	}
	m.guard(p)
	m.act(a)
}

// push sends one (discovery 6.3), to where the last reply came from.
func (m *Machine) push(p *peer) {
	w := p.work
	m.clear(p, ForcePush)
	m.set(p, PushSent)
	m.order++
	w.push, w.pushed, w.pushedAt, w.void = m.request(p), m.local.Seq, m.order, false
	m.figures.Pushes++
	m.figures.PushesSent++
	a := SendPush{ID: w.push, Peer: p.id, To: w.destination, Source: w.source, Seq: m.local.Seq}
	if i := m.nis[a.To]; a.To.IsZero() || i != nil && i.peer != p { // another one has answered
		a.To, a.Source = p.primary, lnet.NID{}
	}
	w.source, w.destination = lnet.NID{}, lnet.NID{}
	m.guard(p)
	m.act(a)
}

// cancelPing forgets a ping that is under way.
func (m *Machine) cancelPing(p *peer) {
	if w := p.work; w != nil && w.ping != 0 {
		m.act(Cancel{w.ping})
		delete(m.requests, w.ping)
		w.ping = 0
		m.figures.Pings--
	}
	m.clear(p, PingSent|PingFailed)
}

func (m *Machine) cancelPush(p *peer) {
	if w := p.work; w != nil && w.push != 0 {
		m.act(Cancel{w.push})
		delete(m.requests, w.push)
		w.push = 0
		m.figures.Pushes--
	}
	m.clear(p, PushSent|PushFailed)
}

// ended takes a request off the books and returns its peer; nil: nobody waits
// for it any more.
func (m *Machine) ended(id RequestID) (p *peer, ping bool) {
	p = m.requests[id]
	if p == nil {
		return nil, false
	}
	delete(m.requests, id)
	w := p.work
	if ping = w.ping == id; ping {
		w.ping = 0
		m.figures.Pings--
		m.clear(p, PingSent)
	} else {
		w.push = 0
		m.figures.Pushes--
		m.clear(p, PushSent)
	}
	if w.ping == 0 && w.push == 0 {
		m.timers.remove(p)
		if p.state.Has(Rediscover) && !p.state.Has(Discovering) && !m.stopped {
			m.retry(p) // the round that failed could not, while this was under way
		}
	}
	return p, ping
}

// endedBadly counts a request of p's that failed; nil: nobody waits for it any more.
func (m *Machine) endedBadly(p *peer, ping bool) {
	switch {
	case p == nil:
	case ping:
		m.figures.PingsFailed++
	default:
		m.figures.PushesFailed++
	}
}

// Failed says that a ping or push failed after it was sent: its send, its
// tracker (ErrTimedOut) or its response has err, which is not nil (discovery 6.7). A ping
// with ErrLost is made again at once, a few times in one round.
func (m *Machine) Failed(now time.Duration, id RequestID, err error) {
	m.begin(now)
	m.failed(id, err)
	m.end()
}

func (m *Machine) failed(id RequestID, err error) {
	p, ping := m.ended(id)
	m.endedBadly(p, ping)
	switch {
	case p == nil:
		return
	case ping && errors.Is(err, ErrLost) && p.work.repings < repingsMax:
		// Who cut us off lives: whether it answers, it has not said.
		p.work.repings++
		m.set(p, ForcePing)
	case ping:
		m.set(p, PingFailed)
		p.work.pingErr = err
	default:
		m.set(p, PushFailed)
		p.work.pushErr = err
	}
	m.enqueue(p)
}

// Refused says that a ping or push could not even be sent: the round ends with
// err, which is not nil (discovery 6.2, 6.3).
func (m *Machine) Refused(now time.Duration, id RequestID, err error) {
	m.begin(now)
	if p, ping := m.ended(id); p != nil {
		m.endedBadly(p, ping)
		if ping { // which is wanted still
			m.clear(p, PingFailed|NIDsUpToDate)
			if p.doubt != 0 {
				m.set(p, ForcePing)
			}
		} else {
			m.clear(p, PushFailed)
		}
		if p.state.Has(Discovering) {
			m.endRound(p, err)
		}
	}
	m.end()
}

// pingFailed: discovery 6.4. An answer that is of no use is asked for again, but not
// forever.
func (m *Machine) pingFailed(p *peer) {
	w := p.work
	m.clear(p, PingFailed)
	m.set(p, ForcePing)
	err := w.pingErr
	w.pingErr = nil
	if err == nil {
		if w.repings < repingsMax {
			w.repings++
			m.again(p)
			return
		}
		err = ErrBadInfo
	}
	m.endRound(p, err)
}

// pushFailed: discovery 6.5. Messages do not suffer, nor wait for the next push: we know the
// peer, if it does not know us.
func (m *Machine) pushFailed(p *peer) {
	w := p.work
	m.clear(p, PushFailed)
	m.reached(p, false)
	err := w.pushErr
	w.pushErr = nil
	m.endRound(p, err)
}

// reached notes whether our last push has reached a peer.
func (m *Machine) reached(p *peer, yes bool) {
	if p.untold == yes {
		p.untold = !yes
		m.changed(p)
	}
}

// endRound: discovery 6.8.
func (m *Machine) endRound(p *peer, err error) {
	w := p.doing()
	m.figures.Rounds++
	if err != nil {
		m.figures.RoundsFailed++
	}
	m.queue.remove(p)
	m.clear(p, Discovering|RouterDiscovery)
	if !p.state.Has(MultiRail) {
		m.clear(p, ForcePush) // nobody else would (quirk of discovery 3)
	}
	w.net = 0
	if err != nil {
		m.set(p, Rediscover)
		p.failures++
		if !m.stopped && w.ping == 0 && w.push == 0 {
			m.retry(p)
		}
	} else {
		p.startOver()
	}
	if p.routes > 0 {
		m.set(p, RouterDiscovered)
		m.act(GatewayChecked{Peer: p.id, Err: err})
	}
	parked := w.parked
	w.parked = nil
	switch {
	case m.stopped:
		m.enqueueRelease(parked, ErrCanceled)
	case p.untold && p.state.known():
		m.enqueueRelease(parked, nil)
	default:
		m.enqueueRelease(parked, err)
	}
	m.wake(p, err)
	p.rest()
}

// unlearn: discovery 6.9. What a gateway's routes lead through becomes a peer of its own.
func (m *Machine) unlearn(p *peer) {
	gateways := p.gateways()
	m.destroy(p)
	for _, g := range gateways {
		m.addRoutes(m.create(g.nid), g.nid, g.routes)
	}
}
