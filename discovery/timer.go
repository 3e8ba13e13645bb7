package discovery

import "time"

// timers is a heap of the peers that time does something to: a ping or push that
// is late, or a failed round that is tried again.
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

// fire does what is due, for a bounded number of peers.
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

// guard bounds the wait for a ping or push that has just left.
func (m *Machine) guard(p *peer) {
	if m.timeout > 0 {
		m.timers.set(p, m.now+m.timeout)
	}
}

// retry has a failed round tried again (decisions 19), as often as retries
// says. A peer that pushes do not reach is left alone after one pause more. A round that
// a message has begun within a pause does not make the next one longer: many messages
// would soon put off for minutes what else a few seconds might settle.
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

// leave leaves a peer alone that does not answer: perhaps nobody has its NIDs any
// more, and we come to rest. Who sends to it, or hears from it, has it asked and told.
func (m *Machine) leave(p *peer) {
	p.left = true
	m.changed(p)
}

// startOver forgets that rounds with the peer have failed.
func (p *peer) startOver() { p.failures, p.tries, p.again = 0, 0, 0 }
