package coretest

import (
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// The cases of group G of transport-tests: messages.
var messageCases = []scenario{
	{name: "T058_Cancel", run: cancelReceive},
	{name: "T059_Sizes", run: sizes},
	{name: "T062_SharedMemory", hosts: 3, run: sharedMemory},
	{name: "Loopback", run: loopback},
	{name: "ToItself", run: toItself},
	{name: "Unread", run: unreadMessages},
}

// cancelReceive cancels a receive buffer, and checks that it can be added again.
//
// transport-tests G (58)
// transport 3.8 del, 6.10
func cancelReceive(s *stage) {
	m := s.machine(0)
	b := m.buffer(100)
	b.Queue, b.Callbacks = transport.MsgRecv, &m.callbacks
	if m.Cancel(b) {
		s.t.Error("a buffer that was never added is queued")
	}
	m.stats(transport.MsgRecv, 0, 0, 0, 0)
	m.receive(b, 100, 1)
	if b.Flags() != transport.FlagRegistered|transport.FlagQueued || m.QueueLength(transport.MsgRecv) != 1 {
		s.t.Errorf("flags %x, queue length %d", b.Flags(), m.QueueLength(transport.MsgRecv))
	}
	s.want("add again", m.Add(b), syscall.EBUSY)
	m.cancel(b)
	m.stats(transport.MsgRecv, 1, 1, 0, 1)
	m.receive(b, 100, 1) // the buffer can be used again
	m.cancel(b)
	m.none(b)
}

// sizes sends messages of several lengths, and checks events and statistics.
//
// transport-tests G (59)
// transport 3.12 (4)
func sizes(s *stage) {
	a, b := s.pair()
	var total, largest uint64
	list := []int{1, 4095, 4096, 4097, 65536, s.h.Limits.BufferSize}
	for i, n := range list {
		for _, room := range []int{n, s.h.Limits.BufferSize} {
			in, out := a.buffer(room), b.buffer(n)
			fill(out, i, n)
			a.receive(in, n, 1)
			b.send(out, n, a)
			e := a.expect(in)
			if e.length != n || e.offset != 0 || e.queue != transport.MsgRecv || e.received != 1 {
				s.t.Errorf("%d bytes: %v", n, &e)
			}
			s.check(in, 0, n, i)
			s.untouched(in, n)
			if s.h.Bubble == nil && !strings.Contains(e.time.String(), " m=") {
				s.t.Errorf("%d bytes: the time %v is none of the monotonic clock", n, e.time)
			}
			if e := b.expect(out); e.length != 0 || e.offset != 0 || e.queue != transport.MsgSend {
				s.t.Errorf("%d bytes: %v", n, &e)
			}
			total, largest = total+uint64(n), max(largest, uint64(n))
		}
	}
	for _, got := range []transport.Stats{a.Stats(transport.MsgRecv), b.Stats(transport.MsgSend)} {
		n := uint64(2 * len(list))
		if got.Adds != n || got.Successes != n || got.Failures != 0 || got.Bytes != total || got.MaxBytes != largest {
			s.t.Errorf("%+v; %d bytes were moved in %d messages", got, total, n)
		}
	}
}

// sharedMemory sends three buffers with the same memory to three TMs at the same time.
//
// transport-tests G (62)
func sharedMemory(s *stage) {
	from := s.machine(0)
	memory := s.segments(from.domain, 3000, 1000)
	hosts := len(s.net.Hosts)
	var to [3]*machine
	var in, out [3]*transport.Buffer
	for k := range to {
		to[k] = s.machine((k + 1) % hosts)
		in[k] = to[k].buffer(4000)
		to[k].receive(in[k], 4000, 1)
		out[k] = from.register(transport.NewBuffer(memory...))
	}
	fill(out[0], 7, 4000)
	for k := range to {
		from.send(out[k], 4000, to[k])
	}
	for k := range to {
		to[k].expect(in[k])
		s.check(in[k], 0, 4000, 7)
		from.expect(out[k])
	}
}

// loopback checks that a TM can send to another TM on its host at 0@lo, whatever their NIDs are.
func loopback(s *stage) {
	a, b := s.machine(0), s.machine(0)
	in, out := a.buffer(5000), b.buffer(5000)
	fill(out, 3, 5000)
	to := a.Self().Address()
	to.NID = lnet.LoopbackNID
	a.receive(in, 5000, 1)
	b.sendTo(out, 5000, to)
	if e := a.expect(in); e.sender.TMID != b.Self().Address().TMID {
		s.t.Errorf("the sender is %v", e.sender)
	}
	s.check(in, 0, 5000, 3)
	b.expect(out)
}

// toItself checks that a TM can send a message to itself, and move bulk between its own buffers.
func toItself(s *stage) {
	m := s.machine(0)
	in, out := m.buffer(100), m.buffer(100)
	fill(out, 1, 100)
	m.receive(in, 100, 1)
	m.send(out, 100, m)
	if e := m.expect(in); e.sender != m.Self().Address() {
		s.t.Errorf("the sender is %v", e.sender)
	}
	m.expect(out)
	s.check(in, 0, 100, 1)
	fill(out, 2, 100)
	s.must(m.move(in, transport.ActiveBulkRecv, 0, m.announce(out, transport.PassiveBulkSend, 100)))
	m.expect(in)
	m.expect(out)
	s.check(in, 0, 100, 2)
}
