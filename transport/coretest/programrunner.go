package coretest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// poolCalls counts the calls of a pool's callbacks, in any goroutine.
type poolCalls struct{ notEmpty, low atomic.Int32 }

// runner runs a program and its model, and compares them.
type runner struct {
	net     *Network
	domains [2]*transport.Domain
	tms     [3]*tmModel // by slot
	pools   [2]*poolModel
	rooms   rooms
	logged  []announcement // descriptors of all passive buffers added so far
	seeds   int
	ticks   time.Duration // makes all deadlines different

	// mu guards the model. In a calm program it is also held during calls of the TMs, so that callbacks wait
	// until the call has returned.
	mu      sync.Mutex
	buffers []*bufferModel // models of the known buffers
	known   map[*transport.Buffer]*bufferModel
	failure string
	log     []string

	callbacks  transport.Callbacks
	concurrent *concurrentRun // nil in a calm program
}

// announcement is a descriptor of a passive buffer, with what the model knows about the buffer.
type announcement struct {
	descriptor transport.Descriptor
	address    transport.Address
	queue      transport.QueueType
	bits       uint64
	size       int
	seed       int
}

// runProgram runs a program in simulated time, and fails rt if the results differ from the model.
func runProgram(t *testing.T, rt *rapid.T, h *Harness, p program) {
	s := &runner{known: make(map[*transport.Buffer]*bufferModel), rooms: rooms{of: make(map[transport.Address]int)}}
	for q := range s.callbacks {
		s.callbacks[q] = s.event
	}
	h.Bubble(t, func(t *testing.T) {
		s.net = h.New(t, 2)
		s.begin(&p)
		for i := range p.Actions {
			if s.failure != "" {
				break
			}
			if p.Actions[i].Kind == "nothing" {
				continue
			}
			s.logf("action %d: %+v", i, p.Actions[i])
			s.mu.Lock()
			s.do(p.Actions[i])
			s.mu.Unlock()
			s.settle(0)
		}
		if p.Lanes != nil {
			s.runConcurrently(p.Lanes)
		}
		s.finish()
	})
	if s.failure != "" {
		rt.Fatalf("%s\n%s", s.failure, strings.Join(s.log, "\n"))
	}
}

// fail records a difference from the model, unless one is already recorded. mu is held.
func (s *runner) fail(format string, a ...any) {
	if s.failure == "" {
		s.failure = fmt.Sprintf(format, a...)
	}
}

func (s *runner) logf(format string, a ...any) { s.log = append(s.log, fmt.Sprintf(format, a...)) }

// expect checks that an error matches one of want, or is nil if want is empty.
func (s *runner) expect(what string, got error, want ...syscall.Errno) {
	if got == nil && len(want) == 0 {
		return
	}
	for _, errno := range want {
		if errors.Is(got, errno) {
			return
		}
	}
	s.fail("%s: %v, not %v", what, got, want)
}

func (s *runner) must(err error) bool {
	if err != nil {
		s.fail("%v", err)
	}
	return err == nil
}

// begin creates the domains, the pools, and the buffers without a pool.
func (s *runner) begin(p *program) {
	ctx := context.Background()
	for k := range s.domains {
		d, err := transport.NewDomain(ctx, roomCore{s.net.Hosts[k].Core, &s.rooms})
		if !s.must(err) {
			return
		}
		s.domains[k] = d
		pool := &poolModel{host: k, config: p.Pools[k]}
		pool.threshold = pool.config.Threshold
		if pool.threshold == 0 {
			pool.threshold = 2
		}
		pool.config.NotEmpty = func(*transport.Pool) { pool.lastCalls.notEmpty.Add(1) }
		pool.config.Low = func(*transport.Pool) { pool.lastCalls.low.Add(1) }
		if pool.real, err = d.NewPool(pool.config); !s.must(err) {
			return
		}
		s.pools[k] = pool
	}
	for i, n := range p.Sizes {
		memory := make([]byte, n+1)
		b := transport.NewBuffer(memory[:n/3+1], memory[n/3+1:])
		if n/3+1 == len(memory) {
			b = transport.NewBuffer(memory)
		}
		if !s.must(s.domains[i%2].Register(ctx, b)) {
			return
		}
		s.learn(&bufferModel{real: b, host: i % 2, size: n + 1, owner: i / 2})
	}
}

// learn adds the model of a buffer to the known buffers.
func (s *runner) learn(b *bufferModel) {
	s.buffers = append(s.buffers, b)
	s.known[b.real] = b
}

// bind records that b is the model of r. It fails if r or b already belongs to another one.
func (s *runner) bind(r *transport.Buffer, b *bufferModel) {
	switch seen := s.known[r]; {
	case b.real == nil && seen == nil:
		b.real = r
		s.learn(b)
	case b.real != r:
		s.fail("the pool has given another buffer: that of %p, not of %p", seen, b)
	}
}

// address returns the address of the TM of a slot.
func (s *runner) address(slot int) transport.Address {
	return transport.Address{NID: s.net.Hosts[slot/2].NID, PID: lnet.PIDLustre, Portal: portal, TMID: uint16(100 + slot)}
}

// at returns the model of the running TM at an address, or nil.
func (s *runner) at(a transport.Address) *tmModel {
	for _, m := range s.tms {
		if m.up() && m.address == a {
			return m
		}
	}
	return nil
}

// due updates the model for the deadlines that have passed.
func (s *runner) due() {
	now := time.Now()
	for _, m := range s.tms {
		if m == nil {
			continue
		}
		for _, q := range m.queues {
			for _, b := range q {
				if !b.deadline.IsZero() && !b.deadline.After(now) {
					b.end(true)
				}
			}
		}
	}
}

// settle lets simulated time pass, calm and the given number of halves of calm. By then nothing is in
// progress, and settle compares the state of all objects with the model.
func (s *runner) settle(halves int) {
	synctest.Wait()
	time.Sleep(calm + time.Duration(halves)*calm/2)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.concurrent != nil || s.failure != "" {
		return
	}
	s.due()
	for _, m := range s.tms {
		if m != nil {
			s.compare(m)
		}
	}
	for _, p := range s.pools {
		s.comparePool(p)
	}
	for _, b := range s.buffers {
		s.compareBuffer(b)
	}
}

// programRoom is the number of events for which the engine may always request room, even if fewer are
// possible.
const programRoom = 32

// compare compares a TM with its model.
func (s *runner) compare(m *tmModel) {
	if m.state == transport.StateStopping && m.queued() == 0 || len(m.pendingEvents) > 0 && m.queued() == 0 {
		s.fail("TM %d has not said %v", m.slot, m.pendingEvents)
	}
	if got := m.real.State(); got != m.state {
		s.fail("TM %d is %v, not %v", m.slot, got, m.state)
	}
	if got := m.real.Deficit(); got != m.deficit {
		s.fail("TM %d lacks %d, not %d", m.slot, got, m.deficit)
	}
	got := m.real.AllStats()
	for q := range m.queues {
		queue := transport.QueueType(q)
		if n := m.real.QueueLength(queue); n != len(m.queues[q]) {
			s.fail("TM %d has %d buffers on %v, not %d", m.slot, n, queue, len(m.queues[q]))
		}
		if got[q] != m.stats[q] || m.real.Stats(queue) != m.stats[q] {
			s.fail("TM %d, %v: %+v, not %+v", m.slot, queue, got[q], m.stats[q])
		}
	}
	if got := s.rooms.get(m.address); m.up() && got > max(programRoom, 2*(m.peak+1)) {
		s.fail("TM %d has asked for room for %d events, but needs %d", m.slot, got, m.peak)
	}
	pending := m.pending()
	if pending > 0 && !m.synchronous {
		s.fail("TM %d has %d events that were not told", m.slot, pending)
	}
	if got := m.real.Pending(); got != (pending > 0) {
		s.fail("TM %d: pending %v, but it has %d events", m.slot, got, pending)
	}
}

// pending returns the number of expected events that have not been delivered yet.
func (m *tmModel) pending() int {
	n := 0
	for _, q := range m.queues {
		for _, b := range q {
			n += len(b.coming)
		}
	}
	return n
}

// comparePool compares a pool and the calls of its callbacks with the model.
func (s *runner) comparePool(p *poolModel) {
	if free, size := p.real.Free(), p.real.Size(); free != len(p.free) || size != len(p.free)+p.out {
		s.fail("pool %d has %d free of %d, not %d of %d", p.host, free, size, len(p.free), len(p.free)+p.out)
	}
	if n := int(p.lastCalls.notEmpty.Swap(0)); n != p.notEmpty {
		s.fail("pool %d has said %d times that it is not empty, not %d", p.host, n, p.notEmpty)
	}
	// A TM that takes several buffers causes one call of Low.
	if n := int(p.lastCalls.low.Swap(0)); n > p.low || n == 0 && p.low > 0 {
		s.fail("pool %d has said %d times that it is low, not %d", p.host, n, p.low)
	}
	p.notEmpty, p.low = 0, 0
}

// compareBuffer compares the flags and counters of a buffer with the model.
func (s *runner) compareBuffer(b *bufferModel) {
	got := b.real.Flags() &^ (transport.FlagCancelled | transport.FlagTimedOut)
	want := transport.FlagRegistered
	if b.where == withTM {
		want |= transport.FlagQueued
		if n := b.real.MessagesReceived(); n != b.reported {
			s.fail("a buffer on %v says that it has received %d messages, not %d", b.action.Queue, n, b.reported)
		}
	}
	if got != want {
		s.fail("a buffer that is %d has flags %x, not %x", b.where, got, want)
	}
}

// finish closes all objects, and checks that nothing is left.
func (s *runner) finish() {
	for _, m := range s.tms {
		if m != nil {
			s.endTM(m)
		}
	}
	for _, p := range s.pools {
		if p == nil { // begin has failed, and reported why
			return
		}
		s.endPool(p)
	}
	for _, b := range s.buffers {
		if b.pool == nil {
			s.must(s.domains[b.host].Deregister(b.real))
		}
	}
	for _, d := range s.domains {
		s.must(d.Close())
	}
}

// endTM stops and closes a TM.
func (s *runner) endTM(m *tmModel) {
	s.logf("end of TM %d", m.slot)
	s.mu.Lock()
	if m.state == transport.StateStopping {
		s.expireDeadline(m)
	} else {
		s.stop(m, true)
	}
	s.mu.Unlock()
	s.settle(0)
	for range 3 {
		s.mu.Lock()
		s.deliver(m)
		s.mu.Unlock()
		s.settle(0)
	}
	s.mu.Lock()
	for len(m.held) > 0 {
		s.drop(m)
	}
	if s.close(m); s.failure == "" && s.tms[m.slot] != nil {
		s.fail("TM %d has not ended", m.slot)
	}
	s.mu.Unlock()
}

// endPool puts all buffers into the pool, takes them in the expected order, puts them back, and closes the
// pool.
func (s *runner) endPool(p *poolModel) {
	s.logf("end of pool %d", p.host)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.buffers {
		if b.pool == p && b.where == withProgram {
			b.real.EndPoint = nil
			s.put(b, transport.AnyColour)
		}
	}
	var all []*bufferModel
	for colour := uint32(0); p.out < p.real.Size() && s.failure == ""; colour++ {
		c := colour % 3
		if c == 2 {
			c = transport.AnyColour
		}
		b := s.get(p, c)
		if b == nil {
			break
		}
		all = append(all, b)
	}
	if s.failure == "" && len(p.free) > 0 {
		s.fail("pool %d has %d buffers yet", p.host, len(p.free))
	}
	for _, b := range all {
		s.put(b, transport.AnyColour)
	}
	s.expect("close pool", p.real.Close())
}
