package coretest

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// concurrentRun is the state of a program during the concurrent run of its lanes. runner.mu guards it, and is
// not held during calls of the TMs.
type concurrentRun struct {
	*runner
	sent  []*sent
	stops [3]int // successful calls of Stop, by slot
}

// sent is a message, or bulk data for a passive buffer, that was sent.
type sent struct {
	to, from transport.Address
	bits     uint64 // match bits of the passive buffer; 0 for a message
	seed     int
	length   int
	come     bool // an event has reported its arrival
}

// runConcurrently runs lanes concurrently, and then stops all TMs.
func (s *runner) runConcurrently(lanes [][]action) {
	if s.failure != "" {
		return
	}
	w := &concurrentRun{runner: s}
	s.mu.Lock()
	s.concurrent = w
	for _, b := range s.buffers {
		b.owner %= len(lanes)
	}
	s.mu.Unlock()
	var all, deliverers sync.WaitGroup
	for _, m := range s.tms {
		if m.synchronous {
			m.delivering = true
			deliverers.Go(func() { w.deliverer(m) })
		}
	}
	for i, actions := range lanes {
		all.Go(func() {
			for _, d := range actions {
				w.do(i, d)
			}
		})
	}
	all.Wait()
	s.settle(0)
	w.update(w.overdue)
	for _, m := range s.tms {
		w.stop(m, true)
		s.settle(0)
		if m.real.State() == transport.StateStopping { // it was stopped without abort
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			w.update(func() { m.aborted = true })
			m.closed = m.real.Shutdown(ctx) == nil // if the TM stops immediately, Shutdown also closes it
			s.settle(0)
		}
	}
	deliverers.Wait()
	s.mu.Lock()
	w.end()
	s.concurrent = nil
	s.mu.Unlock()
}

func (w *concurrentRun) update(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// overdue reports a failure for each operation that should have ended. mu is held.
func (w *concurrentRun) overdue() {
	for _, b := range w.buffers {
		late := !b.deadline.IsZero() && !b.deadline.After(time.Now())
		if b.where == withTM && (late || b.ends == b.adds && b.ends > 0 || b.action.Queue == transport.MsgSend) {
			w.fail("a buffer is on %v yet, late %v, cancelled %v", b.action.Queue, late, b.ends == b.adds)
		}
	}
}

// deliverer is the event loop of a TM with synchronous delivery. It waits in both ways in turn.
func (w *concurrentRun) deliverer(m *tmModel) {
	c := m.real.Channel()
	for {
		wake := c.Wait()
		if m.real.Notify(c) != nil {
			return
		}
		<-wake
		_, _ = m.real.DeliverAll()
		if m.real.Wait(time.Time{}) != nil {
			return
		}
		_, _ = m.real.DeliverAll()
	}
}

// do performs an action of the given lane.
func (w *concurrentRun) do(lane int, d action) {
	w.mu.Lock()
	m, p := w.tms[d.Slot], w.pools[d.Slot/2]
	var b *bufferModel
	switch d.Kind {
	case "receive", "send", "passive", "active":
		b = w.choose(d.Which, func(b *bufferModel) bool {
			return b.pool == nil && b.host == m.host && b.owner == lane && b.where == withProgram
		})
	case "cancel":
		b = w.choose(d.Which, func(b *bufferModel) bool { return b.host == m.host && b.where == withTM })
	}
	w.mu.Unlock()
	switch d.Kind {
	case "pass":
		time.Sleep(time.Duration(d.Which%5) * calm / 4)
	case "yield":
		runtime.Gosched()
	case "stop":
		w.stop(m, d.Yes)
	case "length":
		if err := m.real.SetQueueLength(d.Max); err != nil {
			w.update(func() {
				if !isOne(err, syscall.EINVAL) || m.state == transport.StateStarted {
					w.fail("set queue length: %v", err)
				}
			})
		}
	case "get":
		w.borrow(p, d)
	case "cancel":
		if b != nil {
			w.cancel(m, b)
		}
	default:
		if b != nil {
			w.add(m, b, d, nil)
		}
	}
}

func (w *concurrentRun) stop(m *tmModel, abort bool) {
	w.update(func() {
		if m.state == transport.StateStarted {
			m.state = transport.StateStopping
			m.pendingEvents = append(m.pendingEvents, pendingEvent{next: transport.StateStopped})
		}
		m.aborted = m.aborted || abort
	})
	stop := m.real.Stop
	if abort {
		stop = m.real.Abort
	}
	err := stop()
	w.update(func() {
		if err == nil {
			w.stops[m.slot]++
		} else {
			w.expect("stop", err, syscall.EINVAL)
		}
	})
}

// cancel cancels a buffer. Its final event, or another add, may happen before the call.
func (w *concurrentRun) cancel(m *tmModel, b *bufferModel) {
	var adds int
	w.update(func() {
		b.cancelRequested = true
		adds = b.adds
	})
	if !m.real.Cancel(b.real) {
		return
	}
	w.update(func() {
		m.cancels++
		if b.adds == adds { // otherwise it is unknown which add was cancelled
			b.ends = adds
		}
	})
}

// borrow takes a buffer from a pool and puts it back.
func (w *concurrentRun) borrow(p *poolModel, d action) {
	r := p.real.Get(d.Colour)
	if r == nil {
		return
	}
	var b *bufferModel
	w.update(func() {
		b = w.pooled(p, r)
		if b.where != withPool {
			w.fail("pool %d has given a buffer that is %d", p.host, b.where)
		}
		b.where = withProgram
	})
	runtime.Gosched()
	w.bring(b, d.Colour)
}

// pooled returns the model of a buffer of pool p, which it creates if the buffer is unknown. mu is held.
func (w *concurrentRun) pooled(p *poolModel, r *transport.Buffer) *bufferModel {
	b := w.known[r]
	if b == nil {
		b = &bufferModel{real: r, host: p.host, size: r.Size(), pool: p, where: withPool}
		w.learn(b)
	}
	return b
}

// bring puts a buffer back into its pool.
func (w *concurrentRun) bring(b *bufferModel, colour uint32) {
	if int(colour) >= b.pool.config.Colours {
		colour = transport.AnyColour
	}
	w.update(func() { b.where = withPool })
	err := b.pool.real.Put(b.real, colour)
	w.update(func() { w.expect("put", err) })
}

// add adds a buffer to a TM, unless another goroutine was faster. If e is not nil, it uses e.Add where
// possible.
func (w *concurrentRun) add(m *tmModel, b *bufferModel, d action, e *transport.BufferEvent) {
	w.mu.Lock()
	if b.where != withProgram {
		w.mu.Unlock()
		return // another goroutine was faster
	}
	b.where, b.tm, b.received, b.parts = withTM, m, 0, nil
	var faults []syscall.Errno
	fault := func(is bool, errno syscall.Errno) {
		if is {
			faults = append(faults, errno)
		}
	}
	var said *announcement
	state := m.state
	m.state = transport.StateUndefined // makes prepare create no end point
	w.prepare(m, b, &d, fault)
	m.state = state
	if d.Queue >= transport.ActiveBulkRecv {
		said = w.aim(b, &d, false, fault)
	}
	b.action, b.logged = d, said
	b.adds++
	to := w.address(d.Which % 3)
	switch d.Queue {
	case transport.MsgSend:
		w.sent = append(w.sent, &sent{to: to, from: m.address, seed: b.seed, length: d.Length})
	case transport.ActiveBulkSend:
		if said != nil {
			w.sent = append(w.sent, &sent{to: said.address, bits: said.bits, seed: b.seed, length: d.Length})
		}
	}
	w.mu.Unlock()

	err := w.hand(m, b, d, to, e)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		if !isOne(err, faults...) && (!isOne(err, syscall.EINVAL) || m.state == transport.StateStarted) {
			w.fail("add to %v: %v", d.Queue, err)
		}
		b.adds--
		b.where = withProgram
		return
	}
	if len(faults) > 0 {
		w.fail("add to %v, though %v", d.Queue, faults)
	}
	m.adds[d.Queue]++
}

// hand calls Add, with an end point if the queue needs one.
func (w *concurrentRun) hand(m *tmModel, b *bufferModel, d action, to transport.Address, e *transport.BufferEvent) error {
	if d.Queue == transport.MsgSend {
		ep, err := m.real.EndPointAt(to)
		if err != nil {
			return err
		}
		defer ep.Put()
		b.real.EndPoint = ep
	}
	if d.Queue/2 == 1 {
		return w.handPassive(m, b, d)
	}
	if e != nil && d.Queue == transport.MsgRecv {
		return e.Add(b.real)
	}
	return m.real.Add(b.real)
}

// handPassive adds a passive buffer, and records its descriptor before an event can report the end of the
// operation.
func (w *concurrentRun) handPassive(m *tmModel, b *bufferModel, d action) error {
	w.mu.Lock() // so that no callback changes the descriptor
	defer w.mu.Unlock()
	err := m.real.Add(b.real)
	if err != nil {
		return err
	}
	b.bits, b.limit = matchBitsOf(b.real.Descriptor), b.size
	if d.Queue == transport.PassiveBulkSend {
		b.limit = d.Length
	}
	for _, x := range w.logged {
		if x.bits == b.bits && x.address == m.address {
			w.fail("match bits %#x for the second time", b.bits)
		}
	}
	w.logged = append(w.logged, announcement{bytes.Clone(b.real.Descriptor), m.address, d.Queue, b.bits, b.limit, b.seed})
	return nil
}

// event processes an event of a buffer: it checks the event, updates the model, and performs the action in
// action.Then.
func (w *concurrentRun) event(m *tmModel, e *transport.BufferEvent) {
	w.mu.Lock()
	b := w.known[e.Buffer]
	if p := m.pool; p != nil && (b == nil || b.pool == p) && e.Buffer.Pool() == p.real {
		b = w.pooled(p, e.Buffer)
		if b.where == withPool { // the TM has taken it from the pool
			b.where, b.tm, b.action, b.received, b.parts, b.deadline = withTM, m, m.how, 0, nil, time.Time{}
			b.adds++
		}
	}
	if b == nil || b.where != withTM || b.tm != m || b.finals >= b.adds {
		w.fail("TM %d: an event on %v that nothing led to", m.slot, e.Queue)
		w.mu.Unlock()
		return
	}
	w.compare(m, b, e)
	if !e.Final {
		w.mu.Unlock()
		return
	}
	b.finals++
	b.where = withProgram
	d := b.action
	e.Buffer.EndPoint = nil
	w.mu.Unlock()
	switch {
	case b.pool != nil:
		w.bring(b, d.Colour)
	case d.Then == thenReadd && d.Halves < 20:
		d.Halves += 7 // limits the number of repetitions
		w.add(m, b, d, nil)
	case d.Then == thenReaddLater && d.Halves < 20:
		d.Halves += 7
		w.add(m, b, d, e)
	case d.Then == thenCancel:
		w.mu.Lock()
		other := w.choose(d.Which, func(b *bufferModel) bool { return b.tm == m && b.where == withTM })
		w.mu.Unlock()
		if other != nil {
			w.cancel(m, other)
		}
	case d.Then == thenStop && d.Which%8 == 0:
		w.stop(m, d.Which%16 == 0)
	}
}

// compare checks that an event is possible, and updates the expected statistics. mu is held.
func (w *concurrentRun) compare(m *tmModel, b *bufferModel, e *transport.BufferEvent) {
	q, stats := b.action.Queue, &m.stats[b.action.Queue]
	if e.Queue != q {
		w.fail("an event of %v on %v", e.Queue, q)
	}
	want := transport.FlagRegistered
	if !e.Final {
		want |= transport.FlagQueued
	}
	if f := e.Buffer.Flags() &^ (transport.FlagCancelled | transport.FlagTimedOut); f != want {
		w.fail("flags %x in the callback, final %v", f, e.Final)
	}
	if e.Err != nil {
		stats.Failures++
		late := !b.deadline.IsZero() && !b.deadline.After(time.Now())
		switch {
		case isOne(e.Err, syscall.ECANCELED) && (b.cancelRequested || m.aborted):
		case isOne(e.Err, syscall.ETIMEDOUT) && late:
		default:
			w.fail("an event on %v: %v", q, e.Err)
		}
		if !e.Final || e.Length != 0 || e.EndPoint != nil {
			w.fail("an event with an error: final %v, %d bytes", e.Final, e.Length)
		}
		return
	}
	n := e.Length
	switch q {
	case transport.MsgRecv:
		w.compareMessage(m, b, e)
	case transport.PassiveBulkRecv:
		w.compareData(e, &sent{to: m.address, bits: b.bits})
	case transport.ActiveBulkRecv:
		got := make([]byte, e.Length)
		if e.CopyTo(got); e.Length != b.logged.size || !bytes.Equal(got, pattern(b.logged.seed, e.Length)) {
			w.fail("%d bytes were fetched, not %d of pattern %d", e.Length, b.logged.size, b.logged.seed)
		}
	default:
		n = b.action.Length
	}
	if q != transport.MsgRecv && !e.Final {
		w.fail("an event on %v that is not final", q)
	}
	stats.Successes++
	stats.Bytes += uint64(n)
	stats.MaxBytes = max(stats.MaxBytes, uint64(n))
}

// compareMessage checks the event of a received message. mu is held.
func (w *concurrentRun) compareMessage(m *tmModel, b *bufferModel, e *transport.BufferEvent) {
	b.received++
	used := e.Length
	for _, p := range b.parts {
		used += p.length
		if e.Offset < p.offset+p.length && p.offset < e.Offset+e.Length {
			w.fail("a message at %d, over one at %d", e.Offset, p.offset)
		}
	}
	b.parts = append(b.parts, outcome{offset: e.Offset, length: e.Length})
	full := b.received == b.action.Max || b.size-used < b.action.Min
	if full != e.Final || e.Length > b.action.Min || b.received != e.Buffer.MessagesReceived() {
		w.fail("message %d of %d, %d bytes, %d of %d used: final %v", b.received, b.action.Max, e.Length, used, b.size, e.Final)
	}
	if e.EndPoint == nil {
		w.fail("a message from nobody")
		return
	}
	w.compareData(e, &sent{to: m.address, from: e.EndPoint.Address()})
}

// compareData checks that the received data equals data that was sent to this address, and that it arrives
// for the first time. mu is held.
func (w *concurrentRun) compareData(e *transport.BufferEvent, like *sent) {
	got := make([]byte, e.Length)
	e.CopyTo(got)
	for _, x := range w.sent {
		if !x.come && x.to == like.to && x.from == like.from && x.bits == like.bits && x.length == e.Length &&
			bytes.Equal(got, pattern(x.seed, x.length)) {
			x.come = true
			return
		}
	}
	w.fail("%d bytes have come that nobody has sent, or for the second time", e.Length)
}
