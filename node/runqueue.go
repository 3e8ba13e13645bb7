package node

import (
	"sync"

	"github.com/lnetd/lnetd/lnet/portals"
)

// step is the next action on a message in a runQueue.
type step uint8

const (
	stepAttempted step = iota // the attempt to send it is over
	stepConclude              // it will not be sent, without effect on health
	stepPlace                 // it was accepted by an MD that was attached meanwhile
	stepDrop                  // it was rejected by such an MD
	stepForward               // it received the credit that it waited for in the router
)

// runQueue runs steps of messages that end without a driver, or that a driver may fail at
// once. Handlers run in these steps and may start messages that end in the same way. The
// first caller processes the queue until it is empty, and concurrent or nested callers
// only append to it. So the stack does not grow.
type runQueue struct {
	mu       sync.Mutex // guards running and messages
	running  bool
	messages messageQueue
}

// pushAll appends the messages of operations, with next step s.
func (q *messageQueue) pushAll(operations portals.Operations, s step) {
	for o := operations.Next(); o != nil; o = operations.Next() {
		m := messageOf(o)
		m.step = s
		q.push(m)
	}
}

// run runs the next steps of messages, or appends them to the queue if another call is
// processing it.
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

// schedule queues m for a step that ends it or an attempt to send it. The caller must own
// m.
func (m *message) schedule(s step, err error) {
	m.step, m.err = s, err
	var q messageQueue
	q.push(m)
	m.node.run(&q)
}
