package coretest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// portal is the portal of the suite's TMs.
const portal = 34

// stage is the environment of one test case: its network, domains and TMs.
type stage struct {
	t   *testing.T
	h   *Harness
	net *Network

	domains  []*transport.Domain
	machines []*machine
	arenas   []*arena
	ids      uint16 // the last number of a TM in use

	probes [2]*machine // TMs that waitForLosses uses

	mu      sync.Mutex // guards the logs of all machines
	changed chan struct{}
}

// context returns a context that ends after Harness.Patience.
func (s *stage) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.h.Patience)
}

// update calls change, which modifies state that await checks.
func (s *stage) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// await waits until holds returns true. It calls holds with mu held, again after each update. what names the
// condition in failures.
func (s *stage) await(what string, holds func() bool) {
	s.t.Helper()
	timer := time.NewTimer(s.h.Patience)
	defer timer.Stop()
	for {
		s.mu.Lock()
		if holds() {
			s.mu.Unlock()
			return
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			s.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// must ends the case if err is not nil.
func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// want checks that errors.Is(got, want). what names the operation in failures.
func (s *stage) want(what string, got, want error) {
	s.t.Helper()
	if !errors.Is(got, want) {
		s.t.Errorf("%s: %v, not %v", what, got, want)
	}
}

// domain returns a new domain on host k.
func (s *stage) domain(k int) *transport.Domain {
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	d, err := transport.NewDomain(ctx, s.net.Hosts[k].Core)
	s.must(err)
	s.domains = append(s.domains, d)
	return d
}

// address returns an address on host k whose TM number no other TM of the test case has.
func (s *stage) address(k int) transport.Address {
	s.ids++
	return transport.Address{NID: s.net.Hosts[k].NID, PID: lnet.PIDLustre, Portal: portal, TMID: s.ids}
}

// machine starts a TM on host k, in a new domain.
func (s *stage) machine(k int) *machine {
	s.t.Helper()
	m := s.prepare(s.domain(k))
	m.start(s.address(k).String())
	return m
}

// pair starts two TMs, a on host 0 and b on host 1.
func (s *stage) pair() (a, b *machine) {
	s.t.Helper()
	return s.machine(0), s.machine(1)
}

// prepare returns a TM of domain d that is not started.
func (s *stage) prepare(d *transport.Domain) *machine {
	s.t.Helper()
	m := &machine{stage: s, domain: d}
	m.callbacks = transport.Callbacks{m.record, m.record, m.record, m.record, m.record, m.record}
	var err error
	m.TransferMachine, err = d.NewTM(m.recordState)
	s.must(err)
	s.update(func() { s.machines = append(s.machines, m) })
	return m
}

// waitForLosses waits until messages from host 1 to host 0 that were sent before, and that have had no effect
// there, are certainly lost.
func (s *stage) waitForLosses() {
	s.t.Helper()
	if s.h.Bubble != nil {
		time.Sleep(5 * time.Second) // simulated time
		return
	}
	for k := range s.probes {
		if s.probes[k] == nil {
			s.probes[k] = s.machine(k)
		}
	}
	in, out := s.probes[0].buffer(1), s.probes[1].buffer(1)
	s.probes[0].receive(in, 1, 1)
	s.probes[1].send(out, 1, s.probes[0])
	s.probes[0].expect(in)
	s.probes[1].expect(out)
}

// finish closes the TMs and domains of the test case and frees its memory.
func (s *stage) finish() {
	for _, m := range s.machines {
		m.finish()
	}
	s.freeMemory()
	for _, d := range slices.Backward(s.domains) {
		if err := d.Close(); err != nil {
			s.t.Errorf("close a domain: %v", err)
		}
	}
}

// event is a copy of an event of a buffer or of a TM.
type event struct {
	buffer         *transport.Buffer // nil for an event of the TM
	queue          transport.QueueType
	final          bool
	err            error
	length, offset int
	sender         transport.Address
	time           time.Time
	flags          transport.Flags // during the callback
	received       int             // MessagesReceived during the callback
	goroutine      string          // number of the goroutine that ran the callback
	kind           transport.TMEventType
	next           transport.State
}

func (e *event) String() string {
	if e.buffer == nil {
		return fmt.Sprintf("TM event %d, state %v, %v", e.kind, e.next, e.err)
	}
	return fmt.Sprintf("%v: final %v, %v, %d bytes at %d of %v, flags %x, message %d",
		e.queue, e.final, e.err, e.length, e.offset, e.sender, e.flags, e.received)
}
