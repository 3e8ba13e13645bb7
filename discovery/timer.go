package discovery

import "time"

// timers is a heap of peers, ordered by the time at which a timer of the peer is due. A
// peer has a timer while its ping or push may time out, or before its failed round is
// retried.
type timers []*peer

func (t *timers) set(p *peer, due time.Duration) {
	p.due = due
	if p.timerIndex == 0 {
		*t = append(*t, p)
		p.timerIndex = len(*t)
	}
	t.down(t.up(p.timerIndex - 1))
}

func (t *timers) remove(p *peer) {
	if p.timerIndex == 0 {
		return
	}
	k, end := p.timerIndex-1, len(*t)-1
	t.swap(k, end)
	(*t)[end] = nil
	*t = (*t)[:end]
	p.timerIndex = 0
	if k < end {
		t.down(t.up(k))
	}
}

func (t timers) swap(a, b int) {
	t[a], t[b] = t[b], t[a]
	t[a].timerIndex, t[b].timerIndex = a+1, b+1
}

func (t timers) up(k int) int {
	for k > 0 {
		parent := (k - 1) / 2
		if t[parent].due <= t[k].due {
			break
		}
		t.swap(k, parent)
		k = parent
	}
	return k
}

func (t timers) down(k int) {
	for {
		least := k
		for child := 2*k + 1; child <= 2*k+2 && child < len(t); child++ {
			if t[child].due < t[least].due {
				least = child
			}
		}
		if least == k {
			return
		}
		t.swap(k, least)
		k = least
	}
}

// runTimers handles timers that are due, for a bounded number of peers.
func (m *Machine) runTimers() {
	for range sweepChunk {
		if len(m.timers) == 0 || m.timers[0].due > m.now {
			return
		}
		p := m.timers[0]
		m.timers.remove(p)
		w := p.work
		switch {
		case w != nil && w.ping != 0:
			id := w.ping
			m.emit(Cancel{id})
			m.failed(id, ErrTimedOut)
		case w != nil && w.push != 0:
			id := w.push
			m.emit(Cancel{id})
			m.failed(id, ErrTimedOut)
		case m.stopped:
		case p.tries > retries:
			m.endRetries(p)
		default:
			m.handleLateEvent(p)
		}
	}
}

// startTimeout starts the timeout of a ping or push that is being sent.
func (m *Machine) startTimeout(p *peer) {
	if m.timeout > 0 {
		m.timers.set(p, m.now+m.timeout)
	}
}

// retry starts the pause after which a failed round is retried (decisions 19). The pauses
// become longer, and their number is limited by retries; a peer that pings reach but
// pushes do not gets one more. If a round that a message has begun fails during a pause,
// the pause is not extended. Otherwise many messages could delay a retry by minutes that
// might succeed in seconds.
func (m *Machine) retry(p *peer) {
	if m.now < p.pauseEnd {
		m.timers.set(p, p.pauseEnd)
		return
	}
	if p.tries >= retries && !p.pushUnacked {
		m.endRetries(p)
		return
	}
	p.pauseEnd = m.now + firstRetry<<min(p.tries, retries)
	m.timers.set(p, p.pauseEnd)
	p.tries = min(p.tries, retries) + 1
}

// endRetries ends the retries for a peer that does not answer, because it may no longer
// exist. The next message to or from the peer begins a new round.
func (m *Machine) endRetries(p *peer) {
	p.retriesEnded = true
	m.changed(p)
}

// resetFailures resets the count of failed rounds, so that the pauses before retries start
// again with the shortest.
func (p *peer) resetFailures() { p.failures, p.tries, p.pauseEnd = 0, 0, 0 }
