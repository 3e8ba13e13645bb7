package discovery

// queue is the list of peers whose next step must be done (discovery 6). A peer whose
// round is in progress but that is not in the queue waits for an event, such as a reply.
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

// enqueue adds a peer to the end of the queue, unless it is in the queue already. It
// begins a round with the peer unless one is in progress.
func (m *Machine) enqueue(p *peer) {
	m.beginRound(p)
	if !p.queued {
		m.queue.pushBack(p)
	}
}

// enqueueFront is like enqueue, but puts the peer at the front of the queue, even if it is
// in the queue already.
func (m *Machine) enqueueFront(p *peer) {
	m.beginRound(p)
	m.queue.remove(p)
	m.queue.pushFront(p)
}

// beginRound begins a round with a peer, unless one is in progress.
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

// handleLateEvent enqueues a peer after an event, unless the event needs no further step:
// if the peer is up to date and no new data of it must be processed, no round begins
// (discovery 10).
func (m *Machine) handleLateEvent(p *peer) {
	if !m.upToDate(p) || p.state.Has(DataPresent) {
		m.enqueue(p)
	}
}
