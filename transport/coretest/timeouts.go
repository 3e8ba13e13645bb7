package coretest

import (
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// The cases of group J of transport-tests: deadlines.
var timeoutCases = []scenario{
	{name: "T085_EachQueue", run: eachQueueTimesOut},
	{name: "T086_SeveralDeadlines", run: severalDeadlines},
	{name: "T087_InBetween", run: timesOutInBetween},
}

// waiting adds a buffer to queue q, on which it waits for a peer. A deadline of zero means that the buffer
// has none.
func (m *machine) waiting(q transport.QueueType, deadline time.Time) *transport.Buffer {
	m.stage.t.Helper()
	b := m.buffer(100)
	b.Queue, b.Length, b.MinReceiveSize, b.MaxMessages, b.Deadline = q, 100, 50, 2, deadline
	m.stage.must(m.Add(b))
	return b
}

// timesOut waits for the time-out of a buffer, which must not precede its deadline.
func (m *machine) timesOut(b *transport.Buffer, deadline time.Time) {
	s := m.stage
	s.t.Helper()
	e := m.expectError(b, syscall.ETIMEDOUT)
	if e.time.Before(deadline) || time.Now().Before(deadline) {
		s.t.Errorf("%v: it has timed out %v too early", b.Queue, deadline.Sub(e.time))
	}
	if s.h.Bubble != nil && e.time.Sub(deadline) > time.Second {
		s.t.Errorf("%v: it has timed out %v too late", b.Queue, e.time.Sub(deadline))
	}
	if !b.Deadline.IsZero() {
		s.t.Errorf("%v: the deadline is %v yet", b.Queue, b.Deadline)
	}
}

// waitingQueues are the queues on which a buffer waits as long as no peer acts.
var waitingQueues = []transport.QueueType{transport.MsgRecv, transport.PassiveBulkRecv, transport.PassiveBulkSend}

// eachQueueTimesOut checks the deadline of a buffer on each queue on which buffers wait.
//
// transport-tests J (85)
// transport 3.9 (1), 3.9 (3)
func eachQueueTimesOut(s *stage) {
	m := s.machine(0)
	for _, q := range waitingQueues {
		deadline := time.Now().Add(time.Second)
		b := m.waiting(q, deadline)
		atLeast := time.Until(deadline)
		m.timesOut(b, deadline)
		m.stats(q, 1, 0, 0, 1)
		if got := m.Stats(q).TimeInQueue; got < atLeast {
			s.t.Errorf("%v: %v in the queue", q, got)
		}
		b.Deadline = time.Now().Add(-time.Millisecond)
		s.want("a deadline that has passed", m.Add(b), syscall.ETIME)
		b.Deadline = time.Time{}
		m.stats(q, 1, 0, 0, 1)
	}
}

// severalDeadlines checks that buffers with several deadlines end in the right order.
//
// transport-tests J (86)
func severalDeadlines(s *stage) {
	m := s.machine(0)
	start := time.Now()
	soon, late := start.Add(3*time.Second), start.Add(4*time.Second) // a busy machine takes long to add them
	last := m.waiting(transport.MsgRecv, late)
	stays := m.waiting(transport.MsgRecv, time.Time{})
	var same []*transport.Buffer
	for _, q := range waitingQueues {
		same = append(same, m.waiting(q, soon))
	}
	for _, b := range same {
		m.timesOut(b, soon)
	}
	if time.Now().Before(late) {
		m.none(last)
	}
	m.timesOut(last, late)
	s.mu.Lock()
	for i := range m.events {
		if m.events[i].buffer != nil {
			s.t.Errorf("one event too much: %v", &m.events[i])
		}
	}
	s.mu.Unlock()
	if stays.Flags() != transport.FlagRegistered|transport.FlagQueued {
		s.t.Errorf("flags %x of a buffer without deadline", stays.Flags())
	}
	// Add a buffer with a deadline that is earlier than the one for which the worker waits.
	m.waiting(transport.PassiveBulkRecv, time.Now().Add(time.Hour))
	soon = time.Now().Add(500 * time.Millisecond)
	m.timesOut(m.waiting(transport.PassiveBulkSend, soon), soon)
}

// timesOutInBetween checks the deadline of a buffer that has received a message.
//
// transport-tests J (87)
func timesOutInBetween(s *stage) {
	a, b := s.pair()
	in, out := a.buffer(1000), b.buffer(100)
	guard(in)
	deadline := time.Now().Add(3 * time.Second) // a message arrives before it
	in.Queue, in.MinReceiveSize, in.MaxMessages, in.Deadline = transport.MsgRecv, 100, 5, deadline
	s.must(a.Add(in))
	b.sends(out, 1, 100, a)
	a.arrives(in, 0, 100, 1, false, 1)
	a.timesOut(in, deadline)
	s.check(in, 0, 100, 1)
	s.untouched(in, 100)
	a.stats(transport.MsgRecv, 1, 0, 1, 1)
}
