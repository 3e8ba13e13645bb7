package coretest

import (
	"fmt"

	"github.com/lnetd/lnetd/transport"
)

// Receive queues that are filled from a pool, as a program sees them. They are a part of groups K and L; the
// rest does not depend on the Core.
var provisioningCases = []scenario{
	{name: "NeverDry", run: neverDry},
	{name: "SharedPool", run: sharedPool},
	{name: "Synchronously", run: provisionedSynchronously},
}

// pool returns a pool with the given number of buffers of 1000 bytes.
func (s *stage) pool(d *transport.Domain, buffers int) *transport.Pool {
	s.t.Helper()
	p, err := d.NewPool(transport.PoolConfig{Segments: 2, SegmentSize: 500, Colours: 2})
	s.must(err)
	ctx, cancel := s.context()
	defer cancel()
	n, err := p.Provision(ctx, buffers)
	s.must(err)
	if n != buffers || p.Free() != n || p.Size() != n {
		s.t.Errorf("the pool has %d buffers, %d free, not %d", n, p.Free(), buffers)
	}
	return p
}

// attach attaches a pool to a TM. length is the QueueLength, and messages the MaxMessages. The TM's callback
// puts buffers back with the TM's colour.
func (m *machine) attach(p *transport.Pool, length, messages int) {
	s := m.stage
	s.t.Helper()
	m.then = func(e *transport.BufferEvent) {
		if e.Queue != transport.MsgRecv || !e.Final {
			return
		}
		if err := p.Put(e.Buffer, m.Colour()); err != nil {
			s.t.Errorf("put a buffer back: %v", err)
		}
	}
	s.must(m.AttachPool(p, transport.Provisioning{
		Callbacks: &m.callbacks, MinReceiveSize: 100, MaxMessages: messages, QueueLength: length,
	}))
}

// drained closes the TMs, checks that all buffers of the pool are back, and closes the pool.
func (s *stage) drained(p *transport.Pool, tms ...*machine) {
	s.t.Helper()
	for _, m := range tms {
		m.close()
	}
	if p.Free() != p.Size() {
		s.t.Errorf("%d buffers of %d are back", p.Free(), p.Size())
	}
	s.must(p.Close())
}

// neverDry checks that each message finds a buffer as long as the program returns its buffers.
//
// transport 5.2 (1)
func neverDry(s *stage) {
	const messages = 100
	d := s.domain(0)
	p := s.pool(d, 5)
	a, b := s.prepare(d), s.machine(1)
	a.attach(p, 3, 2)
	a.start(s.address(0).String())
	out := b.buffer(100)
	for i := range messages {
		b.sends(out, i, 100, a)
		e := a.take(fmt.Sprintf("message %d", i), func(e *event) bool { return e.queue == transport.MsgRecv && e.buffer != nil })
		if e.err != nil || e.length != 100 || e.final != (i%2 == 1) {
			s.t.Fatalf("message %d: %v", i, &e)
		}
	}
	if n := a.QueueLength(transport.MsgRecv); n != 3 || a.Deficit() != 0 {
		s.t.Errorf("%d buffers are queued, %d lack", n, a.Deficit())
	}
	s.drained(p, a)
}

// sharedPool checks that a TM gets the buffers that it lacks when another TM of the pool stops.
//
// transport 5.3 (4), 5.4
// r.M0.net.xprt.auto-provisioned-receive-buffer-pool
func sharedPool(s *stage) {
	d := s.domain(0)
	p := s.pool(d, 5)
	first, second, b := s.prepare(d), s.prepare(d), s.machine(1)
	first.attach(p, 3, 1)
	second.attach(p, 4, 1)
	s.must(first.SetColour(0))
	s.must(second.SetColour(1))
	first.start(s.address(0).String())
	second.start(s.address(0).String())
	if first.Deficit() != 0 || second.Deficit() != 2 || p.Free() != 0 {
		s.t.Errorf("%d and %d lack, %d are free", first.Deficit(), second.Deficit(), p.Free())
	}
	first.close()
	if second.Deficit() != 0 || second.QueueLength(transport.MsgRecv) != 4 || p.Free() != 1 {
		s.t.Errorf("%d lack, %d are queued, %d are free",
			second.Deficit(), second.QueueLength(transport.MsgRecv), p.Free())
	}
	out := b.buffer(100)
	for i := range 6 {
		b.sends(out, i, 50, second)
		e := second.take("a message", func(e *event) bool { return e.buffer != nil })
		if e.err != nil || e.length != 50 {
			s.t.Errorf("message %d: %v", i, &e)
		}
	}
	s.drained(p, second)
}

// provisionedSynchronously checks that DeliverAll fills the receive queue if delivery is synchronous.
//
// transport 5.2 (1)
func provisionedSynchronously(s *stage) {
	d := s.domain(0)
	p := s.pool(d, 3)
	a, b := s.prepare(d), s.machine(1)
	s.must(a.DeliverSynchronously())
	a.attach(p, 2, 1)
	a.start(s.address(0).String())
	out := b.buffer(100)
	for i := range 10 {
		b.sends(out, i, 60, a)
		a.becomesPending()
		a.deliver(1)
		e := a.take("a message", func(e *event) bool { return e.buffer != nil })
		if e.err != nil || e.length != 60 || a.QueueLength(transport.MsgRecv) != 2 {
			s.t.Errorf("message %d: %v; %d buffers are queued", i, &e, a.QueueLength(transport.MsgRecv))
		}
	}
	a.finish()
	a.closed = true
	s.drained(p)
}
