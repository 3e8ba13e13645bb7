package coretest

import (
	"context"
	"errors"
	"syscall"

	"github.com/lnetd/lnetd/transport"
)

// do performs an action of a calm program and updates the model. mu is held.
func (s *runner) do(d action) {
	s.due()
	m, p := s.tms[d.Slot], s.pools[d.Slot/2]
	switch d.Kind {
	case "new":
		if m == nil {
			s.open(d)
		}
		return
	case "grow":
		s.grow(p, min(d.Max, 6))
		return
	case "get":
		s.get(p, d.Colour)
		return
	case "put":
		if b := s.choose(d.Which, func(b *bufferModel) bool { return b.pool != nil }); b != nil {
			s.put(b, d.Colour)
		}
		return
	case "prune":
		s.prune(p)
		return
	case "pass":
		s.mu.Unlock()
		s.settle(d.Which % 9)
		s.mu.Lock()
		return
	}
	if m != nil {
		s.doWith(m, d)
	}
}

func (s *runner) doWith(m *tmModel, d action) {
	switch d.Kind {
	case "start":
		s.start(m, d)
	case "stop":
		s.stop(m, d.Yes)
	case "close":
		s.close(m)
	case "add", "receive", "send", "passive", "active":
		host := m.host
		if d.Fault == faultForeign {
			host = 1 - host
		}
		if b := s.choose(d.Which, func(b *bufferModel) bool { return b.host == host && (b.where == withProgram || d.Which%10 == 0) }); b != nil {
			s.add(m, b, d, nil)
		}
	case "cancel":
		if b := s.choose(d.Which, func(b *bufferModel) bool { return b.host == m.host && (b.where == withTM || d.Which%10 == 0) }); b != nil {
			s.cancel(m, b)
		}
	case "length":
		s.resize(m, min(d.Max-1, 5))
	case "colour":
		s.setColour(m, d.Colour)
	case "deliver":
		s.deliver(m)
	case "reset":
		if d.Yes {
			m.real.ResetStats()
			m.stats = [transport.QueueTypes]transport.Stats{}
		} else {
			m.real.ResetStats(d.Queue)
			m.stats[d.Queue] = transport.Stats{}
		}
	case "hold":
		s.hold(m, d)
	case "drop":
		s.drop(m)
	}
}

// choose returns one of the known buffers for which suits returns true, selected by which. It returns nil if
// no buffer suits.
func (s *runner) choose(which int, suits func(b *bufferModel) bool) *bufferModel {
	var all []*bufferModel
	for _, b := range s.buffers {
		if suits(b) {
			all = append(all, b)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[which%len(all)]
}

// open creates a TM and its model, and attaches a pool if d.Pooled is set.
func (s *runner) open(d action) {
	m := &tmModel{slot: d.Slot, host: d.Slot / 2, address: s.address(d.Slot), state: transport.StateInitialized, colour: d.Colour, length: 2}
	tm, err := s.domains[m.host].NewTM(func(e *transport.TMEvent) { s.state(m, e) })
	if !s.must(err) {
		return
	}
	m.real, s.tms[d.Slot] = tm, m
	if d.Yes {
		s.expect("deliver synchronously", tm.DeliverSynchronously())
		m.synchronous = true
	}
	s.expect("colour", tm.SetColour(d.Colour))
	if !d.Pooled {
		return
	}
	p := s.pools[m.host]
	size := p.config.Segments * p.config.SegmentSize
	how := transport.Provisioning{
		Callbacks: &s.callbacks, MinReceiveSize: min(d.Min, size), MaxMessages: d.Max, QueueLength: d.Which % 5,
	}
	s.expect("attach a pool of another domain", tm.AttachPool(s.pools[1-m.host].real, how), syscall.EINVAL)
	s.expect("attach pool", tm.AttachPool(p.real, how))
	s.expect("attach a second pool", tm.AttachPool(p.real, how), syscall.EINVAL)
	m.pool, m.how = p, action{Queue: transport.MsgRecv, Min: how.MinReceiveSize, Max: d.Max, Then: d.Then, Colour: d.Colour, Which: d.Which}
	if how.QueueLength > 0 {
		m.length = how.QueueLength
	}
}

// start starts a TM: correctly, or at an address that is invalid, in use, or on another host.
func (s *runner) start(m *tmModel, d action) {
	address := m.address.String()
	var errno, fate syscall.Errno
	wrong := d.Which
	if d.Yes {
		wrong = 0
	}
	switch wrong {
	case 1:
		address, errno = "no address", syscall.EINVAL
	case 2:
		a := m.address
		a.Portal = 0
		address, fate = a.String(), syscall.EINVAL
	case 3:
		a := m.address
		a.PID++
		address, fate = a.String(), syscall.ENOENT
	case 4, 5, 6, 7, 8:
		other := s.tms[(m.slot+1)%3]
		if other.up() && other.address.NID == m.address.NID {
			address, fate = other.address.String(), syscall.EADDRINUSE
		}
	}
	err := m.real.Start(address)
	switch {
	case m.state != transport.StateInitialized:
		s.expect("start again", err, syscall.EINVAL)
	case errno != 0:
		s.expect("start at no address", err, errno)
		m.state = transport.StateFailed
	default:
		s.expect("start", err)
		m.state = transport.StateStarting
		next := transport.StateStarted
		if fate != 0 {
			next = transport.StateFailed
		}
		m.pendingEvents = append(m.pendingEvents, pendingEvent{next, fate})
	}
}

func (s *runner) stop(m *tmModel, abort bool) {
	stop := m.real.Stop
	if abort {
		stop = m.real.Abort
	}
	err := stop()
	if m.state < transport.StateInitialized || m.state > transport.StateStarted {
		s.expect("stop", err, syscall.EINVAL)
		return
	}
	s.expect("stop", err)
	m.stop(abort)
}

// expireDeadline ends the buffers of a TM that was stopped with Stop, by a Shutdown whose context has ended.
func (s *runner) expireDeadline(m *tmModel) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if m.queued() > 0 {
		s.expect("shut down, without waiting", errnoOf(m.real.Shutdown(ctx)), syscall.EINTR)
	}
	m.abort()
}

// errnoOf returns EINTR if err is the error of a cancelled context, and otherwise err.
func errnoOf(err error) error {
	if errors.Is(err, context.Canceled) {
		return syscall.EINTR
	}
	return err
}

func (s *runner) close(m *tmModel) {
	switch m.state {
	case transport.StateInitialized, transport.StateStopped, transport.StateFailed:
	default:
		s.expect("close what runs", m.real.Close(), syscall.EINVAL)
		return
	}
	if len(m.held) > 0 {
		s.expect("close with end points", m.real.Close(), syscall.EBUSY)
		return
	}
	s.expect("close", m.real.Close())
	s.expect("close again", m.real.Close(), syscall.EINVAL)
	s.tms[m.slot] = nil
}

// cancel calls Cancel for a buffer, whether it is queued or not, and updates the model.
func (s *runner) cancel(m *tmModel, b *bufferModel) {
	got, want := m.real.Cancel(b.real), b.tm == m
	if got != want {
		s.fail("cancel: %v, not %v", got, want)
	}
	if want {
		m.stats[b.action.Queue].Cancels++
		b.end(false)
	}
}

func (s *runner) resize(m *tmModel, n int) {
	err := m.real.SetQueueLength(n)
	if n < 1 || m.state < transport.StateInitialized || m.state > transport.StateStarted {
		s.expect("set queue length", err, syscall.EINVAL)
		return
	}
	s.expect("set queue length", err)
	m.length = n
	m.provision()
}

func (s *runner) setColour(m *tmModel, colour uint32) {
	err := m.real.SetColour(colour)
	if m.state < transport.StateInitialized || m.state > transport.StateStarted {
		s.expect("set colour", err, syscall.EINVAL)
		return
	}
	s.expect("set colour", err)
	m.colour = colour
}

// deliver calls DeliverAll, and checks its result and the number of callbacks.
func (s *runner) deliver(m *tmModel) {
	fine := m.synchronous && m.up()
	before := m.reported
	m.delivering = true
	s.mu.Unlock()
	n, err := m.real.DeliverAll()
	s.mu.Lock()
	m.delivering = false
	if !fine {
		s.expect("deliver", err, syscall.EINVAL)
		return
	}
	s.expect("deliver", err)
	if n != m.reported-before {
		s.fail("delivered %d events, but called %d callbacks", n, m.reported-before)
	}
	if pending := m.pending(); pending > 0 && s.concurrent == nil {
		s.fail("TM %d has not delivered %d events", m.slot, pending)
	}
}

// hold acquires a reference to an end point, which drop releases.
func (s *runner) hold(m *tmModel, d action) {
	e, err := m.real.EndPointAt(s.address(d.Which % 3))
	if m.state != transport.StateStarted {
		s.expect("end point", err, syscall.EINVAL)
		return
	}
	s.expect("end point", err)
	m.held = append(m.held, e)
}

func (s *runner) drop(m *tmModel) {
	if n := len(m.held); n > 0 {
		m.held[n-1].Put()
		m.held = m.held[:n-1]
	}
}

// grow adds n buffers to a pool, one by one.
func (s *runner) grow(p *poolModel, n int) {
	made, err := p.real.Provision(context.Background(), n)
	if !s.must(err) || made != n {
		s.fail("made %d buffers, not %d", made, n)
	}
	low := p.low
	for range n {
		p.out++
		s.hasPut(p, &bufferModel{host: p.host, size: p.config.Segments * p.config.SegmentSize, pool: p}, transport.AnyColour)
	}
	if p.low > low { // waiting TMs have taken buffers: Low is called at most once, at the end
		p.low = low
		if len(p.free) < p.threshold {
			p.low++
		}
	}
}

// hasPut updates the model after buffer b was put into pool p.
func (s *runner) hasPut(p *poolModel, b *bufferModel, colour uint32) {
	p.out--
	p.put(b, colour)
	if s.concurrent != nil {
		return
	}
	// The specification does not define the order in which TMs are served, so the real deficits show which TM
	// was served. A TM that was not served may lack fewer buffers than its deficit, if the program has added
	// buffers to its queue.
	for _, sure := range []bool{true, false} {
		for _, m := range s.tms {
			if m != nil && m.pool == p && m.deficit > 0 && (m.real.Deficit() < m.deficit || !sure && len(p.free) > 0) {
				m.provision()
			}
		}
	}
}

func (s *runner) get(p *poolModel, colour uint32) *bufferModel {
	r, b := p.real.Get(colour), p.get(colour)
	switch {
	case r == nil && b == nil:
		return nil
	case r == nil || b == nil:
		s.fail("pool %d: get gives %v, not %v", p.host, r != nil, b != nil)
		return nil
	}
	s.bind(r, b)
	if r.Pool() != p.real {
		s.fail("a buffer of pool %d is not its own", p.host)
	}
	if b.real != r {
		return nil
	}
	return b
}

func (s *runner) put(b *bufferModel, colour uint32) {
	p := b.pool
	err := p.real.Put(b.real, colour)
	var faults []syscall.Errno
	if colour != transport.AnyColour && colour >= uint32(p.config.Colours) {
		faults = append(faults, syscall.EINVAL)
	}
	if b.where != withProgram {
		faults = append(faults, syscall.EBUSY)
	}
	if b.where == withProgram && b.real.EndPoint != nil {
		faults = append(faults, syscall.EINVAL)
		b.real.EndPoint = nil
	}
	s.expect("put", err, faults...)
	if len(faults) == 0 {
		s.hasPut(p, b, colour)
	}
}

func (s *runner) prune(p *poolModel) {
	got, want := p.real.Prune(), len(p.free) > p.threshold
	if got != want {
		s.fail("prune: %v with %d free, threshold %d", got, len(p.free), p.threshold)
	}
	if !want {
		return
	}
	b := p.free[0]
	p.free = p.free[1:]
	if b.real == nil {
		return
	}
	if n := b.real.Size(); n != 0 {
		s.fail("the wrong buffer was pruned: one of %d bytes is there yet", n)
	}
	delete(s.known, b.real)
	for i := range s.buffers {
		if s.buffers[i] == b {
			s.buffers = append(s.buffers[:i], s.buffers[i+1:]...)
			break
		}
	}
}
