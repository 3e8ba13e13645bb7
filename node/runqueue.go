package node

import (
	"sync"

	"github.com/lnetd/lnetd/lnet/portals"
)

// step is what happens next to a message in a runQueue.
type step uint8

const (
	stepAttempted step = iota // the attempt to send it is over
	stepConclude              // it will not leave, at nobody's cost
	stepPlace                 // it has found an MD that was attached meanwhile
	stepDrop                  // such an MD refused it
	stepForward               // it has got what it waited for in the router
)

// runQueue takes the steps of messages that come to nothing without a driver,
// or whose driver may fail them at once. Handlers run in these steps, and what
// they begin may end in the same way: whoever finds the queue idle works it off,
// and everybody else leaves messages there. So the stack stays as it is.
type runQueue struct {
	mu       sync.Mutex // guards running and messages
	running  bool
	messages messageQueue
}

// pushAll appends the messages of operations, whose next step is s.
func (q *messageQueue) pushAll(operations portals.Operations, s step) {
	for o := operations.Next(); o != nil; o = operations.Next() {
		m := messageOf(o)
		m.step = s
		q.push(m)
	}
}

// run has messages take their next steps, in this call unless somebody is at it.
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
			m.attempted(m.err)
		case stepConclude:
			m.conclude(m.err)
		case stepPlace:
			m.place()
		case stepDrop:
			m.drop(reasonOf(m.op.Cause))
		case stepForward:
			m.continuePassage()
		}
		q.mu.Lock()
	}
	q.running = false
	q.mu.Unlock()
}

// schedule has m, which nobody else has, take a step that ends it or an attempt.
func (m *message) schedule(s step, err error) {
	m.step, m.err = s, err
	var q messageQueue
	q.push(m)
	m.node.run(&q)
}
