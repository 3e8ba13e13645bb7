package coretest

import (
	"bytes"
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// state is the callback of a TM. It compares the event with the model.
func (s *runner) state(m *tmModel, e *transport.TMEvent) {
	if atomic.AddInt32(&m.running, 1) != 1 {
		s.lockedFail("TM %d: two callbacks at a time", m.slot)
	}
	defer atomic.AddInt32(&m.running, -1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logf("  TM %d: event %d, %v, %v", m.slot, e.Type, e.Next, e.Err)
	s.due()
	if e.Type != transport.TMStateChange || len(m.pendingEvents) == 0 || e.TM != m.real {
		s.fail("TM %d: event %d, %v, that nothing led to", m.slot, e.Type, e.Next)
		return
	}
	want := m.pendingEvents[0]
	m.pendingEvents = m.pendingEvents[1:]
	var errno []syscall.Errno
	if want.err != 0 {
		errno = append(errno, want.err)
	}
	s.expect("TM event", e.Err, errno...)
	if e.Next != want.next || m.real.State() != want.next {
		s.fail("TM %d: event of %v, state %v, not %v", m.slot, e.Next, m.real.State(), want.next)
	}
	switch m.state = want.next; m.state {
	case transport.StateStarted:
		if e.EndPoint == nil || e.EndPoint.Address() != m.address {
			s.fail("TM %d: its end point is %v", m.slot, e.EndPoint)
		}
		if s.concurrent == nil {
			m.provision()
		}
	case transport.StateStopped:
		for q := range m.queues {
			if n := m.real.QueueLength(transport.QueueType(q)); n > 0 || len(m.queues[q]) > 0 && s.concurrent == nil {
				s.fail("TM %d has stopped with %d buffers on %v, or %d", m.slot, n, transport.QueueType(q), len(m.queues[q]))
			}
		}
	}
}

func (s *runner) lockedFail(format string, a ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(format, a...)
}

// find returns the model of tm, or nil.
func (s *runner) find(tm *transport.TransferMachine) *tmModel {
	for _, m := range s.tms {
		if m != nil && m.real == tm {
			return m
		}
	}
	return nil
}

// event is the callback of buffers. It compares the event with the model and calls react for a final event.
func (s *runner) event(e *transport.BufferEvent) {
	s.mu.Lock()
	m := s.find(e.TM)
	if m == nil {
		s.fail("an event of a TM that is closed")
		s.mu.Unlock()
		return
	}
	if atomic.AddInt32(&m.running, 1) != 1 {
		s.fail("TM %d: two callbacks at a time", m.slot)
	}
	defer atomic.AddInt32(&m.running, -1)
	m.reported++
	if m.synchronous && !m.delivering {
		s.fail("TM %d: an event that nobody delivers", m.slot)
	}
	if s.concurrent != nil {
		s.mu.Unlock()
		s.concurrent.event(m, e)
		return
	}
	defer s.mu.Unlock()
	s.logf("  TM %d, %v: final %v, %v, %d bytes at %d", m.slot, e.Queue, e.Final, e.Err, e.Length, e.Offset)
	if s.failure != "" {
		return
	}
	s.due()
	b := s.bufferOf(m, e)
	if b == nil || len(b.coming) == 0 {
		s.fail("TM %d: an event on %v that nothing led to", m.slot, e.Queue)
		return
	}
	o := b.coming[0]
	b.coming = b.coming[1:]
	q, deadline := b.action.Queue, b.deadline
	s.compareEvent(b, &o, e)
	m.reportState(b, o, e.Time)
	s.comparePlace(m, b, &o)
	if e.Queue != q || e.Final && (!e.Buffer.Deadline.IsZero() || e.Buffer.Queue != q) || !e.Final && !e.Buffer.Deadline.Equal(deadline) {
		s.fail("TM %d: the event is of %v, deadline %v", m.slot, e.Queue, e.Buffer.Deadline)
	}
	if o.final {
		s.react(m, b, e)
	}
}

// bufferOf returns the model of the buffer in an event, or nil if no event is expected.
func (s *runner) bufferOf(m *tmModel, e *transport.BufferEvent) *bufferModel {
	if b := s.known[e.Buffer]; b != nil {
		if b.tm != m {
			return nil
		}
		return b
	}
	// The buffer is one of a pool that the model does not know yet. Use the first one in the model with an
	// expected event.
	for _, b := range m.queues[transport.MsgRecv] {
		if b.real == nil && len(b.coming) > 0 {
			s.bind(e.Buffer, b)
			return b
		}
	}
	return nil
}

// compareEvent compares an event with the expected one.
func (s *runner) compareEvent(b *bufferModel, o *outcome, e *transport.BufferEvent) {
	now := time.Now()
	var errno []syscall.Errno
	if o.cancelled {
		errno = []syscall.Errno{syscall.ECANCELED}
		if o.late {
			errno[0] = syscall.ETIMEDOUT
		}
	}
	s.expect("an event on "+b.action.Queue.String(), e.Err, errno...)
	if e.Final != o.final || e.Length != o.length || e.Offset != o.offset {
		s.fail("final %v, %d bytes at %d; not %v, %d at %d", e.Final, e.Length, e.Offset, o.final, o.length, o.offset)
	}
	if e.Time.Before(b.added) || e.Time.After(now) {
		s.fail("an event of %v, not from %v to %v", e.Time, b.added, now)
	}
	var from transport.Address
	if e.EndPoint != nil {
		from = e.EndPoint.Address()
	}
	if from != o.sender {
		s.fail("a message from %v, not %v", from, o.sender)
	}
	if o.data {
		got := make([]byte, o.length)
		if e.CopyTo(got); !bytes.Equal(got, pattern(o.seed, o.length)) {
			s.fail("other bytes have come than those of pattern %d", o.seed)
		}
	}
	for _, part := range b.parts {
		got := make([]byte, part.length)
		if e.Buffer.CopyOut(part.offset, got); !bytes.Equal(got, pattern(part.seed, part.length)) {
			s.fail("a message that came before is no longer there")
		}
	}
	if end := o.offset + o.length; o.final && b.pool == nil && b.action.Queue%2 == 0 && len(b.parts) == 0 {
		rest := make([]byte, b.size)
		if e.Buffer.CopyOut(0, rest); !bytes.Equal(rest[end:], pattern(guardSeed, b.size)[end:]) {
			s.fail("something was written behind what has come")
		}
	}
}

// comparePlace compares the TM's queues, the buffer's flags and the pool with the model, during the callback.
// By then the TM has filled the receive queue again.
func (s *runner) comparePlace(m *tmModel, b *bufferModel, o *outcome) {
	flags, want := b.real.Flags()&^(transport.FlagCancelled|transport.FlagTimedOut), transport.FlagRegistered
	if !o.final {
		want |= transport.FlagQueued
	}
	if flags != want || o.final && b.real.Flags() != want {
		s.fail("flags %x in the callback, not %x", b.real.Flags(), want)
	}
	if n := b.real.MessagesReceived(); b.action.Queue == transport.MsgRecv && n != b.reported {
		s.fail("%d messages in the callback, not %d", n, b.reported)
	}
	for q := range m.queues {
		if n := m.real.QueueLength(transport.QueueType(q)); n != len(m.queues[q]) {
			s.fail("TM %d, in the callback: %d buffers on %v, not %d", m.slot, n, transport.QueueType(q), len(m.queues[q]))
		}
	}
	if n := m.real.Deficit(); n != m.deficit {
		s.fail("TM %d, in the callback: it lacks %d, not %d", m.slot, n, m.deficit)
	}
	if p := m.pool; b.action.Queue == transport.MsgRecv && p != nil && p.real.Free() != len(p.free) {
		s.fail("pool %d, in the callback: %d free, not %d", p.host, p.real.Free(), len(p.free))
	}
}

// react performs the action that b.action.Then defines for the callback of a final event.
func (s *runner) react(m *tmModel, b *bufferModel, e *transport.BufferEvent) {
	e.Buffer.EndPoint = nil
	d := b.action
	again := action{Queue: d.Queue, Length: d.Length, Min: d.Min, Max: d.Max, Then: thenNothing, Which: d.Which}
	if b.pool != nil {
		again.Then = thenPut
	}
	switch {
	case !waits(d.Queue):
		return // the TM of the peer may act at the same time, in an unknown order
	case d.Then == thenReadd:
		s.add(m, b, again, nil)
	case d.Then == thenReaddLater && d.Queue != transport.MsgRecv:
		s.add(m, b, again, e)
	case d.Then == thenCancel && e.Err == nil: // otherwise pools would cause endless cancellations
		if other := s.choose(d.Which, func(b *bufferModel) bool { return b.tm == m && waits(b.action.Queue) }); other != nil {
			s.cancel(m, other)
		}
	case d.Then == thenStop && d.Which%4 == 0 && !m.busy():
		s.stop(m, d.Which%8 == 0)
	case d.Then == thenGet && m.pool != nil:
		s.get(m.pool, d.Colour)
	case d.Then == thenNothing && b.pool != nil && d.Which%4 == 0:
		return // the program keeps the buffer
	}
	if b.pool != nil && b.where == withProgram {
		colour := d.Colour
		if int(colour) >= b.pool.config.Colours {
			colour = transport.AnyColour
		}
		s.put(b, colour)
	}
}

// isOne reports whether an error matches one of several errnos.
func isOne(err error, want ...syscall.Errno) bool {
	for _, errno := range want {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
