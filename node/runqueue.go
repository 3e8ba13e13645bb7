package node

import (
	"sync"

	"github.com/lnetd/lnetd/lnet/portals"
)

// step is what is to be done next with a message in a runQueue.
type step uint8

const (
	stepAttempted step = iota // end the attempt to send it
	stepConclude              // end it without sending it, and without effect on health
	stepPlace                 // receive it: it waited on a lazy portal, and a new MD accepts it
	stepDrop                  // drop it: it waited on a lazy portal, and was rejected
	stepForward               // continue to forward it: it has received the credit that it waited for
)

// runQueue runs steps of messages that end while no driver owns them, or that a driver may
// complete within Send. A step may run handlers, which may send messages that end in the
// same way. To keep the stack from growing, the first caller processes the queue until it
// is empty, and concurrent and nested callers only append to it.
type runQueue struct {
	mu       sync.Mutex // guards running and messages
	running  bool
	messages messageQueue
}

// pushAll appends the messages of the operations to the queue and sets their next step to
// s.
func (q *messageQueue) pushAll(operations portals.Operations, s step) {
	for o := operations.Next(); o != nil; o = operations.Next() {
		m := messageOf(o)
		m.step = s
		q.push(m)
	}
}

// run runs the next steps of messages. If another call is processing the queue, run only
// appends the messages to it.
func (n *Node) run(messages *messageQueue) {
	if messages.head == nil {
		return
	}
	q := &n.steps
	q.mu.Lock()
	q.messages.append(messages)
	if q.running {
		q.mu.Unlock()
		return
	}
	q.running = true
	for m := q.messages.pop(); m != nil; m = q.messages.pop() {
		q.mu.Unlock()
		switch m.step {
		case stepAttempted:
			m.endAttempt(m.err)
		case stepConclude:
			m.endSend(m.err)
		case stepPlace:
			m.placePayload()
		case stepDrop:
			m.drop(reasonOf(m.op.Cause))
		case stepForward:
			m.resumeForward()
		}
		q.mu.Lock()
	}
	q.running = false
	q.mu.Unlock()
}

// schedule runs the step s of m, now or after the steps that are already queued. err is
// the error of that step. The caller must own m, and does not own it afterwards.
func (m *message) schedule(s step, err error) {
	m.step, m.err = s, err
	var q messageQueue
	q.push(m)
	m.node.run(&q)
}
