package node

import "sync"

// resendQueue holds messages that shall be sent once more. The monitor takes
// them (discovery 9.6).
type resendQueue struct {
	mu       sync.Mutex
	messages messageQueue
	closed   bool
}

// push takes m over, unless the queue is closed.
func (q *resendQueue) push(m *message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.messages.push(m)
	return true
}

func (q *resendQueue) take() messageQueue {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.messages
	q.messages = messageQueue{}
	return all
}

func (q *resendQueue) close() messageQueue {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	return q.take()
}

// again hands m, which failed, to the monitor for another attempt, if it may
// have one.
func (m *message) again() bool {
	n := m.node
	if m.recovery || n.closing.Load() || m.aborted() {
		return false
	}
	limit := n.parameters.Load().RetryCount
	if m.retries >= limit {
		if limit > 0 {
			n.stats.failedResends.Add(1)
		}
		return false
	}
	m.retries++
	if !n.resends.push(m) {
		return false
	}
	n.wakeMonitor()
	return true
}

// resendAll sends what waits for it. Paths are chosen from scratch, towards
// the NID that the last attempt was for.
func (n *Node) resendAll() {
	waiting := n.resends.take()
	for m := waiting.pop(); m != nil; m = waiting.pop() {
		if m.aborted() {
			m.left(ErrCanceled)
			continue
		}
		p, err := n.choose(m.demand(m.tx.Header.Dest))
		if err != nil {
			m.left(err)
			continue
		}
		m.take(p)
		if m.bound && p.peer != nil {
			n.table.Rehop(&m.op, p.peer.nid)
		}
		n.stats.resent.Add(1)
		n.transmit(m)
	}
}
