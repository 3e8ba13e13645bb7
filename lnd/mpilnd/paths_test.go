package mpilnd

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/fake"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// A payload that fits into the smaller short_max of both sides is sent with its header, unsolicited. The payload of larger messages
// is sent with an even tag, before the header. Such a message is complete when the peer has received the payload.
//
// MPI-20, MPI-22, PT-1
func TestShortAndLarge(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.open()
		m := s.put(4096)
		got := s.next(protocol.Short)
		if !bytes.Equal(got.Payload, pattern(4096)) || got.Header != m.tx.Header {
			t.Errorf("%d bytes, %+v", len(got.Payload), got.Header)
		}
		for _, tag := range []uint32{2, 4} {
			m = s.put(4097)
			if got = s.next(protocol.LargePut); got.Tag != tag || got.Length != 4097 || got.Header != m.tx.Header {
				t.Errorf("%+v", got)
			}
			if got := m.state(); got != "not complete" {
				t.Errorf("before its payload is received: %s", got)
			}
			b := make([]byte, 5000)
			if d, ok := s.await(s.receive(int(tag), b)); !ok || !bytes.Equal(b[:d.Length], pattern(4097)) {
				t.Errorf("%+v, %t", d, ok)
			}
			if got := m.state(); got != "sent" {
				t.Error(got)
			}
		}
	})
}

// Payloads are copied when at most 2 MiB of copies wait for the peer. Later messages wait, but urgent ones go first.
//
// MPI-22
func TestCopies(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.open()
		s.send(protocol.Message{Type: protocol.Credit, Credits: 4})
		var large [3]*sent
		for k := range large {
			large[k] = s.put(lnet.MTU)
		}
		s.next(protocol.LargePut)
		s.next(protocol.LargePut)
		after := s.put(10)
		s.nothing()
		s.transmit(&lnd.Tx{Header: header(lnet.MsgPut, 0, 1, 0), Urgent: true})
		if got := s.next(protocol.Short); got.Length != 0 {
			t.Errorf("%d bytes instead of the urgent message", got.Length)
		}
		b := make([]byte, lnet.MTU)
		if _, ok := s.await(s.receive(2, b)); !ok || !bytes.Equal(b, pattern(lnet.MTU)) {
			t.Error("the first payload is not received")
		}
		if got := s.next(protocol.LargePut); got.Tag != 6 || large[0].state() != "sent" || large[1].state() != "not complete" {
			t.Errorf("%+v, %s, %s", got, large[0].state(), large[1].state())
		}
		if got := s.next(protocol.Short); got.Length != 10 {
			t.Errorf("%d bytes", got.Length)
		}
		synctest.Wait()
		if after.state() != "sent" {
			t.Error(after.state())
		}
	})
}

// Answers to GETs are copied within a limit apart from that of PUTs, which the peer may place late.
//
// MPI-23
func TestCopiedAnswers(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.open()
		s.put(lnet.MTU)
		s.put(lnet.MTU)
		s.next(protocol.LargePut)
		s.next(protocol.LargePut)
		for k := range 3 {
			s.send(protocol.Message{Type: protocol.GetOpt, Tag: uint32(3 + 2*k), Length: lnet.MTU, Header: header(lnet.MsgGet, 1, 0, 0)})
		}
		s.nothing()
		for k, m := range s.upper.arrived {
			s.i.Receive(m, lnd.Placement{Reply: memory.Of(pattern(lnet.MTU - k)), Done: s.upper})
		}
		synctest.Wait()
		b := make([]byte, lnet.MTU)
		third := s.receive(7, make([]byte, lnet.MTU))
		if _, ok := s.await(third); ok {
			t.Error("the third answer does not wait")
		}
		if d, ok := s.await(s.receive(3, b)); !ok || d.Length != lnet.MTU {
			t.Errorf("the first answer is not received: %+v", d)
		}
		if d, ok := s.await(s.receive(5, b)); !ok || d.Length != lnet.MTU-1 {
			t.Errorf("the second answer is not received: %+v", d)
		}
		if d, ok := s.await(third); !ok || d.Length != lnet.MTU-2 {
			t.Errorf("the third answer is not received: %+v", d)
		}
		synctest.Wait()
		if n := len(s.upper.received); n != 3 {
			t.Errorf("%d GETs are answered", n)
		}
	})
}

// The payload of a large message is received when the message has its place: directly, if that is one piece and takes
// all. Of a message that is dropped or truncated, all is received too.
//
// MPI-22, PT-1
func TestLargeArrivals(t *testing.T) {
	const length = 10_000
	pieces := func(n ...int) (v memory.Vector) {
		for _, n := range n {
			v.Segments = append(v.Segments, memory.Segment{Bytes: make([]byte, n)})
			v.Length += n
		}
		return v
	}
	for name, c := range map[string]struct {
		memory memory.Vector
		drop   bool
		copied uint64
	}{
		"direct":    {memory: pieces(length)},
		"part":      {memory: memory.Of(make([]byte, 3*length)).Slice(length, length)},
		"scattered": {memory: pieces(1, length-1), copied: 1},
		"truncated": {memory: pieces(50), copied: 1},
		"dropped":   {drop: true, copied: 1},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, fake.Options{}, nil, func(s *stage) {
				s.open()
				payload := s.write(2, pattern(length))
				s.send(protocol.Message{Type: protocol.LargePut, Tag: 2, Length: length, Header: header(lnet.MsgPut, 1, 0, length)})
				s.nothing()
				if _, ok := s.await(payload); ok {
					t.Error("the payload is received before it has its place")
				}
				place := lnd.Placement{Memory: c.memory, Done: s.upper}
				if c.drop {
					place = lnd.Placement{}
				}
				s.i.Receive(s.upper.arrived[0], place)
				if _, ok := s.await(payload); !ok {
					t.Error("the payload is not received")
				}
				synctest.Wait()
				got := make([]byte, c.memory.Length)
				if c.memory.CopyTo(got); !bytes.Equal(got, pattern(length)[:len(got)]) {
					t.Error("wrong payload")
				}
				if !c.drop && (len(s.upper.received) != 1 || s.upper.received[0] != nil) {
					t.Errorf("completed with %v", s.upper.received)
				}
				if n := s.d.count.copied.Load(); n != c.copied {
					t.Errorf("%d payloads were copied, want %d", n, c.copied)
				}
			})
		})
	}
}

// A large message whose tag is that of an earlier one, which waits for its place, does not get its payload.
//
// MPI-22
func TestTagAgain(t *testing.T) {
	play(t, fake.Options{Eager: lnet.MTU, Unexpected: 10}, nil, func(s *stage) {
		s.open()
		var memories [2][]byte
		for k := range memories {
			memories[k] = make([]byte, 5000)
			s.write(2, bytes.Repeat([]byte{byte(k)}, 5000))
			s.send(protocol.Message{Type: protocol.LargePut, Tag: 2, Length: 5000, Header: header(lnet.MsgPut, 1, 0, 5000)})
		}
		s.nothing()
		for _, k := range []int{1, 0} {
			s.i.Receive(s.upper.arrived[k], lnd.Placement{Memory: memory.Of(memories[k]), Done: s.upper})
			synctest.Wait()
			s.nothing()
			if want := bytes.Repeat([]byte{byte(k)}, 5000); !bytes.Equal(memories[k], want) {
				t.Errorf("message %d has the payload of message %d", k, memories[k][0])
			}
		}
	})
}

// A message whose payload is received before it has its place can be withdrawn before and after the payload arrives.
//
// PT-1
func TestWithdrawnAhead(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.open()
		const length = 5000
		for range 2 {
			s.send(protocol.Message{Type: protocol.LargePut, Tag: 2, Length: length, Header: header(lnet.MsgPut, 1, 0, length)})
		}
		s.send(protocol.Message{Type: protocol.Bye, Reason: protocol.Disconnected})
		synctest.Wait()
		if s.upper.withdrawn != 2 {
			t.Errorf("%d messages were withdrawn, want 2", s.upper.withdrawn)
		}
		place := lnd.Placement{Memory: memory.Of(make([]byte, length)), Done: s.upper}
		s.i.Receive(s.upper.arrived[1], place)
		for range 2 {
			if _, ok := s.await(s.write(2, pattern(length))); !ok {
				t.Error("a payload was not received")
			}
			synctest.Wait()
		}
		s.i.Receive(s.upper.arrived[0], place)
		synctest.Wait()
		if len(s.upper.received) != 2 || s.upper.received[0] == nil || s.upper.received[1] == nil {
			t.Errorf("completed with %v", s.upper.received)
		}
	})
}

// An optimized GET is sent when the receive of its answer is posted: the peer can send that at once. The answer may be
// shorter than the sink, or empty. No REPLY follows.
//
// MPI-23, PT-1
func TestGet(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.open()
		for k, c := range []struct {
			pieces []int
			answer int
		}{{[]int{20_000}, 20_000}, {[]int{20_000}, 17}, {[]int{100}, 0}, {[]int{1, 5000, 3}, 5004}, {[]int{1, 5000, 3}, 0}} {
			m := s.get(c.pieces...)
			got := s.next(protocol.GetOpt)
			if want := uint32(3 + 2*k); got.Tag != want || got.Length != uint32(m.tx.Sink.Length) {
				t.Errorf("%+v, want the tag %d", got, want)
			}
			if _, ok := s.await(s.write(int(got.Tag), pattern(c.answer))); !ok {
				t.Error("the receive of the answer was not posted")
			}
			if got := m.state(); got != "sent" || !m.tx.Replied || m.tx.ReplyLength != c.answer {
				t.Errorf("%s: replied %t, %d bytes", got, m.tx.Replied, m.tx.ReplyLength)
			}
			b := make([]byte, c.answer)
			if m.tx.Sink.CopyTo(b); !bytes.Equal(b, pattern(c.answer)) {
				t.Error("wrong answer")
			}
			s.send(protocol.Message{Type: protocol.Credit, Credits: 1})
		}
	})
}

// A NAK ends a GET: its receive is cancelled, and its tag is free.
//
// MPI-23, PT-1
func TestNak(t *testing.T) {
	play(t, fake.Options{MaxTag: 3}, nil, func(s *stage) {
		s.open()
		for range 2 {
			before := s.job.Requests(0)
			m := s.get(5000)
			s.send(protocol.Message{Type: protocol.Nak, Tag: s.next(protocol.GetOpt).Tag, Credits: 1})
			if got := m.state(); got != "remote error" || m.tx.Replied {
				t.Errorf("%s, replied %t", got, m.tx.Replied)
			}
			if n := s.job.Requests(0); n != before {
				t.Errorf("%d requests, %d before", n, before)
			}
		}
		s.send(protocol.Message{Type: protocol.Nak, Tag: 3})
		if bye := s.next(protocol.Bye); bye.Reason != protocol.BadProtocol {
			t.Errorf("a NAK for no GET: %s", bye.Reason)
		}
	})
}

// The answer to an optimized GET is sent with the tag of the GET, without a message. A NAK is sent if the GET is dropped.
//
// MPI-23, PT-1
func TestGetArrives(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.open()
		h := header(lnet.MsgGet, 1, 0, 0)
		h.Length = 20_000
		ask := func(tag int, p lnd.Placement) {
			s.upper.place = func(m *lnd.Rx) lnd.Placement {
				if !m.RDMA {
					t.Error("the GET has to be answered by a REPLY")
				}
				return p
			}
			s.send(protocol.Message{Type: protocol.GetOpt, Tag: uint32(tag), Length: 20_000, Header: h})
		}
		for k, n := range []int{20_000, 5, 0} {
			b := make([]byte, 20_000)
			answer := s.receive(3, b)
			ask(3, lnd.Placement{Reply: memory.Of(pattern(n)), Done: s.upper})
			if d, ok := s.await(answer); !ok || !bytes.Equal(b[:d.Length], pattern(n)) {
				t.Errorf("%+v, %t; want %d bytes", d, ok, n)
			}
			synctest.Wait()
			if len(s.upper.received) != k+1 || s.upper.received[k] != nil {
				t.Errorf("completed with %v", s.upper.received)
			}
		}
		ask(5, lnd.Placement{})
		if nak := s.next(protocol.Nak); nak.Tag != 5 {
			t.Errorf("%+v", nak)
		}
		ask(7, lnd.Placement{Reply: memory.Of(pattern(20_001)), Done: s.upper})
		if nak := s.next(protocol.Nak); nak.Tag != 7 || s.upper.received[3] == nil {
			t.Errorf("%+v, %v", nak, s.upper.received)
		}
	})
}

// If no even tag is left, large messages wait in their order. If no odd one is left, a GET is answered by a REPLY, as is
// one to or from a proxy.
//
// PT-1
func TestTagsRunOut(t *testing.T) {
	play(t, fake.Options{MaxTag: 3}, nil, func(s *stage) {
		s.open()
		large, short := s.put(5000), []*sent{s.put(5001), s.put(10)}
		s.next(protocol.LargePut)
		s.nothing()
		b := make([]byte, 6000)
		s.await(s.receive(2, b))
		if got := s.next(protocol.LargePut); got.Tag != 2 || got.Length != 5001 {
			t.Errorf("%+v", got)
		}
		s.next(protocol.Short)
		s.await(s.receive(2, b))
		for _, m := range append(short, large) {
			if got := m.state(); got != "sent" {
				t.Error(got)
			}
		}
		s.send(protocol.Message{Type: protocol.Credit, Credits: 3})
		first, second := s.get(100), s.get(100)
		s.next(protocol.GetOpt)
		if got := s.next(protocol.Short); got.Header != second.tx.Header {
			t.Errorf("%+v", got)
		}
		s.write(3, pattern(100))
		if got := first.state() + second.state(); got != "sentsent" || second.tx.Replied {
			t.Errorf("%s, replied %t", got, second.tx.Replied)
		}
	})
	play(t, fake.Options{}, func(c *Config) { c.Proxy = true }, func(s *stage) {
		s.send(protocol.Message{Type: protocol.Query})
		if k := s.next(protocol.Reply).Block; k.Features != 0 || k.Role != protocol.Proxy {
			t.Errorf("%+v", k)
		}
	})
}

// A GET whose link ends is complete when its receive is cancelled. An answer that comes too late is received when there
// is another link, and does not become that of the next GET with the tag.
//
// MPI-23, PT-1
func TestLateAnswer(t *testing.T) {
	play(t, fake.Options{MaxTag: 3, Eager: lnet.MTU, Unexpected: 10}, nil, func(s *stage) {
		s.open()
		m := s.get(5000)
		s.next(protocol.GetOpt)
		s.i.Disconnect(nid(1))
		if got := m.state(); got != "local error" {
			t.Error(got)
		}
		s.next(protocol.Bye)
		s.write(3, bytes.Repeat([]byte{1}, 5000))
		s.link, s.driver, s.sequence = 2, 0, 0
		s.open()
		m = s.get(5000)
		s.next(protocol.GetOpt)
		s.write(3, bytes.Repeat([]byte{2}, 5000))
		if got := m.state(); got != "sent" || m.tx.Sink.Segments[0].Bytes[0] != 2 {
			t.Errorf("%s: the answer begins with %d", got, m.tx.Sink.Segments[0].Bytes[0])
		}
	})
}

// A peer gets no more messages than it has given credits, except such that need none. It gets its own credits back when
// half of them are owed, and loses the link if it sends more than it may. Its messages that wait for a placement take
// nothing from the receives that are posted.
//
// MPI-21
func TestCredits(t *testing.T) {
	play(t, fake.Options{}, nil, func(s *stage) {
		s.open()
		for range 6 {
			s.put(10)
		}
		for range 4 {
			s.next(protocol.Short)
		}
		s.nothing()
		s.send(protocol.Message{Type: protocol.Credit, Credits: 2})
		s.next(protocol.Short)
		s.next(protocol.Short)

		send := func() { s.send(protocol.Message{Type: protocol.Short, Header: header(lnet.MsgPut, 1, 0, 0)}) }
		s.nothing()
		before := s.job.Requests(0)
		for range 6 {
			send()
		}
		s.nothing()
		if n := s.job.Requests(0); n != before || before != 2*8+16 {
			t.Errorf("%d receives are posted, %d before", n, before)
		}
		for _, m := range s.upper.arrived[:3] {
			s.i.Receive(m, lnd.Placement{})
		}
		if c := s.next(protocol.Credit); c.Credits != 3 {
			t.Errorf("%+v, want 3 credits", c)
		}
		for range 6 { // one too many
			send()
		}
		if bye := s.next(protocol.Bye); bye.Reason != protocol.BadProtocol {
			t.Errorf("%+v", bye)
		}
		if n := len(s.upper.arrived); n != 11 || s.upper.withdrawn != 8 {
			t.Errorf("%d messages have arrived, %d were withdrawn; want 11 and 8", n, s.upper.withdrawn)
		}
	})
}
