package verbstest

import (
	"errors"
	"net/netip"
	"syscall"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// processDies checks that the kernel of a killed process notifies connected peers (o2iblnd 12.1).
func processDies(s *stage) {
	addr := netip.AddrPortFrom(s.AddrB, s.port+10)
	kill := s.Victim(s.T, addr, Accept)
	var ids []verbs.ID
	for range 3 {
		i := s.a.dial(addr)
		s.a.receives(i, 0, 1)
		s.must(i.Connect(param))
		s.a.expect(verbs.EventEstablished)
		s.a.send(i, 1, outbox, 100)
		s.a.succeeded(i)
		ids = append(ids, i)
	}
	kill()
	for range ids {
		s.a.expect(verbs.EventDisconnected)
	}
	for _, i := range ids {
		s.must(i.Disconnect())
		if c := s.a.completion(i); c.Status != verbs.Flushed {
			s.Errorf("the receive: %s", c.Status)
		}
		i.Destroy()
	}
	i := s.a.dial(addr)
	s.must(i.Connect(param))
	if ev := s.a.expect(verbs.EventRejected); ev.Status != verbs.RejectNoListener {
		s.Errorf("rejected with status %d after its death", ev.Status)
	}
	i.Destroy()
}

// processDiesUnanswered checks that a request is rejected without data if the process that should answer it is
// killed (o2iblnd 6).
func processDiesUnanswered(s *stage) {
	addr := netip.AddrPortFrom(s.AddrB, s.port+11)
	kill := s.Victim(s.T, addr, Ignore)
	i := s.a.dial(addr)
	s.must(i.Connect(param))
	kill()
	ev := s.a.expect(verbs.EventRejected)
	if ev.Status != verbs.RejectConsumer && ev.Status != verbs.RejectNoListener {
		s.Errorf("rejected with status %d", ev.Status)
	}
	checkPrivate(s, &ev, nil, verbs.MaxRejectPrivate)
	i.Destroy()
}

// reconnect opens and closes many connections on the same completion queue.
func reconnect(s *stage) {
	for n := range uint64(10) {
		a, b := s.connect(4)
		p := s.a.message(n)
		_, _, err := a.Post(nil, []verbs.Request{{WRID: n, Count: 1, Flags: verbs.FlagSignalled}}, []verbs.Piece{p})
		s.must(err)
		s.b.got(s.b.receive(b), n, 0)
		s.a.succeeded(a)
		s.part(a, b)
	}
}

// endsInOrder checks that an object cannot be closed while others use it.
func endsInOrder(s *stage) {
	a, b := s.connect(1)
	busy := func(name string, f func() error) {
		s.Helper()
		if err := f(); !errors.Is(err, syscall.EBUSY) {
			s.Errorf("%s: %v, want %v", name, err, syscall.EBUSY)
		}
	}
	busy("queue", s.a.cq.Close)
	busy("channel", s.a.ch.Close)
	busy("device", s.a.dev.Close)
	busy("process", s.a.p.Close)
	s.a.send(a, 1, outbox, 8) // the connection must still work
	s.b.receive(b)
	s.a.succeeded(a)
	s.part(a, b)
	busy("device, with memory", s.a.dev.Close)
	q, err := s.a.dev.NewCQ(16, 0)
	s.must(err)
	if q.Entries() < 16 {
		s.Errorf("a queue of %d", q.Entries())
	}
	if n, err := q.Poll(make([]verbs.Completion, 1)); n != 0 || err != nil {
		s.Errorf("Poll: %d, %v", n, err)
	}
	s.must(q.Close())
	if err := q.Close(); !errors.Is(err, verbs.ErrClosed) {
		s.Errorf("closed twice: %v", err)
	}
	if _, err := q.Poll(make([]verbs.Completion, 1)); !errors.Is(err, verbs.ErrClosed) {
		s.Errorf("Poll after Close: %v", err)
	}
}

// endsWaits checks that Close makes waiting calls return, and that a closed device can be opened again.
func endsWaits(s *stage) {
	s.a.listener.Destroy()
	s.must(s.a.cq.Close())
	s.must(s.a.mem.Close())
	old := s.a.dev
	s.must(old.Close())
	if _, err := old.Port(1); !errors.Is(err, verbs.ErrClosed) {
		s.Errorf("Port after Close: %v", err)
	}
	if err := old.Close(); !errors.Is(err, verbs.ErrClosed) {
		s.Errorf("closed twice: %v", err)
	}
	s.must(s.a.ch.Close())
	s.a.waiters.Wait()
	if err := s.a.ch.Close(); !errors.Is(err, verbs.ErrClosed) {
		s.Errorf("closed twice: %v", err)
	}
	if _, err := s.a.ch.Listen(s.a.addr, 1); !errors.Is(err, verbs.ErrClosed) {
		s.Errorf("Listen after Close: %v", err)
	}
	s.a = s.end(s.a.p, s.AddrA)
	if s.a.dev == old {
		s.Error("the device was not opened anew")
	}
	a, b := s.connect(1)
	s.part(a, b)
}
