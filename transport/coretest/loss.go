package coretest

import (
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// The cases of groups G and I of transport-tests in which data is lost. Silent cases check that the sender
// gets no error, as in LNet; strict cases check the errors.
var lossCases = []scenario{
	{name: "T060_NoBuffer", silent: true, run: noBuffer},
	{name: "T061_NoTM", silent: true, run: noTM},
	{name: "TooLong", silent: true, run: longMessage},
	{name: "T080_FetchWhatIsCancelled", silent: true, run: fetchWhatIsCancelled},
	{name: "FillWhatIsCancelled", silent: true, run: fillWhatIsCancelled},
	{name: "LateDescriptors", silent: true, run: lateDescriptors},
	{name: "CancelWhatNobodyAnswers", silent: true, run: cancelWhatNobodyAnswers},
	{name: "StrictMessages", strict: true, run: strictMessages},
	{name: "StrictBulk", strict: true, run: strictBulk},
}

// noBuffer checks that a message to a TM without a receive buffer is lost.
//
// transport-tests G (60)
func noBuffer(s *stage) {
	a, b := s.pair()
	out := b.buffer(100)
	b.sends(out, 1, 100, a)
	s.waitForLosses()
	in := a.buffer(100)
	a.receive(in, 100, 1)
	b.sends(out, 2, 50, a)
	a.arrives(in, 0, 50, 2, true, 1) // the first message was lost
	b.stats(transport.MsgSend, 2, 0, 2, 0)
	a.stats(transport.MsgRecv, 1, 0, 1, 0)
}

// noTM checks that a message to an address without a TM is lost.
//
// transport-tests G (61)
func noTM(s *stage) {
	a, b := s.pair()
	out := b.buffer(100)
	for _, p := range []uint32{portal, portal + 1} {
		to := s.address(0)
		to.Portal = p
		b.sendTo(out, 100, to)
		b.expect(out)
	}
	in := a.buffer(100)
	a.receive(in, 100, 1)
	b.sends(out, 1, 100, a)
	a.arrives(in, 0, 100, 1, true, 1)
}

// longMessage checks that a message longer than MinReceiveSize of the first buffer is lost, even if it would
// fit there or in another buffer.
//
// transport 3.11 (1)
func longMessage(s *stage) {
	a, b := s.pair()
	in, large, out := a.buffer(1000), a.buffer(1000), b.buffer(1000)
	a.receive(in, 100, 2)
	a.receive(large, 1000, 1)
	b.sends(out, 1, 101, a)
	s.waitForLosses()
	b.sends(out, 2, 100, a)
	a.arrives(in, 0, 100, 2, false, 1)
	a.none(large)
	s.untouched(in, 100)
}

// fetchWhatIsCancelled reads from a passive buffer that was cancelled. The operation ends only at its
// deadline.
//
// transport-tests I (80)
// transport 6.10
func fetchWhatIsCancelled(s *stage) {
	a, b := s.pair()
	passive, active := a.buffer(100), b.buffer(100)
	d := a.announce(passive, transport.PassiveBulkSend, 100)
	a.cancel(passive)
	guard(active)
	limit := 2 * time.Second
	deadline := time.Now().Add(limit)
	active.Deadline = deadline
	s.must(b.move(active, transport.ActiveBulkRecv, 0, d))
	if e := b.expectError(active, syscall.ETIMEDOUT); e.time.Before(deadline) {
		s.t.Errorf("it has timed out %v too early", deadline.Sub(e.time))
	}
	s.untouched(active, 0)
	b.stats(transport.ActiveBulkRecv, 1, 0, 0, 1)
}

// fillWhatIsCancelled writes to a passive buffer that was cancelled. The sender succeeds, and the data is
// lost.
//
// transport 6.10
func fillWhatIsCancelled(s *stage) {
	a, b := s.pair()
	passive, active := a.buffer(100), b.buffer(100)
	d := a.announce(passive, transport.PassiveBulkRecv, 0)
	a.cancel(passive)
	guard(passive)
	s.must(b.move(active, transport.ActiveBulkSend, 100, d))
	b.expect(active)
	s.waitForLosses()
	s.untouched(passive, 0)
	a.none(passive)
}

// lateDescriptors uses descriptors of a TM that has ended, and checks that they do not match buffers of the
// next TM with the same number.
//
// transport 6.4
func lateDescriptors(s *stage) {
	old, b := s.pair()
	at := old.Self().String()
	toFill := old.announce(old.buffer(100), transport.PassiveBulkRecv, 0)
	toFetch := old.announce(old.buffer(100), transport.PassiveBulkSend, 100)
	old.close()
	a := s.prepare(s.domain(0))
	a.start(at)
	filled, fetched := a.buffer(100), a.buffer(100)
	guard(filled)
	a.announce(filled, transport.PassiveBulkRecv, 0)
	a.announce(fetched, transport.PassiveBulkSend, 100)
	active := b.buffer(100)
	guard(active)
	s.must(b.move(active, transport.ActiveBulkSend, 100, toFill))
	b.expect(active)
	active.Deadline = time.Now().Add(time.Second)
	s.must(b.move(active, transport.ActiveBulkRecv, 0, toFetch))
	b.expectError(active, syscall.ETIMEDOUT)
	s.untouched(active, 0)
	s.untouched(filled, 0)
	a.none(filled)
	a.none(fetched)
}

// cancelWhatNobodyAnswers cancels a read from a passive buffer that no longer exists.
//
// transport 6.10
func cancelWhatNobodyAnswers(s *stage) {
	a, b := s.pair()
	passive, active := a.buffer(100), b.buffer(100)
	d := a.announce(passive, transport.PassiveBulkSend, 100)
	a.cancel(passive)
	s.must(b.move(active, transport.ActiveBulkRecv, 0, d))
	s.waitForLosses()
	b.none(active)
	b.cancel(active)
	s.must(b.move(active, transport.ActiveBulkRecv, 0, a.announce(passive, transport.PassiveBulkSend, 100)))
	b.expect(active)
	a.expect(passive)
}

// strictMessages checks the errors of lost messages on a Core with Strict set.
func strictMessages(s *stage) {
	a, b := s.pair()
	a.states(transport.StateStarted, nil)
	out := b.buffer(200)
	b.sendTo(out, 100, s.address(0))
	b.expectError(out, syscall.ENETUNREACH)
	b.send(out, 100, a)
	b.expectError(out, syscall.ENOBUFS)
	e := a.take("an error of the TM", func(e *event) bool { return e.buffer == nil })
	if e.kind != transport.TMError || a.State() != transport.StateStarted {
		s.t.Errorf("%v", &e)
	}
	s.want("what the TM tells", e.err, syscall.ENOBUFS)
	in := a.buffer(200)
	a.receive(in, 99, 1)
	b.send(out, 100, a)
	b.expectError(out, syscall.EMSGSIZE)
	a.expectError(in, syscall.EMSGSIZE)
	s.untouched(in, 0)
}

// strictBulk checks the error of bulk with a passive buffer that was cancelled, on a Core with Strict set.
func strictBulk(s *stage) {
	a, b := s.pair()
	passive, active := a.buffer(100), b.buffer(100)
	for active.Queue = range transport.QueueType(transport.QueueTypes) {
		q := map[transport.QueueType]transport.QueueType{
			transport.ActiveBulkRecv: transport.PassiveBulkSend, transport.ActiveBulkSend: transport.PassiveBulkRecv,
		}[active.Queue]
		if q == 0 {
			continue
		}
		d := a.announce(passive, q, 100)
		a.cancel(passive)
		s.must(b.move(active, active.Queue, 100, d))
		b.expectError(active, syscall.ENOENT)
	}
}
