package node

import (
	"sync"
	"sync/atomic"
)

// resendQueue holds messages that shall be sent once more, or at last. The
// monitor takes them (discovery 5.3, 9.6).
type resendQueue struct {
	mu       sync.Mutex // guards messages and closed
	messages messageQueue
	closed   bool

	length atomic.Int64 // of messages, for show
}

// push takes m over, unless the queue is closed.
func (q *resendQueue) push(m *message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.messages.push(m)
	q.length.Add(1)
	return true
}

func (q *resendQueue) take() messageQueue {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.messages
	q.messages = messageQueue{}
	q.length.Store(0)
	return all
}

// withdraw takes out the messages for which match is true.
func (q *resendQueue) withdraw(match func(*message) bool) messageQueue {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.messages.withdraw(match)
	for m := out.head; m != nil; m = m.next {
		q.length.Add(-1)
	}
	return out
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
	if m.out.recovery || n.isClosing() || m.aborted() {
		return false
	}
	limit := n.parameters.Load().RetryCount
	if m.out.retries >= limit {
		if limit > 0 {
			n.stats.failedResends.Add(1)
		}
		return false
	}
	m.out.retries++
	m.out.deadline = 0 // each attempt has its own
	m.err = nil        // that of stepAttempted; in the queue it is why m shall not be sent
	if !n.resends.push(m) {
		return false
	}
	n.wakeMonitor()
	return true
}

// resendAll sends what waits for it: messages that failed, and those whose wait
// for discovery is over, with its error if it failed. Paths are chosen from
// scratch, towards the NID that the last attempt was for.
func (n *Node) resendAll() {
	waiting := n.resends.take()
	for m := waiting.pop(); m != nil; m = waiting.pop() {
		err := m.err
		m.err = nil
		switch {
		case err != nil:
			m.conclude(err)
		case m.aborted():
			m.conclude(ErrCanceled)
		default:
			n.relaunch(m, m.tx.Header.Dest)
		}
	}
}

// leaveToMonitor has the monitor send m, which waited or was recalled, or conclude
// it with err, if that is not nil.
func (m *message) leaveToMonitor(err error) {
	m.err = err
	if m.node.resends.push(m) {
		m.node.wakeMonitor()
		return
	}
	m.conclude(ErrCanceled)
}
