package coretest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lnetd/lnetd/transport"
)

// Load: many buffers at the same time, in both directions.
var loadCases = []scenario{
	{name: "T084_BulkBothWays", run: bulkBothWays},
	{name: "Incast", hosts: 4, run: incast},
	{name: "AddedFromCallbacks", run: addedFromCallbacks},
	{name: "EveryAddEndsOnce", run: everyAddEndsOnce},
}

// bulkBothWays makes each side announce 8 buffers to the other, repeatedly.
//
// transport-tests I (84)
func bulkBothWays(s *stage) {
	const buffers, rounds, n = 8, 12, 70_000
	a, b := s.pair()
	var wg sync.WaitGroup
	for k, m := range []*machine{a, b} {
		other := []*machine{b, a}[k]
		for j := range buffers {
			passive, active := m.buffer(n), other.buffer(n)
			wg.Go(func() {
				for i := range rounds {
					seed := i*100 + j*10 + k
					from, to := passive, active
					p, q := transport.PassiveBulkSend, transport.ActiveBulkRecv
					if i%2 == 1 {
						from, to, p, q = active, passive, transport.PassiveBulkRecv, transport.ActiveBulkSend
					}
					guard(to)
					fill(from, seed, n)
					if !m.exchange(passive, active, other, p, q, n) {
						return
					}
					s.check(to, 0, n, seed)
				}
			})
		}
	}
	wg.Wait()
}

// exchange moves n bytes between a passive buffer of m, on queue p, and an active buffer of other, on queue
// q. Several goroutines may call it at a time. It returns false after an error.
func (m *machine) exchange(passive, active *transport.Buffer, other *machine, p, q transport.QueueType, n int) bool {
	s := m.stage
	passive.Queue, passive.Length = p, n
	if err := m.Add(passive); err != nil {
		s.t.Errorf("add to %v: %v", p, err)
		return false
	}
	d := append(transport.Descriptor(nil), passive.Descriptor...)
	if err := other.move(active, q, n, d); err != nil {
		s.t.Errorf("add to %v: %v", q, err)
		return false
	}
	for _, e := range []event{m.next(passive), other.next(active)} {
		if e.err != nil || !e.final || e.queue.String()[1:] == "RECV" && e.length != n {
			s.t.Errorf("%v", &e)
			return false
		}
	}
	return true
}

// incast makes several TMs on all hosts send to one TM, as fast as it accepts the messages.
func incast(s *stage) {
	const senders, messages, n = 6, 40, 5000
	a := s.machine(0)
	room := make(chan *transport.Buffer, senders)
	for range senders {
		room <- a.buffer(n)
	}
	a.then = func(e *transport.BufferEvent) {
		if e.Err == nil {
			room <- e.Buffer
		}
	}
	hosts := len(s.net.Hosts)
	var froms []*machine
	var outs []*transport.Buffer
	for k := range senders {
		froms = append(froms, s.machine(k%hosts))
		outs = append(outs, froms[k].buffer(n))
	}
	for i := range messages {
		for k, from := range froms {
			in := <-room
			a.receive(in, n, 1)
			from.sends(outs[k], i, n-k, a)
			e := a.expect(in)
			if e.length != n-k || e.sender != from.Self().Address() {
				s.t.Errorf("%v", &e)
			}
			s.check(in, 0, n-k, i)
		}
	}
	a.stats(transport.MsgRecv, senders*messages, 0, senders*messages, 0)
}

// addedFromCallbacks makes two TMs send a message back and forth, where all buffers are added by callbacks.
//
// transport 3.2 (2)-(3)
func addedFromCallbacks(s *stage) {
	const throws = 500
	a, b := s.pair()
	done := make(chan struct{})
	var caught atomic.Int64 // messages received
	for k, m := range []*machine{a, b} {
		in, out := m.buffer(100), m.buffer(100)
		ep, err := m.EndPointAt([]*machine{b, a}[k].Self().Address())
		s.must(err)
		defer ep.Put()
		out.Queue, out.Length, out.EndPoint = transport.MsgSend, 100, ep
		add := func(x *transport.Buffer) {
			if err := m.Add(x); err != nil {
				s.t.Errorf("add: %v", err)
			}
		}
		held := 0 // number of conditions to wait for: the message must be here, and the last send complete
		throw := func() {
			if held--; held == 0 {
				held = 2
				add(out)
			}
		}
		held = 1
		m.then = func(e *transport.BufferEvent) {
			switch {
			case e.Buffer == out:
				throw()
			case e.Queue == transport.MsgRecv && e.Err == nil:
				if caught.Add(1) == throws {
					close(done)
					return
				}
				add(in)
				throw()
			}
		}
		m.receive(in, 100, 1)
	}
	first := a.buffer(100)
	a.send(first, 100, b)
	a.expect(first)
	ctx, cancel := s.context()
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		s.t.Fatal("the message was dropped")
	}
}

// allocations checks that a message and a bulk operation allocate nothing, in real time.
func allocations(t *testing.T, h *Harness) {
	s := &stage{t: t, h: h, net: h.New(t, 2)}
	defer s.finish()
	a, b := s.machine(0), s.machine(1)
	ep, err := b.EndPointAt(a.Self().Address())
	s.must(err)
	defer ep.Put()
	ended := make(chan struct{}, 2) // the test waits here, because polling would keep the network from its only processor
	callbacks := transport.Callbacks{}
	for q := range callbacks {
		callbacks[q] = func(*transport.BufferEvent) { ended <- struct{}{} }
	}
	passive, active := a.buffer(5000), b.buffer(5000)
	passive.Callbacks, active.Callbacks = &callbacks, &callbacks
	passive.Length, active.Length = 5000, 5000
	passive.MinReceiveSize, passive.MaxMessages = 5000, 1
	for q, p := range map[transport.QueueType]transport.QueueType{
		transport.MsgSend: transport.MsgRecv, transport.ActiveBulkRecv: transport.PassiveBulkSend,
		transport.ActiveBulkSend: transport.PassiveBulkRecv,
	} {
		passive.Queue, active.Queue, active.EndPoint = p, q, nil
		if q == transport.MsgSend {
			active.EndPoint = ep
		}
		// Other goroutines may allocate during a try. An operation that allocates does so in every try.
		n := 1.0
		for try := 0; try < 3 && n != 0; try++ {
			n = testing.AllocsPerRun(500, func() {
				s.must(a.Add(passive))
				active.Descriptor = passive.Descriptor
				s.must(b.Add(active))
				<-ended
				<-ended
			})
		}
		if n != 0 {
			t.Errorf("%v and %v: %v allocations", p, q, n)
		}
	}
}
