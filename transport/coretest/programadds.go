package coretest

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// add adds a buffer to a TM, possibly with a fault, checks the error, and updates the model. If later is not
// nil, it uses BufferEvent.Add of this event.
func (s *runner) add(m *tmModel, b *bufferModel, d action, later *transport.BufferEvent) {
	r := b.real
	var faults []syscall.Errno
	fault := func(is bool, errno syscall.Errno) {
		if is {
			faults = append(faults, errno)
		}
	}
	fault(b.where != withProgram, syscall.EBUSY)
	fault(m.state != transport.StateStarted, syscall.EINVAL)
	fault(b.host != m.host, syscall.EINVAL)
	var said *announcement
	var to *transport.EndPoint
	if b.where == withProgram {
		to = s.prepare(m, b, &d, fault)
		if d.Queue >= transport.ActiveBulkRecv {
			said = s.aim(b, &d, len(faults) > 0, fault)
		}
	}
	var err error
	if later != nil {
		err = later.Add(r)
	} else {
		err = m.real.Add(r)
	}
	if to != nil {
		to.Put()
	}
	s.expect("add to "+d.Queue.String(), err, faults...)
	if err == nil && len(faults) == 0 {
		s.added(m, b, d, said)
	} else if b.where == withProgram && d.Queue/2 == 1 && r.Descriptor != nil {
		s.fail("a descriptor, though add has failed")
	}
}

// prepare sets the fields of a buffer as d defines, including the fault. It calls fault for each condition
// under which the add must fail. The caller must drop the returned end point, if any.
func (s *runner) prepare(m *tmModel, b *bufferModel, d *action, fault func(bool, syscall.Errno)) *transport.EndPoint {
	r, f := b.real, d.Fault
	sends := d.Queue%2 == 1
	d.Min, d.Length = min(d.Min, b.size), min(d.Length, b.size)
	r.Queue, r.Callbacks, r.Length, r.Offset, r.EndPoint = d.Queue, &s.callbacks, d.Length, 0, nil
	r.MinReceiveSize, r.MaxMessages, r.Deadline = d.Min, d.Max, time.Time{}
	var to *transport.EndPoint
	if m.state == transport.StateStarted && (d.Queue == transport.MsgSend) != (f == faultEndPoint) {
		var err error
		to, err = m.real.EndPointAt(s.address(d.Which % 3))
		s.must(err)
		r.EndPoint = to
	}
	fault(f == faultEndPoint && d.Queue <= transport.MsgSend, syscall.EINVAL)
	switch f {
	case faultLength:
		r.Length = (b.size + 1) * (d.Which % 2)
		fault(sends, syscall.EINVAL)
	case faultOffset:
		r.Offset = 1
		fault(true, syscall.EINVAL)
	case faultCallback:
		r.Callbacks = &transport.Callbacks{}
		fault(true, syscall.EINVAL)
	case faultMin:
		r.MinReceiveSize = (b.size + 1) * (d.Which % 2)
		fault(d.Queue == transport.MsgRecv, syscall.EINVAL)
	case faultMax:
		r.MaxMessages = 0
		fault(d.Queue == transport.MsgRecv, syscall.EINVAL)
	case faultLate:
		r.Deadline = time.Now()
		fault(true, syscall.ETIME)
	}
	b.deadline = time.Time{}
	if d.Halves > 0 && f != faultLate {
		s.ticks++
		// Actions are performed at multiples of calm/2. Deadlines keep a distance from these.
		r.Deadline = time.Now().Add(time.Duration(d.Halves)*calm/2 + calm/4 + s.ticks*time.Microsecond)
		b.deadline = r.Deadline
	}
	guard(r)
	if sends {
		s.seeds++
		b.seed = s.seeds
		fill(r, b.seed, d.Length)
	}
	return to
}

// aim sets the descriptor of an active buffer, and calls fault for each expected error (transport 6.6). It
// returns the announcement that the descriptor belongs to, or nil if an error is certain.
func (s *runner) aim(b *bufferModel, d *action, certain bool, fault func(bool, syscall.Errno)) *announcement {
	r := b.real
	if len(s.logged) == 0 || d.Fault == faultDescriptor && d.Which%3 == 0 {
		r.Descriptor = nil
		fault(true, syscall.EINVAL)
		return nil
	}
	recent := s.logged[max(0, len(s.logged)-5):]
	said := recent[d.Which%len(recent)]
	r.Descriptor = bytes.Clone(said.descriptor)
	if d.Fault == faultDescriptor {
		if d.Which%3 == 1 {
			r.Descriptor = r.Descriptor[:47]
		} else {
			r.Descriptor[d.Which%48] ^= 0x10
		}
		fault(true, syscall.EINVAL)
		return nil
	}
	if certain {
		return nil // the other errors are checked before the descriptor
	}
	switch fetches := d.Queue == transport.ActiveBulkRecv; {
	case fetches != (said.queue == transport.PassiveBulkSend):
		fault(true, syscall.EPERM)
	case fetches && said.size > b.size, !fetches && d.Length > said.size:
		fault(true, syscall.EFBIG)
	}
	return &said
}

// added updates the model after buffer b was added to m successfully.
func (s *runner) added(m *tmModel, b *bufferModel, d action, said *announcement) {
	m.link(b, d)
	switch d.Queue {
	case transport.MsgSend:
		b.open = false
		b.coming = append(b.coming, outcome{final: true})
		if to := s.at(s.address(d.Which % 3)); to != nil {
			to.arrive(d.Length, b.seed, m.address)
		}
	case transport.PassiveBulkRecv, transport.PassiveBulkSend:
		s.announce(m, b, d)
	case transport.ActiveBulkRecv, transport.ActiveBulkSend:
		s.transfer(b, d, said)
	}
}

// announce checks and records the descriptor of a passive buffer (transport 6.4, 6.6).
func (s *runner) announce(m *tmModel, b *bufferModel, d action) {
	b.limit = b.size
	if d.Queue == transport.PassiveBulkSend {
		b.limit = d.Length
	}
	x := b.real.Descriptor
	if first := m.bits == 0; first && len(x) == 48 { // the first counter is arbitrary
		m.bits = transport.MakeMatchBits(m.address.TMID, transport.MatchBits(matchBitsOf(x)).Counter())
	} else {
		m.bits = m.bits.Next()
	}
	b.bits = uint64(m.bits)
	le := binary.LittleEndian
	if len(x) != 48 || matchBitsOf(x) != b.bits || le.Uint32(x[28:]) != uint32(d.Queue) || le.Uint64(x[32:]) != uint64(b.limit) {
		s.fail("descriptor %x of %v, match bits %#x, %d bytes", x, d.Queue, b.bits, b.limit)
		return
	}
	s.logged = append(s.logged, announcement{bytes.Clone(x), m.address, d.Queue, b.bits, b.limit, b.seed})
}

// matchBitsOf returns the match bits in a descriptor.
func matchBitsOf(d transport.Descriptor) uint64 {
	if len(d) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(d)
}

// transfer updates the model for active bulk: it finds the passive buffer that matches said, if any, and
// records the expected events of both buffers.
func (s *runner) transfer(b *bufferModel, d action, said *announcement) {
	fetches := d.Queue == transport.ActiveBulkRecv
	var passive *bufferModel
	if to := s.at(said.address); to != nil {
		for _, x := range to.queues[said.queue] {
			if x.open && x.bits == said.bits {
				passive = x
			}
		}
	}
	switch {
	case fetches && passive != nil && said.size <= passive.limit:
		passive.open, b.open = false, false
		passive.coming = append(passive.coming, outcome{final: true})
		b.coming = append(b.coming, outcome{final: true, length: said.size, seed: passive.seed, data: true})
	case fetches: // the peer never answers, so no event is expected
	default:
		b.open = false
		b.coming = append(b.coming, outcome{final: true})
		if passive != nil && d.Length <= passive.limit {
			passive.open = false
			passive.coming = append(passive.coming, outcome{final: true, length: d.Length, seed: b.seed, data: true})
		}
	}
}
