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

// portal is where the suite's TMs are.
const portal = 34

// stage is where one case is played.
type stage struct {
	t   *testing.T
	h   *Harness
	net *Network

	domains  []*transport.Domain
	machines []*machine
	arenas   []*arena
	ids      uint16 // numbers of TMs that are taken

	probes [2]*machine // of quiet

	mu      sync.Mutex // guards the logs of all machines
	changed chan struct{}
}

// context ends when the patience does.
func (s *stage) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.h.Patience)
}

// note changes what await looks at.
func (s *stage) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// await waits until a condition holds; it is looked at under mu whenever something was
// noted.
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

// must ends the case if there is an error.
func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// want demands that an error be one, or nil.
func (s *stage) want(what string, got, want error) {
	s.t.Helper()
	if !errors.Is(got, want) {
		s.t.Errorf("%s: %v, not %v", what, got, want)
	}
}

// domain makes a domain on host k.
func (s *stage) domain(k int) *transport.Domain {
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	d, err := transport.NewDomain(ctx, s.net.Hosts[k].Core)
	s.must(err)
	s.domains = append(s.domains, d)
	return d
}

// address is one on host k that no TM has.
func (s *stage) address(k int) transport.Address {
	s.ids++
	return transport.Address{NID: s.net.Hosts[k].NID, PID: lnet.PIDLustre, Portal: portal, TMID: s.ids}
}

// machine starts a TM on host k, in a domain of its own.
func (s *stage) machine(k int) *machine {
	s.t.Helper()
	m := s.prepare(s.domain(k))
	m.start(s.address(k).String())
	return m
}

// pair is a TM on either host.
func (s *stage) pair() (a, b *machine) {
	s.t.Helper()
	return s.machine(0), s.machine(1)
}

// prepare makes a TM that is not started.
func (s *stage) prepare(d *transport.Domain) *machine {
	s.t.Helper()
	m := &machine{stage: s, domain: d}
	m.callbacks = transport.Callbacks{m.record, m.record, m.record, m.record, m.record, m.record}
	var err error
	m.TransferMachine, err = d.NewTM(m.recordState)
	s.must(err)
	s.note(func() { s.machines = append(s.machines, m) })
	return m
}

// quiet returns when what host 1 has sent to host 0, and has not left a trace there, has
// got lost.
func (s *stage) quiet() {
	s.t.Helper()
	if s.h.Bubble != nil {
		time.Sleep(5 * time.Second) // simulated
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

// finish ends all that the case has left.
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

// event is a copy of an event of a buffer, or of a TM.
type event struct {
	buffer         *transport.Buffer // nil: of the TM
	queue          transport.QueueType
	final          bool
	err            error
	length, offset int
	sender         transport.Address
	time           time.Time
	flags          transport.Flags // in the callback
	received       int             // messages, in the callback
	goroutine      string          // which ran the callback
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
