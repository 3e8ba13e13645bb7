package discovery

import "time"

// timers is a heap of peers by due time: with a ping or push that may time out, or with a
// failed round to retry.
type timers []*peer

func (t *timers) set(p *peer, due time.Duration) {
	p.due = due
	if p.slot == 0 {
		*t = append(*t, p)
		p.slot = len(*t)
	}
	t.down(t.up(p.slot - 1))
}

func (t *timers) remove(p *peer) {
	if p.slot == 0 {
		return
	}
	k, end := p.slot-1, len(*t)-1
	t.swap(k, end)
	(*t)[end] = nil
	*t = (*t)[:end]
	p.slot = 0
	if k < end {
		t.down(t.up(k))
	}
}

func (t timers) swap(a, b int) {
	t[a], t[b] = t[b], t[a]
	t[a].slot, t[b].slot = a+1, b+1
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

// fire handles timers that are due, for a bounded number of peers.
func (m *Machine) fire() {
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
			m.act(Cancel{id})
			m.failed(id, ErrTimedOut)
		case w != nil && w.push != 0:
			id := w.push
			m.act(Cancel{id})
			m.failed(id, ErrTimedOut)
		case m.stopped:
		case p.tries > retries:
			m.leave(p)
		default:
			m.requeue(p)
		}
	}
}

// guard starts the timeout of a ping or push that has just left.
func (m *Machine) guard(p *peer) {
	if m.timeout > 0 {
		m.timers.set(p, m.now+m.timeout)
	}
}

// retry starts the pause before a failed round is retried (decisions 19), up to the limit
// retries. A peer that pushes do not reach gets one more pause. If a message begins a round
// during a pause, its failure does not make the next pause longer. Otherwise, many messages
// could postpone by minutes a retry that may succeed in seconds.
func (m *Machine) retry(p *peer) {
	if m.now < p.again {
		m.timers.set(p, p.again)
		return
	}
	if p.tries >= retries && !p.untold {
		m.leave(p)
		return
	}
	p.again = m.now + retryFirst<<min(p.tries, retries)
	m.timers.set(p, p.again)
	p.tries = min(p.tries, retries) + 1
}

// leave ends the retries for a peer that does not answer, because it may no longer exist.
// The next message to or from it begins a new round.
func (m *Machine) leave(p *peer) {
	p.left = true
	m.changed(p)
}

// startOver resets the count of failed rounds.
func (p *peer) startOver() { p.failures, p.tries, p.again = 0, 0, 0 }
