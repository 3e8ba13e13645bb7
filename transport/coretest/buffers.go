package coretest

import (
	"bytes"
	"slices"
	"syscall"

	"github.com/lnetd/lnetd/transport"
)

// The cases of group C of transport-tests: registration, and buffers that cannot be added.
var bufferCases = []scenario{
	{name: "T019_Register", run: register},
	{name: "T019_Memory", run: memory},
	{name: "T019_OwnMemory", run: ownMemory},
	{name: "T019_TheSameMemory", run: sameMemory},
	{name: "T020_RegisterTwice", run: registerTwice},
	{name: "T030_Offset", run: offset},
}

// register checks which segments Register accepts, up to the limits of the domain.
//
// transport-tests C (19)
// transport 3.7 (3)
func register(s *stage) {
	d := s.domain(0)
	l := d.Limits()
	full := slices.Repeat([]int{l.BufferSize / l.Segments}, l.Segments)
	largest := slices.Repeat([]int{l.SegmentSize}, l.BufferSize/l.SegmentSize)
	ctx, cancel := s.context()
	defer cancel()
	for _, c := range []struct {
		name  string
		sizes []int
		want  error
	}{
		{"as many segments as may be", full, nil},
		{"as large segments as may be", largest, nil},
		{"one byte", []int{1}, nil},
		{"uneven segments", []int{1, 4000, 17}, nil},
		{"a segment too many", append([]int{1}, slices.Repeat([]int{1}, l.Segments)...), syscall.EINVAL},
		{"a segment too large", []int{l.SegmentSize + 1}, syscall.EINVAL},
		{"a byte too many", append([]int{1}, largest...), syscall.EFBIG},
		{"an empty segment", []int{10, 0, 10}, syscall.EINVAL},
		{"nothing", nil, syscall.EINVAL},
	} {
		b := transport.NewBuffer(s.segments(d, c.sizes...)...)
		s.want(c.name, d.Register(ctx, b), c.want)
		if c.want == nil {
			if b.Flags() != transport.FlagRegistered {
				s.t.Errorf("%s: flags %x", c.name, b.Flags())
			}
			s.must(d.Deregister(b))
		}
		if b.Flags() != 0 {
			s.t.Errorf("%s: flags %x, and it is not registered", c.name, b.Flags())
		}
	}
}

// memory checks buffers of Domain.Buffer, of several sizes: they are contiguous, zeroed, and gone after Free.
//
// transport 3.7 (3)
func memory(s *stage) {
	d := s.domain(0)
	ctx, cancel := s.context()
	defer cancel()
	for _, n := range []int{1, 4096, 4097, d.Limits().BufferSize} {
		b, err := d.Buffer(ctx, n)
		s.must(err)
		if b.Size() != n || len(b.Bytes()) != n || b.Flags() != transport.FlagRegistered {
			s.t.Errorf("a buffer of %d bytes has %d, in one piece %d, flags %x", n, b.Size(), len(b.Bytes()), b.Flags())
		}
		for i, x := range b.Bytes() {
			if x != 0 {
				s.t.Fatalf("byte %d of %d is %#x", i, n, x)
			}
		}
		guard(b)
		s.untouched(b, 0)
		if n == 4096 { // Free also deregisters, unless Deregister was called before
			s.must(d.Deregister(b))
		}
		s.want("close its domain", d.Close(), syscall.EBUSY)
		s.must(d.Free(b))
		if b.Flags() != 0 {
			s.t.Errorf("flags %x of what is free", b.Flags())
		}
	}
	for n, want := range map[int]error{0: syscall.EINVAL, d.Limits().BufferSize + 1: syscall.EFBIG} {
		_, err := d.Buffer(ctx, n)
		s.want("a buffer of a size that cannot be", err, want)
	}
	foreign := transport.NewBuffer(s.segments(d, 10)...)
	s.must(d.Register(ctx, foreign))
	s.want("free foreign memory", d.Free(foreign), syscall.EINVAL)
	s.must(d.Deregister(foreign))
}

// ownMemory moves bulk data between buffers in memory of the program: whole pages, parts of pages, and both.
// The program can use the memory before and after that, with its contents intact.
//
// transport 3.7 (3), 9.3
func ownMemory(s *stage) {
	a, b := s.pair()
	page := max(a.domain.Limits().PageSize, 4096)
	heap := func(n int) []byte { return make([]byte, n) } // large slices begin at a page
	for name, segments := range map[string]func() [][]byte{
		"whole pages":      func() [][]byte { return [][]byte{heap(16 * page)[:page], heap(16 * page)[page : 2*page]} },
		"a large slice":    func() [][]byte { return cut(heap(1<<20), a.domain.Limits().SegmentSize) },
		"parts of pages":   func() [][]byte { return [][]byte{heap(16 * page)[3:page], heap(500), heap(1)} },
		"pages and a part": func() [][]byte { return [][]byte{heap(16 * page)[:page], heap(16 * page)[:100]} },
	} {
		from, to := a.own(segments()), b.own(segments())
		for k, q := range []transport.QueueType{transport.PassiveBulkSend, transport.PassiveBulkRecv} {
			sender, receiver, activeQueue := from, to, transport.ActiveBulkRecv
			if q == transport.PassiveBulkRecv {
				sender, receiver, activeQueue = to, from, transport.ActiveBulkSend
			}
			pattern := make([]byte, from.Size())
			for i := range pattern {
				pattern[i] = byte(i*(k+3) + i/253)
			}
			sender.CopyIn(0, pattern)
			s.must(b.move(to, activeQueue, from.Size(), a.announce(from, q, from.Size())))
			b.expect(to)
			a.expect(from)
			s.same(name+", "+q.String(), receiver, pattern)
			if q == transport.PassiveBulkRecv {
				s.must(a.domain.Deregister(from))
				s.must(b.domain.Deregister(to))
				s.same(name+", deregistered", from, pattern)
				from.Segments()[0][0]++ // the program may write to it
			}
		}
	}
}

// own returns a registered buffer in memory of the program. The caller must deregister it.
func (m *machine) own(segments [][]byte) *transport.Buffer {
	s := m.stage
	s.t.Helper()
	ctx, cancel := s.context()
	defer cancel()
	b := transport.NewBuffer(segments...)
	s.must(m.domain.Register(ctx, b))
	b.Callbacks = &m.callbacks
	return b
}

// same checks that a buffer begins with the bytes want.
func (s *stage) same(what string, b *transport.Buffer, want []byte) {
	s.t.Helper()
	got := make([]byte, len(want))
	if b.CopyOut(0, got); !bytes.Equal(got, want) {
		s.t.Errorf("%s: other bytes", what)
	}
}

// cut divides memory into segments of n bytes.
func cut(memory []byte, n int) [][]byte { return slices.Collect(slices.Chunk(memory, n)) }

// sameMemory registers the same memory repeatedly, for one message each time.
//
// transport 3.7 (3)
func sameMemory(s *stage) {
	a, b := s.pair()
	to := b.buffer(100)
	memory := s.memory(a.domain, 100)
	for k := range 50 {
		memory[0] = byte(k)
		m := a.own([][]byte{memory[:10+k]})
		b.receive(to, 100, 1)
		a.send(m, 10+k, b)
		a.expect(m)
		if e := b.expect(to); e.length != 10+k || to.Segments()[0][0] != byte(k) {
			s.t.Errorf("message %d: %d bytes, the first %d", k, e.length, to.Segments()[0][0])
		}
		s.must(a.domain.Deregister(m))
	}
}

// registerTwice checks that a buffer cannot be registered twice, nor deregistered while it is queued.
//
// transport-tests C (20)
// transport 3.7 (1)-(2)
func registerTwice(s *stage) {
	m := s.machine(0)
	b := m.buffer(100)
	ctx, cancel := s.context()
	defer cancel()
	s.want("register twice", m.domain.Register(ctx, b), syscall.EBUSY)
	s.want("register elsewhere, too", s.domain(1).Register(ctx, b), syscall.EBUSY)
	if b.Flags() != transport.FlagRegistered {
		s.t.Errorf("flags %x", b.Flags())
	}
	m.receive(b, 100, 1)
	s.want("deregister while it is queued", m.domain.Deregister(b), syscall.EBUSY)
	m.cancel(b)
}

// offset checks that Add refuses a buffer whose Offset is not 0, on every queue.
//
// transport-tests C (30)
// transport 3.8 errors
func offset(s *stage) {
	a, b := s.pair()
	passive, active := a.buffer(100), b.buffer(100)
	ep, err := b.EndPointAt(a.Self().Address())
	s.must(err)
	defer ep.Put()
	for q, d := range map[transport.QueueType]transport.Descriptor{
		transport.MsgRecv: nil, transport.MsgSend: nil, transport.PassiveBulkRecv: nil, transport.PassiveBulkSend: nil,
		transport.ActiveBulkRecv: a.announce(passive, transport.PassiveBulkSend, 10),
	} {
		active.Queue, active.Descriptor, active.EndPoint = q, d, nil
		if q == transport.MsgSend {
			active.EndPoint = ep
		}
		active.Length, active.MinReceiveSize, active.MaxMessages = 10, 10, 1
		active.Offset = 1
		s.want(q.String()+" with an offset", b.Add(active), syscall.EINVAL)
	}
	a.cancel(passive)
	active.Queue, active.Descriptor = transport.ActiveBulkSend, a.announce(passive, transport.PassiveBulkRecv, 0)
	s.want("aSEND with an offset", b.Add(active), syscall.EINVAL)
	active.Offset = 0
	s.must(b.Add(active))
	b.expect(active)
	a.expect(passive)
}
