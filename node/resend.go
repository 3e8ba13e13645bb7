package node

import (
	"sync"
	"sync/atomic"
)

// resendQueue holds messages for the monitor to send: resends, and messages whose wait is
// over (discovery 5.3, 9.6).
type resendQueue struct {
	mu       sync.Mutex // guards messages and closed
	messages messageQueue
	closed   bool

	length atomic.Int64 // number of messages, for display
}

// push appends m. It returns false if the queue is closed.
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

// withdraw removes and returns the messages for which match returns true.
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

// requeue queues m, which failed, for another attempt. It returns false if no more attempts
// are allowed.
func (m *message) requeue() bool {
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
	m.out.deadline = 0 // each attempt has its own deadline
	m.err = nil        // was the error of stepAttempted; in the queue it would mean not to send m
	if !n.resends.push(m) {
		return false
	}
	n.wakeMonitor()
	return true
}

// resendAll sends the queued messages: those that failed, and those whose wait for
// discovery is over. A message whose wait ended with an error is concluded with it. The
// path is chosen again, towards the target of the last attempt.
func (n *Node) resendAll() {
	waiting := n.resends.take()
	for m := waiting.pop(); m != nil; m = waiting.pop() {
		err := m.err
		m.err = nil
		switch {
		case err != nil:
			m.endSend(err)
		case m.aborted():
			m.endSend(ErrCanceled)
		default:
			n.resend(m, m.tx.Header.Dest)
		}
	}
}

// queueForMonitor queues m, which waited or was recalled, for the monitor. The monitor
// sends it, or concludes it with err if err is not nil.
func (m *message) queueForMonitor(err error) {
	m.err = err
	if m.node.resends.push(m) {
		m.node.wakeMonitor()
		return
	}
	m.endSend(ErrCanceled)
}
