package coretest

import (
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// The cases of group M of transport-tests: synchronous delivery.
var synchronousCases = []scenario{
	{name: "T102_NothingPending", run: nothingPending},
	{name: "T103_Notify", run: notify},
	{name: "T104_NotifyNobody", run: notifyNobody},
	{name: "T106_States", run: synchronousStates},
	{name: "T107_EventLoop", run: eventLoop},
	{name: "TwoTMsOneChannel", run: twoTMsOneChannel},
	{name: "StopsWhileItDelivers", run: stopsWhileItDelivers},
}

// synchronous starts a TM with synchronous delivery on host 0.
func (s *stage) synchronous() *machine {
	s.t.Helper()
	m := s.prepare(s.domain(0))
	s.must(m.DeliverSynchronously())
	m.start(s.address(0).String())
	return m
}

// deliver calls DeliverAll, which must deliver n events of buffers.
func (m *machine) deliver(n int) {
	s := m.stage
	s.t.Helper()
	got, err := m.DeliverAll()
	s.must(err)
	if got != n {
		s.t.Errorf("delivered %d events, not %d", got, n)
	}
}

// deliverInAll calls DeliverAll, as events arrive, until it has delivered n events of buffers.
func (m *machine) deliverInAll(n int) {
	s := m.stage
	s.t.Helper()
	for n > 0 {
		m.becomesPending()
		got, err := m.DeliverAll()
		s.must(err)
		n -= got
	}
	if n < 0 {
		s.t.Errorf("delivered %d events too many", -n)
	}
}

// becomesPending waits until there are events to deliver.
func (m *machine) becomesPending() {
	s := m.stage
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	var c transport.Channel
	wake := c.Wait()
	s.must(m.Notify(&c))
	select {
	case <-wake:
	case <-ctx.Done():
		s.t.Fatal("waited in vain for events to deliver")
	}
	if !m.Pending() {
		s.t.Error("the channel was signalled, and nothing is pending")
	}
}

// signalled reports whether a channel was signalled since Wait returned wake.
func signalled(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

// nothingPending checks Pending, DeliverAll and Notify without events, and on a TM without synchronous
// delivery.
//
// transport-tests M (102)
// transport 3.14 table
func nothingPending(s *stage) {
	m := s.synchronous()
	if m.Pending() {
		s.t.Error("something is pending")
	}
	m.deliver(0)
	automatic := s.machine(0)
	_, err := automatic.DeliverAll()
	s.want("deliver what the worker does", err, syscall.EINVAL)
	s.want("notify of what the worker does", automatic.Notify(&transport.Channel{}), syscall.EINVAL)
	if automatic.Pending() {
		s.t.Error("something is pending of a TM whose worker delivers")
	}
}

// notify checks that Notify signals when events arrive, and that DeliverAll delivers them in the calling
// goroutine.
//
// transport-tests M (103)
// transport 3.14 table, 3.14 (3)
// r.M0.net.synchronous-buffer-event-delivery
// r.M0.net.buffer-event-delivery-control
func notify(s *stage) {
	a, b := s.synchronous(), s.machine(1)
	in, out := a.buffer(4000), b.buffer(1000)
	a.receive(in, 1000, 4)
	own := a.Channel().Wait()
	s.must(a.Notify(a.Channel()))
	if signalled(own) {
		s.t.Error("the channel was signalled, and nothing has come")
	}
	me := goroutine()
	for i := range 4 {
		fill(out, i, 1000)
		b.send(out, 1000, a)
		if e := b.expect(out); e.goroutine == me {
			s.t.Error("the callback of the sender ran where it was added")
		}
	}
	ctx, cancel := s.context()
	defer cancel()
	select {
	case <-own:
	case <-ctx.Done():
		s.t.Fatal("the channel was not signalled")
	}
	if !a.Pending() {
		s.t.Error("nothing is pending")
	}
	a.none(in)
	if in.Flags() != transport.FlagRegistered|transport.FlagQueued {
		s.t.Errorf("flags %x", in.Flags())
	}
	a.deliverInAll(4)
	if a.Pending() {
		s.t.Error("something is pending yet")
	}
	// If two hosts have several connections, the first messages may overtake each other.
	left := []int{0, 1, 2, 3}
	for i := range 4 {
		e := a.next(in)
		if e.goroutine != me || e.err != nil || e.offset != i*1000 || e.length != 1000 || e.final != (i == 3) {
			s.t.Errorf("message %d: %v, in goroutine %s, not %s", i, &e, e.goroutine, me)
		}
		k := slices.IndexFunc(left, func(seed int) bool { return contains(in, i*1000, pattern(seed, 1000)) })
		if k < 0 {
			s.t.Fatalf("what has come at %d is none of messages %v", e.offset, left)
		}
		left = slices.Delete(left, k, k+1)
	}
	s.signalsOnce(a, b)
}

// signalsOnce checks that one call of Notify causes one signal.
func (s *stage) signalsOnce(a, b *machine) {
	s.t.Helper()
	in, out := a.buffer(100), b.buffer(100)
	a.receive(in, 50, 3)
	b.sends(out, 1, 10, a)
	a.becomesPending()
	var c transport.Channel
	wake := c.Wait()
	s.must(a.Notify(&c)) // signals during the call
	if !signalled(wake) {
		s.t.Error("not signalled though events are pending")
	}
	wake = c.Wait()
	b.sends(out, 2, 10, a)
	a.deliverInAll(2)
	b.sends(out, 3, 10, a)
	a.becomesPending()
	if signalled(wake) {
		s.t.Error("signalled without a request")
	}
	a.deliver(1)
}

// notifyNobody checks that a call of Notify replaces the channel of the previous call, or removes it.
//
// transport-tests M (104)
// transport 3.14 table
func notifyNobody(s *stage) {
	a, b := s.synchronous(), s.machine(1)
	in, out := a.buffer(100), b.buffer(100)
	a.receive(in, 50, 2)
	var replaced, dropped, c transport.Channel
	wakes := []<-chan struct{}{replaced.Wait(), dropped.Wait()}
	s.must(a.Notify(&replaced))
	s.must(a.Notify(&dropped))
	s.must(a.Notify(nil))
	b.sends(out, 1, 10, a)
	s.waitForLosses()
	if !a.Pending() {
		s.t.Error("nothing is pending")
	}
	wake := c.Wait()
	s.must(a.Notify(&c))
	if !signalled(wake) || signalled(wakes[0]) || signalled(wakes[1]) {
		s.t.Error("others were signalled than asked to be")
	}
	a.deliver(1)
}

// synchronousStates checks that the worker delivers the TM's events even if delivery is synchronous.
//
// transport-tests M (106)
// transport 3.14 (1)
func synchronousStates(s *stage) {
	m := s.synchronous()
	m.states(transport.StateStarted, nil)
	s.must(m.Stop())
	m.states(transport.StateStopped, nil)
	_, err := m.DeliverAll()
	s.want("deliver of what is stopped", err, syscall.EINVAL)
	s.want("notify of what is stopped", m.Notify(&transport.Channel{}), syscall.EINVAL)
}

// stopsWhileItDelivers checks that the program must deliver the cancellations of a stop before StateStopped
// follows.
//
// transport 3.14 (2)
func stopsWhileItDelivers(s *stage) {
	m := s.synchronous()
	m.states(transport.StateStarted, nil)
	in, passive := m.buffer(100), m.buffer(100)
	m.receive(in, 50, 2)
	m.announce(passive, transport.PassiveBulkSend, 100)
	s.must(m.Abort())
	for left := 2; left > 0; {
		if m.State() != transport.StateStopping {
			s.t.Errorf("state %v with %d events to deliver", m.State(), left)
		}
		m.becomesPending()
		n, err := m.DeliverAll()
		s.must(err)
		left -= n
	}
	m.expectError(in, syscall.ECANCELED)
	m.expectError(passive, syscall.ECANCELED)
	m.states(transport.StateStopped, nil)
}

// eventLoop runs the event loop of a program, in which work items and messages wake the same goroutine.
//
// transport-tests M (107)
// transport 3.14 (4)
func eventLoop(s *stage) {
	const count = 1000
	a, b := s.synchronous(), s.machine(1)
	room := make(chan struct{}, 4) // one token for each message
	messages, done := 0, 0
	a.then = func(e *transport.BufferEvent) {
		if e.Err != nil {
			return
		}
		messages++
		if err := a.Add(e.Buffer); err != nil {
			s.t.Errorf("add again: %v", err)
		}
		room <- struct{}{}
	}
	for range cap(room) {
		a.receive(a.buffer(8), 8, 1)
		room <- struct{}{}
	}
	work := make(chan int, 1)
	go func() {
		for i := range count {
			work <- i
		}
	}()
	go b.sendMany(b.buffer(8), count, a, room)

	// Each step may take as long as Patience, because the host may be busy. If nothing arrives for longer, a
	// wake-up or a message was lost.
	patience := time.NewTimer(s.h.Patience)
	defer patience.Stop()
	var c transport.Channel
	blocked := 0
	for messages < count || done < count {
		wake := c.Wait()
		if !a.Pending() {
			s.must(a.Notify(&c))
			blocked++
			select {
			case <-wake:
			case <-work:
				done++
			case <-patience.C:
				s.t.Fatalf("nothing comes any more after %d messages and %d work items of %d", messages, done, count)
			}
		}
		patience.Reset(s.h.Patience)
		_, err := a.DeliverAll()
		s.must(err)
	}
	if blocked > 4*count {
		s.t.Errorf("looked for something to do %d times, for %d things", blocked, 2*count)
	}
}

// sendMany sends count messages one by one. It receives a token before each.
func (m *machine) sendMany(b *transport.Buffer, count int, to *machine, tokens <-chan struct{}) {
	left := make(chan struct{}, 1)
	m.then = func(*transport.BufferEvent) { left <- struct{}{} }
	for range count {
		<-tokens
		ep, err := m.EndPointAt(to.Self().Address())
		if err == nil {
			b.Queue, b.Length, b.EndPoint = transport.MsgSend, 8, ep
			err = m.Add(b)
			ep.Put()
		}
		if err != nil {
			m.stage.t.Errorf("send: %v", err)
			return
		}
		<-left
	}
}

// twoTMsOneChannel checks that events of two TMs signal the same Channel.
//
// transport 3.14 table
func twoTMsOneChannel(s *stage) {
	first, second, b := s.synchronous(), s.synchronous(), s.machine(1)
	var c transport.Channel
	for i, m := range []*machine{second, first, second} {
		in, out := m.buffer(100), b.buffer(100)
		m.receive(in, 100, 1)
		wake := c.Wait()
		s.must(first.Notify(&c))
		s.must(second.Notify(&c))
		b.sends(out, i, 100, m)
		ctx, cancel := s.context()
		select {
		case <-wake:
		case <-ctx.Done():
			s.t.Error("the channel was not signalled")
		}
		cancel()
		if !m.Pending() {
			s.t.Error("nothing is pending")
		}
		m.deliver(1)
		m.arrives(in, 0, 100, i, true, 1)
	}
}
