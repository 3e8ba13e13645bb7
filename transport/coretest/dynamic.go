package coretest

import (
	"fmt"
	"sync"

	"github.com/lnetd/lnetd/transport"
)

// The cases of group N of transport-tests: dynamic TM numbers, which are assigned in descending order.
var dynamicCases = []scenario{
	{name: "T108_FromTheTopDown", run: fromTheTopDown},
	{name: "T109_OwnAddress", run: ownAddress},
	{name: "T110_InParallel", run: inParallel},
}

// dynamic returns an address on host k that requests a dynamic TM number.
func (s *stage) dynamic(k int) string {
	return fmt.Sprintf("%v:12345:%d:*", s.net.Hosts[k].NID, portal)
}

// fromTheTopDown checks that dynamic numbers are assigned in descending order, and that a released number is
// not reused soon.
//
// transport-tests N (108)
// transport 6.3 (2), 6.3 (4)
// r.M0.net.xprt.lnet.dynamic-address-assignment
func fromTheTopDown(s *stage) {
	d := s.domain(0)
	start := func(want uint16) *machine {
		m := s.prepare(d)
		m.start(s.dynamic(0))
		if got := m.Self().Address().TMID; got != want {
			s.t.Errorf("number %d, not %d", got, want)
		}
		return m
	}
	start(4095)
	middle := start(4094)
	start(4093)
	middle.close()
	start(4092) // not 4094, because peers may have descriptors of the TM that had this number
	start(4091)
}

// ownAddress checks that a TM with a dynamic number knows its address, and that a peer can send to it.
//
// transport-tests N (109)
func ownAddress(s *stage) {
	a, b := s.prepare(s.domain(0)), s.machine(1)
	if a.Self() != nil {
		s.t.Error("a TM that is not started has an end point of its own")
	}
	a.start(s.dynamic(0))
	want := fmt.Sprintf("%v:12345:%d:4095", s.net.Hosts[0].NID, portal)
	if got := a.Self().String(); got != want {
		s.t.Errorf("it is %s, not %s", got, want)
	}
	address, err := transport.ParseAddress(a.Self().String())
	s.must(err)
	in, out := a.buffer(100), b.buffer(100)
	a.receive(in, 100, 1)
	fill(out, 1, 100)
	b.sendTo(out, 100, address)
	b.expect(out)
	a.arrives(in, 0, 100, 1, true, 1)
}

// inParallel starts and stops TMs in several goroutines, and checks that no two TMs have the same number at a
// time.
//
// transport 6.3 (1)
func inParallel(s *stage) {
	const workers, rounds = 4, 50
	var mu sync.Mutex
	taken := map[uint16]bool{}
	claim := func(id uint16, take bool) {
		mu.Lock()
		defer mu.Unlock()
		if take && taken[id] {
			s.t.Errorf("two TMs have number %d", id)
		}
		taken[id] = take
	}
	var wg sync.WaitGroup
	for range workers {
		d := s.domain(0)
		wg.Go(func() {
			for range rounds {
				ctx, cancel := s.context()
				tm, err := d.Open(ctx, s.dynamic(0), nil)
				if err != nil {
					s.t.Errorf("start: %v", err)
					cancel()
					return
				}
				id := tm.Self().Address().TMID
				claim(id, true)
				claim(id, false)
				if err := tm.Shutdown(ctx); err != nil {
					s.t.Errorf("stop: %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
}
