package node

import (
	"sync"
	"sync/atomic"
)

// resendQueue holds messages for the monitor to process: messages to be sent again after a
// failure, and messages that no longer wait for discovery (discovery 5.3, 9.6).
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

// requeue queues m, which failed, for another attempt by the monitor. It returns false if
// no more attempts are allowed; the caller must then end m.
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
	m.tx.Reconnect = false
	m.err = nil // may be the error of stepAttempted; in the queue an error means that m must not be sent
	if !n.resends.push(m) {
		return false
	}
	n.wakeMonitor()
	return true
}

// resendAll processes the queued messages. A message whose wait for discovery ended with
// an error ends with this error. For the others it chooses a path again, to the target of
// the last attempt, and sends them.
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

// queueForMonitor queues m, which was waiting or was recalled from the driver, for the
// monitor. If err is nil, the monitor chooses a path and sends m. Otherwise it ends m with
// err.
func (m *message) queueForMonitor(err error) {
	m.err = err
	if m.node.resends.push(m) {
		m.node.wakeMonitor()
		return
	}
	m.endSend(ErrCanceled)
}
