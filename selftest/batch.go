package selftest

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/selftest/message"
)

// batch is a set of tests that are started together (selftest 4.8, 4.9). The framework's goroutine owns the
// list of tests and changes it under Agent.mu. Other goroutines read it under Agent.mu.
type batch struct {
	session *session
	id      uint64
	tests   []*test      // the test with index k is at k-1
	active  atomic.Int32 // number of client tests with working units
}

// batch handles a batch request (selftest 4.9). It returns false if the agent must not reply.
func (a *Agent) batch(q *message.BatchRequest) (message.BatchReply, bool) {
	s := a.session
	r := message.BatchReply{Session: a.sessionID()}
	if !s.hasID(q.Session) {
		r.Status = message.ESRCH
		return r, true
	}
	b := s.batches[q.Batch]
	if b == nil {
		r.Status = message.ENOENT
		return r, true
	}
	switch q.Op {
	case message.BatchRun:
		b.run()
	case message.BatchStop:
		b.stop(q.Arg != 0)
	case message.BatchQuery:
		switch n := q.Test; {
		case n == 0:
			r.Active = uint32(b.active.Load())
		case int64(n) > int64(len(b.tests)):
			r.Status = message.ENOENT
		default:
			r.Active = uint32(b.tests[n-1].active.Load())
		}
	default:
		return r, false
	}
	return r, true
}

// running reports whether a unit of the batch is running.
func (b *batch) running() bool { return b.active.Load() > 0 }

// run starts the units of all client tests, unless the batch is already running.
func (b *batch) run() {
	if b.running() {
		return
	}
	clients := int32(0)
	for _, t := range b.tests {
		if len(t.slots) > 0 {
			clients++
		}
	}
	if clients == 0 {
		return
	}
	b.active.Store(clients)
	b.session.holds.Add(1)
	for _, t := range b.tests {
		if len(t.slots) > 0 {
			t.begin()
		}
	}
	a := b.session.agent
	a.stuckTicker.Reset(stuckCheckInterval)
	tests := b.tests[:len(b.tests):len(b.tests)]
	// A unit may use this goroutine for long: on 0@lo, it also handles the messages of the other units.
	a.spawn(func() {
		for _, t := range tests {
			for k := range t.slots {
				t.slots[k].first.run()
			}
		}
	})
}

// stop ends each unit after its current RPC. If force is set, it aborts these RPCs.
func (b *batch) stop(force bool) {
	if !b.running() {
		return
	}
	for _, t := range b.tests {
		t.stop(force)
	}
}

// unload ends the server tests of the batch, so that their requests are not served any more.
func (b *batch) unload() {
	for _, t := range b.tests {
		if !t.client {
			b.session.agent.unload(t)
		}
	}
}
