package coretest

import (
	"slices"

	"github.com/lnetd/lnetd/transport"
)

// orderCases is group Order. It checks that a peer can reach a buffer as soon as Add has returned, even if
// the peer has learned of it in another way than by a message of this TM. Each case uses Harness.Posts
// buffers, once with a sender in another domain of the same host, and once with a sender on another host.
//
// transport 9.12
var orderCases = func() (cases []scenario) {
	for _, c := range []struct {
		name string
		run  func(s *stage, a, b *machine)
	}{
		{"Receive", receiveAtOnce},
		{"PassiveRecv", fillAtOnce},
		{"PassiveSend", fetchAtOnce},
		{"Batch", batchAtOnce},
		{"Callback", callbackAtOnce},
		{"Pool", poolAtOnce},
	} {
		for k, from := range []string{"Here", "There"} {
			cases = append(cases, scenario{name: c.name + "From" + from, run: func(s *stage) {
				a := s.prepare(s.domain(0))
				c.run(s, a, s.machine(k))
			}})
		}
	}
	return cases
}()

// begin starts a TM that prepare has returned, at an unused address.
func (m *machine) begin() { m.start(m.stage.address(0).String()) }

// receiveAtOnce sends a message as soon as a receive buffer was added.
func receiveAtOnce(s *stage, a, b *machine) {
	a.begin()
	in, out := a.buffer(100), b.buffer(100)
	for i := range s.h.Posts {
		a.receive(in, 100, 1)
		b.sends(out, i, 100, a)
		a.arrives(in, 0, 100, i, true, 1)
	}
}

// fillAtOnce writes to a passive buffer as soon as it was added.
func fillAtOnce(s *stage, a, b *machine) {
	a.begin()
	passive, active := a.buffer(100), b.buffer(100)
	for i := range s.h.Posts {
		fill(active, i, 100)
		s.must(b.move(active, transport.ActiveBulkSend, 100, a.announce(passive, transport.PassiveBulkRecv, 0)))
		b.expect(active)
		a.expect(passive)
		s.check(passive, 0, 100, i)
	}
}

// fetchAtOnce reads from a passive buffer as soon as it was added.
func fetchAtOnce(s *stage, a, b *machine) {
	a.begin()
	passive, active := a.buffer(100), b.buffer(100)
	for i := range s.h.Posts {
		fill(passive, i, 100)
		s.must(b.move(active, transport.ActiveBulkRecv, 0, a.announce(passive, transport.PassiveBulkSend, 100)))
		b.expect(active)
		a.expect(passive)
		s.check(active, 0, 100, i)
	}
}

// batchAtOnce adds several receive buffers in one call, and then sends a message to each.
func batchAtOnce(s *stage, a, b *machine) {
	const batch = 4
	a.begin()
	var in, out []*transport.Buffer
	for range batch {
		in, out = append(in, a.buffer(100)), append(out, b.buffer(100))
	}
	for range s.h.Posts {
		for _, x := range in {
			x.Queue, x.Callbacks, x.MinReceiveSize, x.MaxMessages = transport.MsgRecv, &a.callbacks, 100, 1
		}
		if n, err := a.AddAll(in...); n != batch || err != nil {
			s.t.Fatalf("added %d buffers: %v", n, err)
		}
		for _, x := range out {
			b.send(x, 100, a)
		}
		for k := range batch {
			b.expect(out[k])
			a.expect(in[k])
		}
	}
}

// callbackAtOnce adds the receive buffer in a callback, which then notifies the sender through a Go channel.
func callbackAtOnce(s *stage, a, b *machine) {
	a.begin()
	in, out := a.buffer(100), b.buffer(100)
	posted := make(chan error, 1)
	a.then = func(e *transport.BufferEvent) {
		if e.Err == nil {
			posted <- a.Add(e.Buffer)
		}
	}
	a.receive(in, 100, 1)
	for i := range s.h.Posts {
		b.sends(out, i, 100, a)
		a.take("a message", func(e *event) bool { return e.buffer == in })
		s.must(<-posted)
	}
	a.cancel(in)
}

// poolAtOnce uses a receive queue of one buffer from a pool. The TM adds the next buffer before it calls the
// callback, which notifies the sender through a Go channel.
func poolAtOnce(s *stage, a, b *machine) {
	p := s.pool(a.domain, 3)
	a.attach(p, 1, 1)
	put, arrived := a.then, make(chan struct{}, 1)
	a.then = func(e *transport.BufferEvent) {
		if e.Err == nil {
			arrived <- struct{}{}
		}
		put(e)
	}
	a.begin()
	out := b.buffer(100)
	for i := range s.h.Posts {
		b.sends(out, i, 100, a)
		s.receives(arrived)
	}
	s.update(func() {
		a.events = slices.DeleteFunc(a.events, func(e event) bool { return e.buffer != nil })
	})
	s.drained(p, a)
}

// receives waits until a callback has reported a message on the channel arrived.
func (s *stage) receives(arrived chan struct{}) {
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	select {
	case <-arrived:
	case <-ctx.Done():
		s.t.Fatal("waited in vain for a message")
	}
}
