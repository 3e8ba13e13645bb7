package discovery

import (
	"errors"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// run does the next step of the round with p (discovery 6.1).
func (m *Machine) run(p *peer) {
	w := p.startWork()
	switch {
	case m.stopped:
		m.endRound(p, ErrClosed)
	case p.state.Has(MarkDeletion):
		m.removeLearned(p)
	case w.merge != nil:
		m.stepMerge(p)
		m.requeueBack(p)
	case p.state.Has(DataPresent):
		m.process(p)
		m.requeueBack(p)
	case p.state.Has(PingFailed):
		m.pingFailed(p)
	case p.state.Has(PushFailed):
		m.pushFailed(p)
	case p.state.needsPing() && m.skipPing(p):
		m.clear(p, ForcePing)
		m.set(p, NIDsUpToDate)
		m.requeueFront(p)
	case p.state.needsPing():
		if w.ping == 0 { // otherwise the round waits for the reply (discovery 6.1)
			m.ping(p)
		}
	case p.state.needsPush(m.local, p.ackedSeq):
		m.push(p)
	default: // a push may still be under way; its ACK leads to run again
		m.clear(p, Rediscover)
		m.set(p, Discovered)
		m.endRound(p, nil) // this makes p up to date
	}
}

// skipPing reports whether the peer must not be pinged: the mode is Static, and neither a
// caller nor the router checker has requested the round. Messages then use the NIDs that
// are already known (discovery 11.2).
func (m *Machine) skipPing(p *peer) bool {
	return m.local.Mode == Static && len(p.work.waiters) == 0 && !p.state.Has(RouterDiscovery)
}

// requeueFront puts a peer at the front of the queue, if it still exists and its round continues.
func (m *Machine) requeueFront(p *peer) {
	if !p.state.Has(MarkDeleted) && p.state.Has(Discovering) {
		m.enqueueFront(p)
	}
}

// requeueBack puts a peer at the end of the queue, if it still exists and its round
// continues. Other peers come first, because merging a long list takes many steps, and new
// data may arrive continually.
func (m *Machine) requeueBack(p *peer) {
	if !p.state.Has(MarkDeleted) && p.state.Has(Discovering) {
		m.enqueue(p)
	}
}

func (m *Machine) request(p *peer) RequestID {
	m.lastRequest++
	m.requests[m.lastRequest] = p
	return m.lastRequest
}

// ping requests a ping of the peer (discovery 6.2). Data that arrives from now on is
// compared with the reply. If two NIDs are in question, rounds ping them alternately.
func (m *Machine) ping(p *peer) {
	w := p.work
	m.clear(p, ForcePing)
	m.set(p, PingSent)
	p.hasNewest = false
	if p.doubtAt != 0 {
		w.repingCount++
	}
	m.clock++
	w.pingedAt = m.clock
	w.ping = m.request(p)
	m.figures.Pings++
	m.figures.PingsSent++
	a := SendPing{ID: w.ping, Peer: p.id, To: p.primary, Size: max(int(p.dataSize), lnet.PingBufferMin)}
	if nid := p.onNet(w.net); w.net != 0 && !nid.IsZero() {
		a.To, a.Net = nid, w.net
	} else if !w.alsoPing.IsZero() && p.failures%2 == 0 {
		a.To = w.alsoPing
		if m.isLocal(a.To.Net()) {
			a.Net = a.To.Net()
		}
	}
	m.startTimeout(p)
	m.emit(a)
}

// push requests a push (discovery 6.3) to the NID from which the last reply came.
func (m *Machine) push(p *peer) {
	w := p.work
	m.clear(p, ForcePush)
	m.set(p, PushSent)
	m.clock++
	w.push, w.pushed, w.pushedAt, w.pushVoid = m.request(p), m.local.Seq, m.clock, false
	m.figures.Pushes++
	m.figures.PushesSent++
	a := SendPush{ID: w.push, Peer: p.id, To: w.destination, Source: w.source, Seq: m.local.Seq}
	if i := m.nis[a.To]; a.To.IsZero() || i != nil && i.peer != p { // no reply yet, or another peer has the NID now
		a.To, a.Source = p.primary, lnet.NID{}
	}
	w.source, w.destination = lnet.NID{}, lnet.NID{}
	m.startTimeout(p)
	m.emit(a)
}

// cancelPing cancels a ping that is under way.
func (m *Machine) cancelPing(p *peer) {
	if w := p.work; w != nil && w.ping != 0 {
		m.emit(Cancel{w.ping})
		delete(m.requests, w.ping)
		w.ping = 0
		m.figures.Pings--
	}
	m.clear(p, PingSent|PingFailed)
}

func (m *Machine) cancelPush(p *peer) {
	if w := p.work; w != nil && w.push != 0 {
		m.emit(Cancel{w.push})
		delete(m.requests, w.push)
		w.push = 0
		m.figures.Pushes--
	}
	m.clear(p, PushSent|PushFailed)
}

// finishRequest removes the request with this ID, which has ended. It returns its peer,
// and whether it was a ping. The peer is nil if the request was canceled before.
func (m *Machine) finishRequest(id RequestID) (p *peer, ping bool) {
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
			m.retry(p) // endRound did not plan the retry, because this request was under way
		}
	}
	return p, ping
}

// countFailure counts a failed request to p, which is a ping if ping is true. p is nil if
// the request was canceled; then nothing is counted.
func (m *Machine) countFailure(p *peer, ping bool) {
	switch {
	case p == nil:
	case ping:
		m.figures.PingsFailed++
	default:
		m.figures.PushesFailed++
	}
}

// Failed reports to the Machine that a ping or push failed after it was sent (discovery
// 6.7). err must not be nil. It is the error of the send or the response, or ErrTimedOut
// if the response tracker found it overdue. A ping that failed with ErrLost is repeated
// immediately, a limited number of times per round.
func (m *Machine) Failed(now time.Duration, id RequestID, err error) {
	m.beginEvent(now)
	m.failed(id, err)
	m.endEvent()
}

func (m *Machine) failed(id RequestID, err error) {
	p, ping := m.finishRequest(id)
	m.countFailure(p, ping)
	switch {
	case p == nil:
		return
	case ping && errors.Is(err, ErrLost) && p.work.repingCount < repingsMax:
		// The peer closed the connection, so it is alive, but it is unknown whether it
		// answers.
		p.work.repingCount++
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

// Refused reports to the Machine that a ping or push could not be sent (discovery 6.2,
// 6.3). The round ends with err, which must not be nil.
func (m *Machine) Refused(now time.Duration, id RequestID, err error) {
	m.beginEvent(now)
	if p, ping := m.finishRequest(id); p != nil {
		m.countFailure(p, ping)
		if ping { // the ping is still needed
			m.clear(p, PingFailed|NIDsUpToDate)
			if p.doubtAt != 0 {
				m.set(p, ForcePing)
			}
		} else {
			m.clear(p, PushFailed)
		}
		if p.state.Has(Discovering) {
			m.endRound(p, err)
		}
	}
	m.endEvent()
}

// pingFailed handles a failed ping or an unusable reply (discovery 6.4). The ping is
// repeated after an unusable reply, a limited number of times.
func (m *Machine) pingFailed(p *peer) {
	w := p.work
	m.clear(p, PingFailed)
	m.set(p, ForcePing)
	err := w.pingErr
	w.pingErr = nil
	if err == nil {
		if w.repingCount < repingsMax {
			w.repingCount++
			m.requeueFront(p)
			return
		}
		err = ErrBadInfo
	}
	m.endRound(p, err)
}

// pushFailed handles a failed push (discovery 6.5), which ends the round. Messages to the
// peer are sent nevertheless, without waiting for another push, because this node has the
// peer's NIDs, even if the peer does not have the local ones.
func (m *Machine) pushFailed(p *peer) {
	w := p.work
	m.clear(p, PushFailed)
	m.recordPush(p, false)
	err := w.pushErr
	w.pushErr = nil
	m.endRound(p, err)
}

// recordPush records whether the last push to the peer was acknowledged.
func (m *Machine) recordPush(p *peer, yes bool) {
	if p.pushUnacked == yes {
		p.pushUnacked = !yes
		m.changed(p)
	}
}

// endRound ends the round with p with the result err, nil if it was successful (discovery
// 6.8). It releases parked messages, wakes waiting callers, and plans a retry after a
// failure.
func (m *Machine) endRound(p *peer, err error) {
	w := p.startWork()
	m.figures.Rounds++
	if err != nil {
		m.figures.RoundsFailed++
	}
	m.queue.remove(p)
	m.clear(p, Discovering|RouterDiscovery)
	if !p.state.Has(MultiRail) {
		m.clear(p, ForcePush) // no other event would clear it (quirk of discovery 3)
	}
	w.net = 0
	if err != nil {
		m.set(p, Rediscover)
		p.failures++
		if !m.stopped && w.ping == 0 && w.push == 0 {
			m.retry(p)
		}
	} else {
		p.resetFailures()
	}
	if p.routes > 0 {
		m.set(p, RouterDiscovered)
		m.emit(GatewayChecked{Peer: p.id, Err: err})
	}
	parked := w.parked
	w.parked = nil
	switch {
	case m.stopped:
		m.enqueueRelease(parked, ErrCanceled)
	case p.pushUnacked && p.state.known():
		m.enqueueRelease(parked, nil)
	default:
		m.enqueueRelease(parked, err)
	}
	m.wakeWaiters(p, err)
	p.dropIdleWork()
}

// removeLearned removes a peer that is marked for deletion (discovery 6.9). If routes lead
// through its NIDs, each of these NIDs becomes a separate peer.
func (m *Machine) removeLearned(p *peer) {
	gateways := p.gateways()
	m.destroy(p)
	for _, g := range gateways {
		m.addRoutes(m.create(g.nid), g.nid, g.routes)
	}
}
