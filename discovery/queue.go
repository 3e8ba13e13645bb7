package discovery

// queue is the request list (discovery 6). A peer whose round is in progress and that is
// not in the queue waits for an event.
type queue struct {
	first, last *peer
	length      int
}

func (q *queue) pushBack(p *peer) {
	p.queued = true
	q.length++
	p.qprev, p.qnext = q.last, nil
	if q.last != nil {
		q.last.qnext = p
	} else {
		q.first = p
	}
	q.last = p
}

func (q *queue) pushFront(p *peer) {
	p.queued = true
	q.length++
	p.qprev, p.qnext = nil, q.first
	if q.first != nil {
		q.first.qprev = p
	} else {
		q.last = p
	}
	q.first = p
}

func (q *queue) remove(p *peer) {
	if !p.queued {
		return
	}
	q.length--
	if p.qprev != nil {
		p.qprev.qnext = p.qnext
	} else {
		q.first = p.qnext
	}
	if p.qnext != nil {
		p.qnext.qprev = p.qprev
	} else {
		q.last = p.qprev
	}
	p.queued, p.qprev, p.qnext = false, nil, nil
}

func (q *queue) pop() *peer {
	p := q.first
	if p != nil {
		q.remove(p)
	}
	return p
}

// enqueue adds a peer to the queue unless it is in it, and begins a round unless one is in
// progress.
func (m *Machine) enqueue(p *peer) {
	m.beginRound(p)
	if !p.queued {
		m.queue.pushBack(p)
	}
}

// enqueueFront is like enqueue, but puts the peer at the front.
func (m *Machine) enqueueFront(p *peer) {
	m.beginRound(p)
	m.queue.remove(p)
	m.queue.pushFront(p)
}

// beginRound begins a round unless one is in progress, and resets the state of the previous
// round.
func (m *Machine) beginRound(p *peer) {
	if p.state.Has(Discovering) {
		return
	}
	m.set(p, Discovering)
	if p.retriesEnded {
		p.retriesEnded = false
		m.changed(p)
	}
	w := p.startWork()
	w.repingCount = 0
	if w.ping == 0 && w.push == 0 {
		m.timers.remove(p)
	}
}

// handleLateEvent handles an event that a peer may have waited for. If the peer is up to date, a
// late event does not begin a round, but new data is always processed (discovery 10).
func (m *Machine) handleLateEvent(p *peer) {
	if !m.upToDate(p) || p.state.Has(DataPresent) {
		m.enqueue(p)
	}
}
