package coretest

import (
	"syscall"

	"github.com/lnetd/lnetd/transport"
)

// The cases of group H of transport-tests: several messages in one buffer.
var severalCases = []scenario{
	{name: "T068_FourMessages", run: fourMessages},
	{name: "T069_TwoBuffers", run: twoBuffers},
	{name: "T070_AcrossSegments", run: acrossSegments},
	{name: "TooLittleRoom", run: tooLittleRoom},
	{name: "CancelledInBetween", run: cancelledInBetween},
}

// arrives waits for a message in buffer b, and checks its event and contents. number is the expected value of
// MessagesReceived.
func (m *machine) arrives(b *transport.Buffer, off, n, seed int, final bool, number int) {
	s := m.stage
	s.t.Helper()
	e := m.next(b)
	flags := transport.FlagRegistered
	if !final {
		flags |= transport.FlagQueued
	}
	if e.err != nil || e.final != final || e.flags != flags || e.offset != off || e.length != n || e.received != number {
		s.t.Fatalf("%v; not %d bytes at %d, final %v, message %d", &e, n, off, final, number)
	}
	s.check(b, off, n, seed)
}

// sends fills a buffer with the seed's pattern, sends n bytes of it, and waits for the final event.
func (m *machine) sends(b *transport.Buffer, seed, n int, to *machine) {
	m.stage.t.Helper()
	fill(b, seed, n)
	m.send(b, n, to)
	m.expect(b)
}

// fourMessages receives four messages in one buffer, which ends after the fourth.
//
// transport-tests H (68)
// transport 3.11 (2)-(4)
// r.M0.net.xprt.lnet.multiple-messages-in-buffer
func fourMessages(s *stage) {
	a, b := s.pair()
	in, out := a.buffer(65536), b.buffer(1000)
	const n, least = 1000, 3000
	a.receive(in, least, 4)
	for i := range 4 {
		b.sends(out, i, n, a)
		a.arrives(in, i*n, n, i, i == 3, i+1)
	}
	s.untouched(in, 4*n)
	for i := range 4 {
		s.check(in, i*n, n, i) // earlier messages are unchanged
	}
	a.stats(transport.MsgRecv, 1, 0, 4, 0)
	a.receive(in, least, 4)
	if in.MessagesReceived() != 0 {
		s.t.Errorf("%d messages were received since it was added", in.MessagesReceived())
	}
	b.sends(out, 9, n, a)
	a.arrives(in, 0, n, 9, false, 1)
}

// twoBuffers checks that messages use the receive buffers in the order of their adds.
//
// transport-tests H (69)
// transport 6.7 (4)
func twoBuffers(s *stage) {
	a, b := s.pair()
	n := a.domain.Limits().SegmentSize + 500
	first, second, out := a.buffer(3*n), a.buffer(3*n), b.buffer(n)
	a.receive(first, n, 2)
	a.receive(second, n, 2)
	for i := range 4 {
		b.sends(out, i, n, a)
		a.arrives([]*transport.Buffer{first, second}[i/2], i%2*n, n, i, i%2 == 1, i%2+1)
	}
	a.stats(transport.MsgRecv, 2, 0, 4, 0)
}

// acrossSegments receives messages that cross the boundaries of segments.
//
// transport-tests H (70)
// transport 6.12
func acrossSegments(s *stage) {
	a, b := s.pair()
	in, out := a.pieces(1000, 4096, 1, 2903), b.pieces(700, 1, 1800)
	a.receive(in, 2501, 100)
	off := 0
	for i, n := range []int{999, 2, 1, 2501, 700, 1300} {
		b.sends(out, i, n, a)
		off += n
		a.arrives(in, off-n, n, i, 8000-off < 2501, i+1)
	}
	s.untouched(in, off)
}

// tooLittleRoom checks that a buffer ends when its free space is less than MinReceiveSize, and that the next
// message uses the next buffer.
//
// transport 3.11 (1)-(2)
func tooLittleRoom(s *stage) {
	a, b := s.pair()
	first, second, out := a.buffer(1000), a.buffer(1000), b.buffer(400)
	a.receive(first, 400, 100)
	a.receive(second, 400, 100)
	b.sends(out, 1, 300, a)
	a.arrives(first, 0, 300, 1, false, 1)
	b.sends(out, 2, 300, a) // 400 bytes are left
	a.arrives(first, 300, 300, 2, false, 2)
	b.sends(out, 3, 1, a)
	a.arrives(first, 600, 1, 3, true, 3)
	b.sends(out, 4, 400, a)
	a.arrives(second, 0, 400, 4, false, 1)
}

// cancelledInBetween cancels a buffer that has received a message. The message is kept, and the final event
// has length 0.
//
// transport 6.10
func cancelledInBetween(s *stage) {
	a, b := s.pair()
	in, out := a.buffer(1000), b.buffer(100)
	a.receive(in, 100, 10)
	b.sends(out, 1, 100, a)
	a.arrives(in, 0, 100, 1, false, 1)
	if !a.Cancel(in) {
		s.t.Error("it is not queued")
	}
	if e := a.expectError(in, syscall.ECANCELED); e.length != 0 || e.offset != 0 || e.received != 1 {
		s.t.Errorf("%v", &e)
	}
	s.check(in, 0, 100, 1)
	a.stats(transport.MsgRecv, 1, 1, 1, 1)
}
