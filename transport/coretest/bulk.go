package coretest

import (
	"bytes"
	"encoding/binary"
	"syscall"

	"github.com/lnetd/lnetd/transport"
)

// The cases of group I of transport-tests: bulk.
var bulkCases = []scenario{
	{name: "T073_Descriptors", run: descriptors},
	{name: "T074_Fetch", run: fetch},
	{name: "T075_Fill", run: fillBulk},
	{name: "T076_TooLong", run: tooLong},
	{name: "T077_WrongDirection", run: wrongDirection},
	{name: "T078_Counters", run: counters},
	{name: "T079_Megabyte", run: megabyte},
	{name: "Malformed", run: malformed},
	{name: "OutOfOrder", run: outOfOrder},
}

// descriptors checks the length of descriptors, and that each Add creates a new one.
//
// transport-tests I (73)
// transport 3.15 (3), 6.6 (1)
func descriptors(s *stage) {
	m := s.machine(0)
	for _, q := range []transport.QueueType{transport.PassiveBulkRecv, transport.PassiveBulkSend} {
		b := m.buffer(5000)
		d := m.announce(b, q, 4000)
		if len(d) > m.domain.Limits().DescriptorSize || !m.Self().Address().NID.IsLarge() && len(d) != 48 {
			s.t.Errorf("a descriptor of %d bytes", len(d))
		}
		m.cancel(b)
		if !bytes.Equal(b.Descriptor, d) {
			s.t.Errorf("%v: the descriptor has gone", q)
		}
		m.stats(q, 1, 1, 0, 1)
		if again := m.announce(b, q, 4000); bytes.Equal(again, d) {
			s.t.Errorf("%v: the descriptor is the same as before", q)
		}
		m.cancel(b)
	}
}

// moved checks the statistics of a queue on which a single buffer was added and n bytes were moved.
func (m *machine) moved(q transport.QueueType, n int) {
	m.stage.t.Helper()
	m.stats(q, 1, 0, 1, 0)
	if got := m.Stats(q); got.Bytes != uint64(n) || got.MaxBytes != uint64(n) {
		m.stage.t.Errorf("%v: %+v; %d bytes were moved", q, got, n)
	}
}

// fetch reads a buffer of a peer that is shorter than the own buffer.
//
// transport-tests I (74)
func fetch(s *stage) {
	a, b := s.pair()
	passive, active := a.buffer(6000), b.buffer(9000)
	fill(passive, 1, 5000)
	guard(active)
	s.must(b.move(active, transport.ActiveBulkRecv, 0, a.announce(passive, transport.PassiveBulkSend, 5000)))
	if e := b.expect(active); e.length != 5000 || e.offset != 0 {
		s.t.Errorf("%v", &e)
	}
	a.expect(passive)
	s.check(active, 0, 5000, 1)
	s.untouched(active, 5000)
	a.moved(transport.PassiveBulkSend, 5000)
	b.moved(transport.ActiveBulkRecv, 5000)
}

// fillBulk writes to a buffer of a peer that is longer than the data.
//
// transport-tests I (75)
func fillBulk(s *stage) {
	a, b := s.pair()
	passive, active := a.buffer(8192), b.buffer(4000)
	guard(passive)
	fill(active, 2, 4000)
	s.must(b.move(active, transport.ActiveBulkSend, 3000, a.announce(passive, transport.PassiveBulkRecv, 0)))
	if e := a.expect(passive); e.length != 3000 || e.offset != 0 {
		s.t.Errorf("%v", &e)
	}
	b.expect(active)
	s.check(passive, 0, 3000, 2)
	s.untouched(passive, 3000)
	a.moved(transport.PassiveBulkRecv, 3000)
	b.moved(transport.ActiveBulkSend, 3000)
}

// tooLong checks that active bulk is refused if the data would not fit.
//
// transport-tests I (76)
func tooLong(s *stage) {
	a, b := s.pair()
	passive, active := a.buffer(3000), b.buffer(3001)
	d := a.announce(passive, transport.PassiveBulkRecv, 0)
	s.want("fill with too much", b.move(active, transport.ActiveBulkSend, 3001, d), syscall.EFBIG)
	fill(active, 1, 3000)
	s.must(b.move(active, transport.ActiveBulkSend, 3000, d))
	a.expect(passive)
	b.expect(active)
	s.check(passive, 0, 3000, 1)

	small := b.buffer(2999)
	d = a.announce(passive, transport.PassiveBulkSend, 3000)
	s.want("fetch too much", b.move(small, transport.ActiveBulkRecv, 0, d), syscall.EFBIG)
	s.must(b.move(active, transport.ActiveBulkRecv, 0, d))
	a.expect(passive)
	b.expect(active)
	b.none(small)
	b.stats(transport.ActiveBulkRecv, 1, 0, 1, 0)
}

// wrongDirection checks that active bulk is refused with a descriptor for the other direction.
//
// transport-tests I (77)
func wrongDirection(s *stage) {
	a, b := s.pair()
	passive, active := a.buffer(100), b.buffer(100)
	d := a.announce(passive, transport.PassiveBulkSend, 100)
	s.want("fill what is to be fetched", b.move(active, transport.ActiveBulkSend, 100, d), syscall.EPERM)
	a.cancel(passive)
	d = a.announce(passive, transport.PassiveBulkRecv, 100)
	s.want("fetch what is to be filled", b.move(active, transport.ActiveBulkRecv, 100, d), syscall.EPERM)
	a.cancel(passive)
	b.none(active)
}

// malformed checks that malformed descriptors are refused, and that the buffer can be used after that.
//
// transport 6.6 (2)
func malformed(s *stage) {
	a, b := s.pair()
	passive, active := a.buffer(100), b.buffer(100)
	d := a.announce(passive, transport.PassiveBulkSend, 100)
	damaged := bytes.Clone(d)
	damaged[3] ^= 1
	for _, wrong := range []transport.Descriptor{nil, d[:len(d)-1], append(bytes.Clone(d), 0), damaged} {
		s.want("a malformed descriptor", b.move(active, transport.ActiveBulkRecv, 0, wrong), syscall.EINVAL)
	}
	s.must(b.move(active, transport.ActiveBulkRecv, 0, d))
	b.expect(active)
	a.expect(passive)
	b.stats(transport.ActiveBulkRecv, 1, 0, 1, 0)
}

// counters checks that successive passive buffers have successive match bits.
//
// transport-tests I (78)
// transport 6.4
func counters(s *stage) {
	m := s.machine(0)
	if m.Self().Address().NID.IsLarge() {
		return // descriptors with a large NID have another layout
	}
	var last transport.MatchBits
	for range 3 {
		b := m.buffer(100)
		bits := transport.MatchBits(binary.LittleEndian.Uint64(m.announce(b, transport.PassiveBulkRecv, 0)))
		if bits.TMID() != m.Self().Address().TMID || bits.Counter() == 0 || last != 0 && bits != last.Next() {
			s.t.Errorf("match bits %#x after %#x", bits, last)
		}
		last = bits
		m.cancel(b)
	}
}

// megabyte moves buffers of maximum size in both directions.
//
// transport-tests I (79)
func megabyte(s *stage) {
	a, b := s.pair()
	n := s.h.Limits.BufferSize
	passive, active := a.buffer(n), b.buffer(n)
	fill(passive, 1, n)
	guard(active)
	s.must(b.move(active, transport.ActiveBulkRecv, 0, a.announce(passive, transport.PassiveBulkSend, n)))
	b.expect(active)
	a.expect(passive)
	s.check(active, 0, n, 1)
	fill(active, 2, n)
	s.must(b.move(active, transport.ActiveBulkSend, n, a.announce(passive, transport.PassiveBulkRecv, 0)))
	b.expect(active)
	a.expect(passive)
	s.check(passive, 0, n, 2)
}

// outOfOrder announces many buffers and moves them in another order. Each descriptor identifies its own
// buffer while others wait. After a buffer has ended, its descriptor matches no other buffer.
//
// transport 6.4
func outOfOrder(s *stage) {
	const count = 150
	a, b := s.pair()
	var passive [count]*transport.Buffer
	var announced [count]transport.Descriptor
	for i := range passive {
		passive[i] = a.buffer(100)
		fill(passive[i], i, 100)
		q := transport.PassiveBulkSend
		if i%3 == 0 {
			q = transport.PassiveBulkRecv
			guard(passive[i])
		}
		announced[i] = a.announce(passive[i], q, 100)
	}
	active := b.buffer(100)
	for k := range count {
		i := k * 67 % count // selects each buffer once
		if i%3 == 0 {
			fill(active, i, 100)
			s.must(b.move(active, transport.ActiveBulkSend, 100, announced[i]))
		} else {
			s.must(b.move(active, transport.ActiveBulkRecv, 0, announced[i]))
		}
		b.expect(active)
		a.expect(passive[i])
		s.check(active, 0, 100, i)
		s.check(passive[i], 0, 100, i)
	}
	waits := a.buffer(100)
	a.announce(waits, transport.PassiveBulkRecv, 0)
	guard(waits)
	if !s.h.Strict {
		s.must(b.move(active, transport.ActiveBulkSend, 100, announced[0]))
		b.expect(active)
		s.waitForLosses()
	}
	a.none(waits)
	s.untouched(waits, 0)
}
