package lndtest

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Registration: messages arrive in the same way whether their memory is registered with the device or not.
// Drivers that register no memory skip these cases. A driver's own tests must check that its device accesses no
// other memory: see package fabric in lnd/o2iblnd/verbs.
var registrationCases = []scenario{
	{name: "Puts", nodes: 2, run: registeredPuts},
	{name: "Gets", nodes: 2, run: registeredGets},
	{name: "SameMemoryTwice", nodes: 2, run: registeredTwice},
	{name: "ReleasedInBetween", nodes: 2, run: releasedInBetween},
	{name: "EndsWithTheInterface", nodes: 2, run: registrationEnds},
}

// registrars opens all nodes and returns their interfaces. It returns nil if they do not register memory.
func (s *stage) registrars() []memory.Registrar {
	var list []memory.Registrar
	for _, n := range s.open(len(s.nodes)) {
		if by, ok := n.i.(memory.Registrar); ok {
			list = append(list, by)
		}
	}
	if len(list) < len(s.nodes) {
		return nil
	}
	return list
}

// register registers the memory of g with by, and makes the pieces for which which returns true use this
// registration.
func (s *stage) register(g *guarded, by memory.Registrar, which func(piece int) bool) *memory.Region {
	s.t.Helper()
	r := memory.NewRegion(g.backing, nil)
	if err := r.Register(by); err != nil {
		s.t.Fatal(err)
	}
	for k, piece := range g.segments {
		if which(k) {
			g.segments[k] = r.Segment(cap(g.backing)-cap(piece.Bytes), len(piece.Bytes))
		}
	}
	return r
}

func all(int) bool          { return true }
func everyOther(k int) bool { return k%2 == 0 }

func registeredPuts(s *stage) {
	by := s.registrars()
	if by == nil {
		return
	}
	n := s.nodes
	for _, size := range []int{1, 4096, 100_000, lnet.MTU} {
		for _, which := range []func(int) bool{all, everyOther} {
			for _, kept := range []int{size, size / 2} {
				n[1].setPolicy(func(a *arrival) (lnd.Placement, bool, error) {
					g := newGuarded(kept, 3)
					s.register(g, by[1], which)
					return a.keepIn(g), false, nil
				})
				o := n[0].message(lnet.MsgPut, n[1], size, 1)
				g := newGuarded(size, 4)
				g.fill(o.id())
				s.register(g, by[0], which)
				o.Payload = g.memory()
				s.awaitDelivered(n[1], n[0].send(o))
			}
		}
	}
}

func registeredGets(s *stage) {
	by := s.registrars()
	if by == nil {
		return
	}
	n := s.nodes
	for _, size := range []int{1, 5000, lnet.MTU} {
		for _, which := range []func(int) bool{all, everyOther} {
			n[1].setPolicy(func(a *arrival) (lnd.Placement, bool, error) {
				p := a.keep(0)
				if a.rdma {
					g := newGuarded(size, 3)
					g.fill(a.id())
					s.register(g, by[1], which)
					p.Reply = g.memory()
				}
				return p, false, nil
			})
			get := n[0].message(lnet.MsgGet, n[1], 0, 1)
			get.Header.Length = uint32(size)
			get.sink = newGuarded(size, 4)
			s.register(get.sink, by[0], which)
			get.Sink = get.sink.memory()
			s.awaitDelivered(n[1], n[0].send(get))
			if !get.Replied {
				continue // a REPLY would be necessary
			}
			if get.ReplyLength != size {
				s.t.Errorf("ReplyLength %d, want %d", get.ReplyLength, size)
			}
			if err := get.sink.checkPattern(get.id()); err != nil {
				s.t.Errorf("sink: %v", err)
			}
		}
	}
}

// registeredTwice sends from memory that has two registrations, one of which is released before.
func registeredTwice(s *stage) {
	by := s.registrars()
	if by == nil {
		return
	}
	n := s.nodes
	o := n[0].message(lnet.MsgPut, n[1], 100_000, 1)
	g := newGuarded(100_000, 1)
	g.fill(o.id())
	first := s.register(g, by[0], all)
	s.register(g, by[0], all)
	if err := first.Release(); err != nil {
		s.t.Error(err)
	}
	o.Payload = g.memory()
	s.awaitDelivered(n[1], n[0].send(o))
}

// releasedInBetween releases a registration when the first message from the memory is complete. It then sends
// from the same memory without a registration.
func releasedInBetween(s *stage) {
	by := s.registrars()
	if by == nil {
		return
	}
	n := s.nodes
	g := newGuarded(50_000, 2)
	r := s.register(g, by[0], all)
	for round := range 3 {
		o := n[0].message(lnet.MsgPut, n[1], 50_000, 1)
		g.fill(o.id())
		o.Payload = g.memory()
		s.awaitDelivered(n[1], n[0].send(o))
		if round == 0 {
			if err := r.Release(); err != nil {
				s.t.Error(err)
			}
		}
	}
}

// registrationEnds closes the interfaces while a region is registered and messages use it.
func registrationEnds(s *stage) {
	by := s.registrars()
	if by == nil {
		return
	}
	n := s.nodes
	n[1].setPolicy(holdAll)
	g := newGuarded(lnet.MTU, 2)
	r := s.register(g, by[0], all)
	for range 10 {
		o := n[0].message(lnet.MsgPut, n[1], 0, 1)
		o.Header.PayloadLength, o.Payload = lnet.MTU, g.memory()
		n[0].send(o)
	}
	s.await("an arrival", func() bool { return len(n[1].held) > 0 })
	n[0].close()
	if err := r.Release(); err != nil {
		s.t.Errorf("release after Close: %v", err)
	}
	_, err := by[0].Register(g.backing)
	if checkError(s.t, "Register after Close", err); err == nil {
		s.t.Error("a closed interface registers memory")
	}
}
