package coretest

import (
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/transport"
)

// Groups D and F: the goroutine of callbacks, and the sender in events.
var eventCases = []scenario{
	{name: "T034_OneAtATime", run: oneAtATime},
	{name: "T056_Sender", run: sender},
}

// oneAtATime keeps all six queues of a TM busy, and checks that callbacks never overlap or run in the
// goroutine that adds buffers.
//
// transport-tests D (34)
// transport 3.10 guarantees
func oneAtATime(s *stage) {
	a, b := s.pair()
	const rounds = 50
	var running, overlaps atomic.Int32
	for _, m := range []*machine{a, b} {
		if m == a {
			m.then = func(*transport.BufferEvent) {
				if running.Add(1) != 1 {
					overlaps.Add(1)
				}
				runtime.Gosched()
				running.Add(-1)
			}
		}
	}
	var in, out, passive, active [2]*transport.Buffer
	for k := range 2 {
		in[k], out[k], passive[k], active[k] = [2]*machine{a, b}[k].buffer(500), [2]*machine{a, b}[k].buffer(500),
			[2]*machine{a, b}[k].buffer(500), [2]*machine{a, b}[k].buffer(500)
	}
	me := goroutine()
	for i := range rounds {
		for k, m := range []*machine{a, b} {
			other := []*machine{b, a}[k]
			m.receive(in[k], 500, 1)
			fill(out[1-k], i, 500)
			fill(passive[k], i+1, 500)
			fill(active[k], i+2, 500)
			other.send(out[1-k], 500, m)
			q, p := transport.ActiveBulkRecv, transport.PassiveBulkSend
			if i%2 == 1 {
				q, p = transport.ActiveBulkSend, transport.PassiveBulkRecv
			}
			s.must(m.move(active[k], q, 500, other.announce(passive[1-k], p, 500)))
			for _, e := range []event{m.expect(in[k]), other.expect(out[1-k]), m.expect(active[k]), other.expect(passive[1-k])} {
				if e.goroutine == me {
					s.t.Errorf("%v was called where it was added", &e)
				}
			}
			s.check(in[k], 0, 500, i)
		}
	}
	if overlaps.Load() > 0 {
		s.t.Errorf("callbacks have run at once %d times", overlaps.Load())
	}
}

// sender makes a TM answer a message in the callback, with the end point in the event.
//
// transport-tests F (56)
// transport 3.6 (5), 6.5 (3)
// r.M0.net.xprt.lnet.end-point-address
func sender(s *stage) {
	a, b := s.pair()
	in, answer := a.buffer(100), a.buffer(100)
	answer.Queue, answer.Length = transport.MsgSend, 30
	fill(answer, 2, 30)
	a.then = func(e *transport.BufferEvent) {
		if e.Queue == transport.MsgRecv && e.Err == nil {
			answer.EndPoint = e.EndPoint
			if err := a.Add(answer); err != nil {
				s.t.Errorf("answer: %v", err)
			}
		}
	}
	out, back := b.buffer(100), b.buffer(100)
	fill(out, 1, 20)
	a.receive(in, 100, 1)
	b.receive(back, 100, 1)
	b.send(out, 20, a)
	e := a.expect(in)
	if e.sender != b.Self().Address() || e.sender.String() != b.Self().String() {
		s.t.Errorf("the sender is %v, not %v", e.sender, b.Self())
	}
	s.check(in, 0, 20, 1)
	if e := b.expect(back); e.sender != a.Self().Address() || e.length != 30 {
		s.t.Errorf("an answer of %d bytes of %v", e.length, e.sender)
	}
	s.check(back, 0, 30, 2)
	a.expect(answer)
	b.expect(out)
	a.then = nil
	s.must(a.Stop()) // Stop and Close succeed, because no reference to an end point remains
	ctx, cancel := s.context()
	defer cancel()
	s.must(a.Await(ctx, transport.StateStopped))
	s.must(a.Close())
	a.closed = true
	s.want("stop what is closed", a.Abort(), syscall.EINVAL)
}
