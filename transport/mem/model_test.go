package mem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// A simple model of TMs on a network in memory (transport 3.8, 6.7 to 6.10). All TMs deliver synchronously,
// so that only actions of the test have effects.

// modelBuffer is the model of a buffer.
type modelBuffer struct {
	*transport.Buffer
	name   int
	home   int // host
	at     *modelTM
	ended  bool // its final event is expected
	offset int
	left   int // number of messages that it may still receive
	// For passive bulk.
	counter uint64
	memory  []byte // expected contents
}

// modelTM is the model of a TM: waiting buffers in the Core, and the events that DeliverAll must deliver.
type modelTM struct {
	*transport.TransferMachine
	number   int
	address  transport.Address
	counter  uint64
	receives []*modelBuffer
	passive  []*modelBuffer
	lost     []*modelBuffer
	events   []string
	got      []string
	stats    [transport.QueueTypes]transport.Stats
}

// queues are the choices of random tests, with a preference for messages.
var queues = []transport.QueueType{
	transport.MsgRecv, transport.MsgRecv, transport.MsgRecv, transport.MsgSend, transport.MsgSend, transport.MsgSend,
	transport.PassiveBulkRecv, transport.PassiveBulkSend, transport.ActiveBulkRecv, transport.ActiveBulkSend,
}

// announcement is a descriptor that may be used at any time, and its contents.
type announcement struct {
	descriptor transport.Descriptor
	number     int // of the TM
	counter    uint64
	queue      transport.QueueType
	size       int
}

type randomTest struct {
	t        *rapid.T
	domains  [2]*transport.Domain
	tms      []*modelTM // nil if stopped
	buffers  []*modelBuffer
	received []announcement
	messages int
}

func describe(b int, q transport.QueueType, final bool, err error, length, offset int, sender string) string {
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		return err.Error()
	}
	return fmt.Sprintf("buffer %d on %v: final %v, %v, %d at %d of %s", b, q, final, int(errno), length, offset, sender)
}

func (s *randomTest) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// start starts TM number k, on host k%2.
func (s *randomTest) start(k int) {
	m := &modelTM{number: k, address: at([]lnet.NID{nidA, nidB}[k%2], 34, uint16(k+1))}
	var err error
	m.TransferMachine, err = s.domains[k%2].NewTM(func(*transport.TMEvent) {})
	s.must(err)
	s.must(m.DeliverSynchronously())
	s.must(m.Start(m.address.String()))
	s.must(m.Await(context.Background(), transport.StateStarted))
	s.tms[k] = m
}

// receive is the callback of all buffers.
func (s *randomTest) receive(e *transport.BufferEvent) {
	sender := ""
	if e.EndPoint != nil {
		sender = e.EndPoint.String()
	}
	name := e.Buffer.Data.(int)
	m := s.buffers[name].at
	m.got = append(m.got, describe(name, e.Queue, e.Final, e.Err, e.Length, e.Offset, sender))
	if e.Final {
		s.buffers[name].at = nil
	}
}

// expect adds an expected event of b to m.
func (s *randomTest) expect(m *modelTM, b *modelBuffer, final bool, err error, length, offset int, sender string) {
	m.events = append(m.events, describe(b.name, b.Queue, final, err, length, offset, sender))
	b.ended = final
	st := &m.stats[b.Queue]
	if err != nil {
		st.Failures++
		return
	}
	n := length
	if b.Queue == transport.MsgSend || b.Queue == transport.PassiveBulkSend || b.Queue == transport.ActiveBulkSend {
		n = b.Length
	}
	st.Successes++
	st.Bytes += uint64(n)
	st.MaxBytes = max(st.MaxBytes, uint64(n))
}

func remove(list []*modelBuffer, b *modelBuffer) []*modelBuffer {
	return slices.DeleteFunc(list, func(x *modelBuffer) bool { return x == b })
}

// add adds b to a queue of m, in the model and in reality.
func (s *randomTest) add(m *modelTM, b *modelBuffer, q transport.QueueType) {
	t := s.t
	size := b.Size()
	queued := b.at != nil
	if !queued {
		b.Queue, b.EndPoint = q, nil
		b.Length, b.MinReceiveSize = min(size, 4), min(size, 8)
		b.MaxMessages = rapid.IntRange(0, 5).Draw(t, "messages")
		if rapid.IntRange(0, 3).Draw(t, "other sizes") == 0 {
			b.Length = rapid.IntRange(0, size+1).Draw(t, "length")
			b.MinReceiveSize = rapid.IntRange(0, size+1).Draw(t, "least")
		}
		s.messages++
		if q == transport.MsgSend || q == transport.PassiveBulkSend || q == transport.ActiveBulkSend {
			b.memory = bytes.Repeat([]byte{byte(s.messages)}, size)
			b.CopyIn(0, b.memory)
		}
	}
	then, want := s.predict(m, b, q, queued)
	if b.EndPoint != nil {
		defer b.EndPoint.Put()
	}
	if !queued && want == nil {
		b.at, b.ended = m, false
	}
	err := m.Add(b.Buffer)
	if !errors.Is(err, want) {
		t.Fatalf("add buffer %d to %v: %v, not %v", b.name, q, err, want)
	}
	if want == nil {
		m.stats[q].Adds++
		then()
	}
}

// predict returns the expected result of Add, and a function that models its effect.
func (s *randomTest) predict(m *modelTM, b *modelBuffer, q transport.QueueType, queued bool) (then func(), want error) {
	size := b.Size()
	switch {
	case queued:
		return nil, syscall.EBUSY
	case q == transport.MsgRecv:
		if b.MinReceiveSize < 1 || b.MinReceiveSize > size || b.MaxMessages < 1 {
			return nil, syscall.EINVAL
		}
		return func() {
			b.offset, b.left = 0, b.MaxMessages
			m.receives = append(m.receives, b)
		}, nil
	case q == transport.MsgSend:
		to := rapid.IntRange(0, len(s.tms)-1).Draw(s.t, "to")
		a := at([]lnet.NID{nidA, nidB}[to%2], 34, uint16(to+1))
		var err error
		b.EndPoint, err = m.EndPointAt(a)
		s.must(err)
		if b.Length < 1 || b.Length > size {
			return nil, syscall.EINVAL
		}
		return func() { s.send(m, b, s.tms[to]) }, nil
	case q == transport.PassiveBulkRecv, q == transport.PassiveBulkSend:
		n := size
		if q == transport.PassiveBulkSend {
			if b.Length < 1 || b.Length > size {
				return nil, syscall.EINVAL
			}
			n = b.Length
		}
		return func() {
			p, err := b.Descriptor.Decode()
			s.must(err)
			if m.counter++; m.counter == 1 { // the first counter is arbitrary
				m.counter = p.MatchBits.Counter()
			}
			b.counter = m.counter
			m.passive = append(m.passive, b)
			if p.MatchBits != transport.MakeMatchBits(m.address.TMID, m.counter) || p.Address != m.address {
				s.t.Fatalf("TM %d: passive buffer %d is %+v", m.number, m.counter, p)
			}
			s.received = append(s.received, announcement{bytes.Clone(b.Descriptor), m.number, b.counter, q, n})
		}, nil
	}
	return s.predictActive(m, b, q)
}

// predictActive is predict for active bulk, with any descriptor so far.
func (s *randomTest) predictActive(m *modelTM, b *modelBuffer, q transport.QueueType) (then func(), want error) {
	b.Descriptor = nil
	if len(s.received) == 0 {
		return nil, syscall.EINVAL
	}
	// Mostly recent ones.
	a := s.received[max(0, len(s.received)-1-rapid.IntRange(0, 8).Draw(s.t, "age"))]
	b.Descriptor = a.descriptor
	fetches := q == transport.ActiveBulkRecv
	n := b.Length
	switch {
	case !fetches && (n < 1 || n > b.Size()):
		return nil, syscall.EINVAL
	case fetches != (a.queue == transport.PassiveBulkSend):
		return nil, syscall.EPERM
	case fetches && a.size > b.Size() || !fetches && n > a.size:
		return nil, syscall.EFBIG
	}
	if fetches {
		n = a.size
	}
	return func() { s.move(m, b, s.tms[a.number], a, n) }, nil
}

// send models a message.
func (s *randomTest) send(m *modelTM, b *modelBuffer, to *modelTM) {
	if to != nil && len(to.receives) > 0 && b.Length <= to.receives[0].MinReceiveSize {
		r := to.receives[0]
		copy(r.memory[r.offset:], b.memory[:b.Length])
		r.left--
		final := r.left == 0 || r.Size()-r.offset-b.Length < r.MinReceiveSize
		s.expect(to, r, final, nil, b.Length, r.offset, m.address.String())
		r.offset += b.Length
		if final {
			to.receives = to.receives[1:]
		}
	}
	s.expect(m, b, true, nil, 0, 0, "")
}

// move models active bulk of n bytes.
func (s *randomTest) move(m *modelTM, b *modelBuffer, to *modelTM, a announcement, n int) {
	fetches := b.Queue == transport.ActiveBulkRecv
	if to != nil {
		for _, p := range to.passive {
			room := p.Size()
			if fetches {
				room = p.Length
			}
			if p.counter != a.counter || p.Queue != a.queue {
				continue
			}
			if n > room {
				break // another buffer than the one of the descriptor
			}
			to.passive = remove(to.passive, p)
			if fetches {
				copy(b.memory, p.memory[:n])
				s.expect(to, p, true, nil, 0, 0, "")
				s.expect(m, b, true, nil, n, 0, "")
			} else {
				copy(p.memory, b.memory[:n])
				s.expect(to, p, true, nil, n, 0, "")
				s.expect(m, b, true, nil, 0, 0, "")
			}
			return
		}
	}
	if fetches {
		m.lost = append(m.lost, b)
	} else {
		s.expect(m, b, true, nil, 0, 0, "")
	}
}

// cancelled models Cancel of a queued buffer, or an abort.
func (s *randomTest) cancelled(m *modelTM, b *modelBuffer) {
	m.stats[b.Queue].Cancels++
	if b.ended {
		return
	}
	m.receives, m.passive, m.lost = remove(m.receives, b), remove(m.passive, b), remove(m.lost, b)
	s.expect(m, b, true, syscall.ECANCELED, 0, 0, "")
}

func (s *randomTest) cancel(b *modelBuffer) {
	m := b.at
	on := m
	if on == nil {
		on = s.anyTM()
	}
	if got := on.Cancel(b.Buffer); got != (m != nil) {
		s.t.Fatalf("cancel buffer %d: %v", b.name, got)
	}
	if m != nil {
		s.cancelled(m, b)
	}
}

func (s *randomTest) anyTM() *modelTM {
	m := s.tms[rapid.IntRange(0, len(s.tms)-1).Draw(s.t, "TM")]
	if m == nil {
		m = s.tms[0]
	}
	return m
}

// deliver delivers the events of m, and compares them.
func (s *randomTest) deliver(m *modelTM) {
	if m.Pending() != (len(m.events) > 0) {
		s.t.Fatalf("TM %d: pending %v; expected are %q", m.number, m.Pending(), m.events)
	}
	_, err := m.DeliverAll()
	s.must(err)
	s.compare(m)
}

func (s *randomTest) compare(m *modelTM) {
	if !slices.Equal(m.got, m.events) {
		s.t.Fatalf("TM %d: events\n%q, not\n%q", m.number, m.got, m.events)
	}
	m.got, m.events = nil, nil
	for q, want := range m.stats {
		got := m.Stats(transport.QueueType(q))
		got.TimeInQueue = 0
		if got != want {
			s.t.Fatalf("TM %d, %v: %+v, not %+v", m.number, transport.QueueType(q), got, want)
		}
	}
	for _, b := range s.buffers {
		if b.at != nil {
			continue // lent
		}
		got := make([]byte, b.Size())
		b.CopyOut(0, got)
		if !bytes.Equal(got, b.memory) {
			s.t.Fatalf("buffer %d has %v, not %v", b.name, got, b.memory)
		}
	}
}

// restart stops a TM and starts it again.
func (s *randomTest) restart(k int) {
	m := s.tms[k]
	if m == nil {
		s.start(k)
		return
	}
	s.must(m.Abort())
	for q := range transport.QueueType(transport.QueueTypes) {
		for _, b := range s.inOrderOfAdds(m, q) {
			s.cancelled(m, b)
		}
	}
	for m.State() == transport.StateStopping {
		if _, err := m.DeliverAll(); err != nil {
			break // it has stopped
		}
	}
	s.must(m.Await(context.Background(), transport.StateStopped))
	slices.Sort(m.got)
	slices.Sort(m.events)
	s.compare(m)
	s.must(m.Close())
	s.tms[k] = nil
}

func (s *randomTest) inOrderOfAdds(m *modelTM, q transport.QueueType) (list []*modelBuffer) {
	for _, b := range s.buffers {
		if b.at == m && b.Queue == q {
			list = append(list, b)
		}
	}
	return list
}

// Random sequences of messages, bulk, cancellations and restarts give the same results as a model: results of
// Add and Cancel, events and their order, contents and statistics.
//
// transport 3.8 errors, 3.8 del, 3.10 guarantees, 3.11 (1)-(2), 3.12 (1)-(2), 6.7 (4), 6.10
func TestCoreEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := mem.New(mem.Config{})
		s := &randomTest{t: t, tms: make([]*modelTM, 3)}
		callbacks := transport.Callbacks{s.receive, s.receive, s.receive, s.receive, s.receive, s.receive}
		for k, at := range []lnet.NID{nidA, nidB} {
			var err error
			s.domains[k], err = transport.NewDomain(context.Background(), n.Host(at))
			s.must(err)
		}
		for k := range s.tms {
			s.start(k)
		}
		for k := range 10 {
			size := rapid.IntRange(1, 40).Draw(t, "size")
			cut := rapid.IntRange(0, size-1).Draw(t, "cut")
			memory := [][]byte{make([]byte, size-cut), make([]byte, cut)}
			if cut == 0 {
				memory = memory[:1]
			}
			b := &modelBuffer{Buffer: transport.NewBuffer(memory...), name: k, home: k % 2, memory: make([]byte, size)}
			b.Data, b.Callbacks = k, &callbacks
			s.must(s.domains[b.home].Register(context.Background(), b.Buffer))
			s.buffers = append(s.buffers, b)
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			s.step()
		}
		s.end()
	})
}

func (s *randomTest) step() {
	b := s.buffers[rapid.IntRange(0, len(s.buffers)-1).Draw(s.t, "buffer")]
	switch what := rapid.IntRange(0, 20).Draw(s.t, "what"); {
	case what < 12:
		m := s.tms[[2][2]int{{0, 2}, {1, 1}}[b.home][rapid.IntRange(0, 1).Draw(s.t, "which")]]
		if m != nil {
			s.add(m, b, rapid.SampledFrom(queues).Draw(s.t, "queue"))
		}
	case what < 14:
		s.cancel(b)
	case what < 20:
		if m := s.tms[rapid.IntRange(0, len(s.tms)-1).Draw(s.t, "TM")]; m != nil {
			s.deliver(m)
		}
	default:
		s.restart(rapid.IntRange(1, len(s.tms)-1).Draw(s.t, "TM")) // TM 0 is never restarted
	}
}

// end closes everything.
func (s *randomTest) end() {
	for k, m := range s.tms {
		if m != nil {
			s.restart(k)
		}
	}
	for _, b := range s.buffers {
		s.must(s.domains[b.home].Deregister(b.Buffer))
	}
	for _, d := range s.domains {
		s.must(d.Close())
	}
}
