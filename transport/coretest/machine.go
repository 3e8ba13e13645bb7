package coretest

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// machine is a TM together with its buffers and a log of its events.
type machine struct {
	*transport.TransferMachine

	stage     *stage
	domain    *transport.Domain
	callbacks transport.Callbacks
	buffers   []*transport.Buffer
	closed    bool

	// events holds the events that no check has consumed yet, in order. total counts all events. stage.mu
	// guards both.
	events []event
	total  int
	// then, if not nil, is called in the callbacks of buffers after the event was recorded.
	then func(e *transport.BufferEvent)
}

// start starts the TM and waits until it is started.
func (m *machine) start(address string) {
	s := m.stage
	s.t.Helper()
	s.must(m.Start(address))
	ctx, cancel := s.context()
	defer cancel()
	s.must(m.Await(ctx, transport.StateStarted))
}

// record is the callback of buffers on all queues. It adds the event to the log and calls then.
func (m *machine) record(e *transport.BufferEvent) {
	n := event{
		buffer: e.Buffer, queue: e.Queue, final: e.Final, err: e.Err, length: e.Length, offset: e.Offset, time: e.Time,
		flags: e.Buffer.Flags(), received: e.Buffer.MessagesReceived(), goroutine: goroutine(),
	}
	if e.EndPoint != nil {
		n.sender = e.EndPoint.Address()
	}
	then := m.then
	m.stage.update(func() { m.events, m.total = append(m.events, n), m.total+1 })
	if then != nil {
		then(e)
	}
}

// recordState is the callback of the TM. It adds the event to the log.
func (m *machine) recordState(e *transport.TMEvent) {
	n := event{kind: e.Type, next: e.Next, err: e.Err, time: e.Time, goroutine: goroutine()}
	m.stage.update(func() { m.events, m.total = append(m.events, n), m.total+1 })
}

// goroutine returns the number of the calling goroutine.
func goroutine() string {
	var b [64]byte
	head := b[:runtime.Stack(b[:], false)]
	name, _, _ := bytes.Cut(bytes.TrimPrefix(head, []byte("goroutine ")), []byte(" "))
	return string(name)
}

// take waits until the log contains an event for which matches returns true. It removes the first such event
// from the log and returns it. what names the event in failures.
func (m *machine) take(what string, matches func(e *event) bool) event {
	m.stage.t.Helper()
	var taken event
	m.stage.await(what, func() bool {
		for i := range m.events {
			if matches(&m.events[i]) {
				taken = m.events[i]
				m.events = slices.Delete(m.events, i, i+1)
				return true
			}
		}
		return false
	})
	return taken
}

// next waits for the next event of a buffer, removes it from the log and returns it.
func (m *machine) next(b *transport.Buffer) event {
	m.stage.t.Helper()
	return m.take("an event of "+b.Queue.String(), func(e *event) bool { return e.buffer == b })
}

// expect waits for the next event of a buffer and returns it. The event must be final and successful.
func (m *machine) expect(b *transport.Buffer) event {
	m.stage.t.Helper()
	return m.expectError(b, nil)
}

// expectError waits for the next event of a buffer and returns it. The event must be final and match want.
func (m *machine) expectError(b *transport.Buffer, want error) event {
	m.stage.t.Helper()
	e := m.next(b)
	if !e.final || !errors.Is(e.err, want) || e.flags != transport.FlagRegistered {
		m.stage.t.Fatalf("%v; not final, with %v", &e, want)
	}
	return e
}

// states waits for the next TM event, which must report the given state and error.
func (m *machine) states(want transport.State, err error) {
	m.stage.t.Helper()
	e := m.take("state "+want.String(), func(e *event) bool { return e.buffer == nil })
	if e.kind != transport.TMStateChange || e.next != want || !errors.Is(e.err, err) {
		m.stage.t.Fatalf("%v; not state %v with %v", &e, want, err)
	}
}

// none checks that the log contains no event of a buffer.
func (m *machine) none(b *transport.Buffer) {
	s := m.stage
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range m.events {
		if m.events[i].buffer == b {
			s.t.Errorf("an event too much: %v", &m.events[i])
		}
	}
}

// stats checks the statistics of a queue.
func (m *machine) stats(q transport.QueueType, adds, cancels, successes, failures uint64) {
	m.stage.t.Helper()
	got := m.Stats(q)
	want := transport.Stats{Adds: adds, Cancels: cancels, Successes: successes, Failures: failures}
	want.TimeInQueue, want.Bytes, want.MaxBytes = got.TimeInQueue, got.Bytes, got.MaxBytes
	if got != want {
		m.stage.t.Errorf("%v: %+v, not %+v", q, got, want)
	}
}

// buffer returns a registered buffer of size bytes, with segments of the maximum length.
func (m *machine) buffer(size int) *transport.Buffer {
	m.stage.t.Helper()
	var sizes []int
	for l := m.domain.Limits(); size > 0; size -= sizes[len(sizes)-1] {
		sizes = append(sizes, min(size, l.SegmentSize))
	}
	return m.pieces(sizes...)
}

// pieces returns a registered buffer with segments of these sizes, which are not adjacent.
func (m *machine) pieces(sizes ...int) *transport.Buffer {
	m.stage.t.Helper()
	var segments [][]byte
	for _, n := range sizes {
		segments = append(segments, m.stage.memory(m.domain, n+1)[:n:n])
	}
	return m.register(transport.NewBuffer(segments...))
}

// register registers a buffer, which is deregistered at the end of the test case.
func (m *machine) register(b *transport.Buffer) *transport.Buffer {
	s := m.stage
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	s.must(m.domain.Register(ctx, b))
	b.Callbacks = &m.callbacks
	m.buffers = append(m.buffers, b)
	return b
}

// receive fills a buffer with the guard pattern and adds it to MsgRecv. least is its MinReceiveSize, and
// messages its MaxMessages.
func (m *machine) receive(b *transport.Buffer, least, messages int) {
	m.stage.t.Helper()
	guard(b)
	b.Queue, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, least, messages
	m.stage.must(m.Add(b))
}

// send sends the first n bytes of a buffer to another TM.
func (m *machine) send(b *transport.Buffer, n int, to *machine) {
	m.stage.t.Helper()
	m.sendTo(b, n, to.Self().Address())
}

// sendTo sends the first n bytes of a buffer to an address.
func (m *machine) sendTo(b *transport.Buffer, n int, to transport.Address) {
	m.stage.t.Helper()
	ep, err := m.EndPointAt(to)
	m.stage.must(err)
	defer ep.Put()
	b.Queue, b.Length, b.EndPoint = transport.MsgSend, n, ep
	m.stage.must(m.Add(b))
}

// announce adds a buffer to passive queue q and returns a copy of its descriptor. n is the number of bytes
// that a peer can read.
func (m *machine) announce(b *transport.Buffer, q transport.QueueType, n int) transport.Descriptor {
	m.stage.t.Helper()
	b.Queue, b.Length = q, n
	m.stage.must(m.Add(b))
	return bytes.Clone(b.Descriptor)
}

// move adds a buffer to active queue q, with descriptor d. n is the number of bytes to send.
func (m *machine) move(b *transport.Buffer, q transport.QueueType, n int, d transport.Descriptor) error {
	b.Queue, b.Length, b.Descriptor = q, n, d
	return m.Add(b)
}

// cancel cancels a queued buffer, and waits for its final event.
func (m *machine) cancel(b *transport.Buffer) {
	m.stage.t.Helper()
	if !m.Cancel(b) {
		m.stage.t.Errorf("a buffer on %v is not queued", b.Queue)
	}
	m.expectError(b, syscall.ECANCELED)
}

// close ends the TM with Shutdown.
func (m *machine) close() {
	m.stage.t.Helper()
	ctx, cancel := m.stage.context()
	defer cancel()
	m.stage.must(m.Shutdown(ctx))
	m.closed = true
}

// finish closes the TM unless it is closed, and deregisters its buffers.
func (m *machine) finish() {
	t := m.stage.t
	if !m.closed {
		ctx, cancel := m.stage.context()
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.deliverUntilStopped()
		}()
		if err := m.Shutdown(ctx); err != nil {
			t.Errorf("end a TM: %v", err)
		}
		<-done
	}
	for _, b := range m.buffers {
		if err := m.domain.Deregister(b); err != nil {
			t.Errorf("deregister a buffer on %v: %v", b.Queue, err)
		}
	}
}

// deliverUntilStopped calls DeliverAll for a TM with synchronous delivery until it is stopped. For other TMs
// it returns immediately.
func (m *machine) deliverUntilStopped() {
	deadline := time.Now().Add(m.stage.h.Patience)
	for time.Now().Before(deadline) {
		wake := m.Channel().Wait()
		if m.State() != transport.StateStarted && m.State() != transport.StateStopping {
			return
		}
		if m.Notify(m.Channel()) != nil {
			return // callbacks run in the worker
		}
		select {
		case <-wake:
			_, _ = m.DeliverAll()
		case <-time.After(m.stage.h.Patience):
		}
	}
}
