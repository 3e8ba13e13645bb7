package protocol

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// hear makes e receive a message from its peer.
func (e *end) hear(m Message) {
	s := e.c.Session()
	m.Version, m.Src, m.SrcStamp, m.Dst, m.DstStamp = s.Version, s.Peer, s.PeerStamp, s.Self, s.SelfStamp
	e.hearAsIs(m)
}

func (e *end) hearAsIs(m Message) {
	b := wireOf(e.t.(testing.TB), m)
	n := e.posted[0]
	e.posted = e.posted[1:]
	e.recvs = append(e.recvs, recv{n, copy(e.buffers[n], b)})
	e.pollRecv()
}

// Only these errors end a connection, and each error names what is wrong (o2iblnd 2.2, 4, 9.4, 21).
//
// o2iblnd 2.2 (3), 4 (5)-(6), 5.3 (2), 5.9 (3), 9.4 (1), 10.3 (4)
func TestWhatCostsAConnection(t *testing.T) {
	get := lnet.Header{Dest: nid1, Src: nid2, Type: lnet.MsgGet, Length: 100}
	put := lnet.Header{Dest: nid1, Src: nid2, Type: lnet.MsgPut, PayloadLength: 5000}
	sink := Descriptor{Key: 1, Fragments: []Fragment{{Addr: 1, Length: 100}}}
	for _, c := range []struct {
		name  string
		as    func(m *Message)
		m     Message
		first func(e *end)
		errno syscall.Errno
		want  string // empty: the connection stays
	}{
		{name: "credits that were not spent", m: Message{Type: Noop, Credits: 1}, errno: syscall.EPROTO, want: "the message returns 1 credits, but only 0 are in use"},
		{name: "one credit too many", m: Message{Type: Noop, Credits: 3}, errno: syscall.EPROTO, want: "the message returns 3 credits, but only 2",
			first: func(e *end) { e.immediate(1, 1); e.immediate(2, 1) }},
		{name: "as many as were spent", m: Message{Type: Noop, Credits: 2}, first: func(e *end) { e.immediate(1, 1); e.immediate(2, 1) }},
		{name: "more messages than credits", m: Message{Type: PutReq, LNet: put}, errno: syscall.EPROTO, want: "PUT_REQ without a credit: the peer has used all 8",
			first: func(e *end) {
				for range 8 {
					e.hear(Message{Type: Immediate, LNet: get})
				}
			}},
		{name: "other dststamp", as: func(m *Message) { m.DstStamp++ }, m: Message{Type: Noop}, errno: syscall.ESTALE, want: "dststamp"},
		{name: "other srcstamp", as: func(m *Message) { m.SrcStamp++ }, m: Message{Type: Noop}, errno: syscall.ESTALE, want: "srcstamp"},
		{name: "other srcnid", as: func(m *Message) { m.Src = nid1 }, m: Message{Type: Noop}, errno: syscall.ESTALE, want: "srcnid"},
		{name: "other dstnid", as: func(m *Message) { m.Dst = nid2 }, m: Message{Type: Noop}, errno: syscall.ESTALE, want: "dstnid"},
		{name: "other version", as: func(m *Message) { m.Version = V1 }, m: Message{Type: Noop}},
		{name: "CONNREQ", m: Message{Type: ConnReq}, errno: syscall.EPROTO, want: "CONNREQ on an established connection"},
		{name: "CONNACK", m: Message{Type: ConnAck}, errno: syscall.EPROTO, want: "CONNACK on an established connection"},
		{name: "cookie of a PUT_ACK", m: Message{Type: PutAck, Cookie: 9, Sink: sink}, errno: syscall.EPROTO, want: "PUT_ACK with cookie 0x9: no request"},
		{name: "cookie of a PUT_NAK", m: Message{Type: PutNak, Cookie: 9}, errno: syscall.EPROTO, want: "PUT_NAK with cookie 0x9: no request"},
		{name: "cookie of a PUT_DONE", m: Message{Type: PutDone, Cookie: 9}, errno: syscall.EPROTO, want: "PUT_DONE with cookie 0x9: no request"},
		{name: "cookie of a GET_DONE", m: Message{Type: GetDone, Cookie: 9}, errno: syscall.EPROTO, want: "GET_DONE with cookie 0x9: no request"},
		{name: "answer to another kind of request", m: Message{Type: GetDone, Cookie: 1 << 16}, errno: syscall.EPROTO, want: "GET_DONE with cookie 0x10000: no request",
			first: func(e *end) { e.put(1, 5000, 1) }},
		{name: "a second answer", m: Message{Type: PutNak, Cookie: 1 << 16}, errno: syscall.EPROTO, want: "PUT_NAK with cookie 0x10000: no request",
			first: func(e *end) { e.put(1, 5000, 1); e.hear(Message{Type: PutNak, Cookie: 1 << 16}) }},
		{name: "a GET_REQ to be forwarded", m: Message{Type: GetReq, LNet: lnet.Header{Dest: mustNID("1.2.3.4@tcp"), Src: nid2, Type: lnet.MsgGet}, Sink: sink},
			errno: syscall.EPROTO, want: "dest_nid 1.2.3.4@tcp: a GET_REQ for another node cannot be forwarded"},
		{name: "a PUT_REQ to be forwarded", m: Message{Type: PutReq, LNet: lnet.Header{Dest: mustNID("1.2.3.4@tcp"), Src: nid2, Type: lnet.MsgPut, PayloadLength: 1}}},
		{name: "GET_DONE of more than the sink", m: Message{Type: GetDone, Cookie: 1 << 16, Status: 101}, errno: syscall.EPROTO, want: "GET_DONE reports 101 bytes, but only 100 were requested",
			first: func(e *end) { e.get(1, 100, 0, 1) }},
		{name: "an IMMEDIATE that is cut short", as: func(m *Message) { m.Payload = []byte("abc") },
			m: Message{Type: Immediate, LNet: lnet.Header{Dest: nid1, Src: nid2, Type: lnet.MsgPut, PayloadLength: 5}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := newPair(t, Options{}, V2, 8, 256)
			if c.first != nil {
				c.first(a)
			}
			posted := len(a.posted)
			m := c.m
			if c.as != nil {
				s := a.c.Session()
				m.Version, m.Src, m.SrcStamp, m.Dst, m.DstStamp = s.Version, s.Peer, s.PeerStamp, s.Self, s.SelfStamp
				c.as(&m)
				if m.Payload != nil { // nob includes the payload
					b := wireOf(t, m)
					order.PutUint32(b[8:], uint32(len(b)))
					a.c.Received(start, 0, b, &a.b)
					a.carry()
					if a.dropped || len(a.waiting) > 0 || a.c.credits.outstanding != 1 {
						t.Errorf("%v", a.c)
					}
					return
				}
				a.hearAsIs(m)
			} else {
				a.hear(m)
			}
			f := a.c.Failure()
			if c.want == "" {
				if f != nil || a.dropped {
					t.Errorf("the connection ends: %v", f)
				}
				return
			}
			if f == nil || f.Errno != c.errno || !strings.Contains(f.Error(), c.want) || !a.dropped {
				t.Errorf("%v, want %v: %s", f, c.errno, c.want)
			}
			if len(a.posted) >= posted {
				t.Error("the buffer is posted again")
			}
		})
	}
}

// Hazards of kernel peers, by row (o2iblnd 18). Rows 5 and 8 describe behaviour of peers that
// cannot be observed; row 9 is an ordinary timeout (testdata/script/timeout).
//
// o2iblnd 18 (1)-(4), 18 (6)-(7), 18 (10)-(11), 9.5 (4), 10.2 (3), 10.3 (3)
func TestHazards(t *testing.T) {
	t.Run("1 a GET answered with fewer bytes than the sink has", func(t *testing.T) {
		a, _ := newPair(t, Options{}, V2, 8, 256)
		for _, c := range []struct{ n, spare, fragments, sure int }{
			{48, 0, 1, 48}, {48, 976, 1, 0}, {90, 10, 5, 80}, {100, 900, 10, 100}, {0, 10, 1, 0},
		} {
			tx := &Tx{}
			h := a.header(lnet.MsgGet, 1, 0)
			a.c.Get(start, tx, &h, descriptor(0, c.n+c.spare, c.fragments), &a.b)
			cookie := cookie(a.b.Head(&a.b.Sends[0])[immediateSize:])
			slot := a.b.Sends[0].Slot
			a.b.Reset()
			a.c.Completed(start, slot, &a.b)
			s := a.c.Session()
			done := Message{Version: V2, Type: GetDone, Credits: 1, Src: s.Peer, SrcStamp: s.PeerStamp, Dst: s.Self, DstStamp: s.SelfStamp,
				Cookie: cookie, Status: int32(c.n)}
			a.c.Received(start, 0, wireOf(t, done), &a.b)
			if len(a.b.Done) != 1 {
				t.Fatalf("%+v: %+v", c, a.b)
			}
			if d := a.b.Done[0]; d.Failure != nil || !d.Replied || d.Length != c.n || d.Sure != c.sure {
				t.Errorf("%+v: %+v", c, d)
			}
			a.b.Reset()
		}
	})
	t.Run("2 a GET_DONE never says more than the sink has", func(t *testing.T) {
		for _, length := range []uint32{100, 5000} { // length of the sink, from the header
			_, b := newPair(t, Options{}, V2, 8, 256)
			b.hear(Message{Type: GetReq, LNet: lnet.Header{Dest: nid2, Src: nid1, Type: lnet.MsgGet, Length: length}, Sink: *descriptor(0, 1000, 1)})
			rx := b.waiting[0]
			if want := min(int(length), 1000); rx.Room() != want {
				t.Errorf("room for %d bytes, want %d", rx.Room(), want)
			}
			b.placing[rx] = &op{form: GetReq}
			b.c.Reply(start, rx, cut(0, 1001, 1), &b.b)
			var m Message
			if _, err := m.Decode(b.b.Head(&b.b.Sends[0]), Check); err != nil || m.Status != -int32(syscall.EMSGSIZE) || len(b.b.Writes) > 0 {
				t.Errorf("%+v, %v", m, err)
			}
			b.carry()
			b.deliver()
			b.pollSend()
			if b.placed != 1 {
				t.Error("the arrival has not ended")
			}
		}
	})
	t.Run("3 no NOOPs without end", func(t *testing.T) {
		for depth := 1; depth <= MaxDepth; depth++ {
			for _, f := range []Flow{{}, {PeerCredits: 255, HighWater: 1}, {PeerCredits: 32, HighWater: 31}} {
				c := NewCredits(V2, depth, f)
				if c.high < 1 || c.high > depth || depth/c.high > noopBuffers || c.NoopDue(false) {
					t.Fatalf("depth %d, %+v: NOOPs at %d", depth, f, c.high)
				}
			}
		}
	})
	t.Run("4 no more than 256 fragments are sent", func(t *testing.T) {
		a, b := newPair(t, Options{}, V2, 8, MaxFragments)
		h := a.header(lnet.MsgGet, 1, 0)
		o := &op{form: GetReq, tx: &Tx{}}
		a.pending[o.tx] = o
		a.c.Get(start, o.tx, &h, descriptor(0, 257, 257), &a.b)
		a.carry()
		if a.failed != 1 || len(a.wire) > 0 {
			t.Error("257 fragments in a GET_REQ")
		}
		b.hear(Message{Type: PutReq, LNet: lnet.Header{Dest: nid2, Src: nid1, Type: lnet.MsgPut, PayloadLength: 5000}})
		b.placing[b.waiting[0]] = &op{form: PutReq}
		b.c.Sink(start, b.waiting[0], descriptor(0, 257, 257), &b.b)
		b.carry()
		if Type(b.wire[0].message[6]) != PutNak {
			t.Error("257 fragments in a PUT_ACK")
		}
		// We accept them from peers.
		b.hear(Message{Type: GetReq, LNet: lnet.Header{Dest: nid2, Src: nid1, Type: lnet.MsgGet, Length: 257}, Sink: *descriptor(0, 257, 257)})
		if len(b.waiting) != 2 {
			t.Error("257 fragments of a peer")
		}
	})
	t.Run("6 checksums are off, and may be passed over", func(t *testing.T) {
		if (Options{}).Checksum != NoChecksum {
			t.Error("they are on")
		}
	})
	t.Run("7 exactly the credits that are owed", func(t *testing.T) {
		a, b := newPair(t, Options{}, V2, 8, 256)
		for id := range 40 {
			a.immediate(id, 1)
			b.put(id, 10, 1)
			settleInOrder(a, b) // Returned fails if one credit too many is returned
		}
		if a.dropped || b.dropped {
			t.Error(a.c.Failure(), b.c.Failure())
		}
	})
	t.Run("10 a PUT_ACK never has more room than the payload", func(t *testing.T) {
		a, b := newPair(t, Options{}, V2, 8, 256)
		a.put(1, 5000, 1)
		a.deliver()
		b.pollRecv()
		rx := b.waiting[0]
		b.waiting = nil
		b.placing[rx] = &op{form: PutReq}
		b.c.Sink(start, rx, descriptor(0, 5001, 1), &b.b)
		b.carry()
		settleInOrder(a, b)
		if a.failed != 1 || b.placed != 1 || a.dropped || b.dropped {
			t.Errorf("A: %v, B: %v", a.c, b.c)
		}
	})
	t.Run("10 and what has more is not written", func(t *testing.T) {
		a, _ := newPair(t, Options{}, V2, 8, 256)
		a.put(1, 5000, 1)
		a.hear(Message{Type: PutAck, Cookie: 1 << 16, SinkCookie: 7, Sink: *descriptor(0, 5001, 1)})
		k := a.wire[len(a.wire)-1]
		if describe(k.message) != "PUT_DONE credits 0 status -71" || len(k.writes) > 0 {
			t.Errorf("%s, %d writes", describe(k.message), len(k.writes))
		}
		a.deliver()
		a.pollSend()
		a.wire = nil
		a.c.Completed(start, 1, &a.b)
		a.carry()
		if a.failed != 1 {
			t.Error("the message has not failed")
		}
	})
	t.Run("11 a race is never lost", TestRaces)
}

// If the sink is shorter than the payload, only as much is written (o2iblnd 10.2, 21).
//
// o2iblnd 10.2 (3)
func TestPutIsCutToTheSink(t *testing.T) {
	a, _ := newPair(t, Options{}, V2, 8, 256)
	a.put(1, 5000, 3)
	a.hear(Message{Type: PutAck, Cookie: 1 << 16, SinkCookie: 7, Sink: *descriptor(0, 1234, 1)})
	k := a.wire[len(a.wire)-1]
	if describe(k.message) != "PUT_DONE credits 0 status 1234" {
		t.Error(describe(k.message))
	}
}

// If a PUT_DONE reports fewer bytes than the sink has, or an error, the arrival fails and the
// connection stays (o2iblnd 10.2).
//
// o2iblnd 10.2 (1)
func TestPutDoneOfLess(t *testing.T) {
	for status, want := range map[int32]syscall.Errno{4999: syscall.EIO, -71: syscall.EPROTO, 5000: 0} {
		_, b := newPair(t, Options{}, V2, 8, 256)
		b.hear(Message{Type: PutReq, Cookie: 5, LNet: lnet.Header{Dest: nid2, Src: nid1, Type: lnet.MsgPut, PayloadLength: 5000}})
		rx := b.waiting[0]
		b.c.Sink(start, rx, descriptor(0, 5000, 1), &b.b)
		ours := cookie(b.b.Head(&b.b.Sends[0])[headerSize+cookieSize:])
		b.b.Reset()
		s := b.c.Session()
		m := Message{Version: V2, Type: PutDone, Cookie: ours, Status: status, Src: s.Peer, SrcStamp: s.PeerStamp, Dst: s.Self, DstStamp: s.SelfStamp}
		b.c.Received(start, 1, wireOf(t, m), &b.b)
		if len(b.b.Placed) != 1 {
			t.Fatalf("%d: %+v", status, b.b)
		}
		f := b.b.Placed[0].Failure
		if f == nil != (want == 0) || f != nil && f.Errno != want || b.c.State() != Established {
			t.Errorf("status %d: %v", status, f)
		}
	}
}

// Several PUTs may finish in any order (o2iblnd 10.2, 21).
//
// o2iblnd 10.2 (5)
func TestPutsFinishInReverse(t *testing.T) {
	a, b := newPair(t, Options{}, V2, 8, 256)
	for id := range 7 {
		a.put(id, 5000+id, 2)
	}
	repeat(100, a.deliver)
	repeat(100, b.pollRecv)
	for len(b.waiting) > 0 {
		b.answer(len(b.waiting)-1, 3, false)
	}
	settleInOrder(a, b)
	if a.done != 7 || b.placed != 7 || a.failed > 0 {
		t.Errorf("A: %v, B: %v", a.c, b.c)
	}
}

// The forms in which messages are sent (o2iblnd 10.1).
//
// o2iblnd 10.1
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		t             lnet.MsgType
		payload, sink int
		far, device   bool
		want          Type
	}{
		{t: lnet.MsgAck, want: Immediate},
		{t: lnet.MsgPut, payload: 0, device: true, want: Immediate},
		{t: lnet.MsgPut, payload: 3976, want: Immediate},
		{t: lnet.MsgPut, payload: 3977, want: PutReq},
		{t: lnet.MsgReply, payload: 3977, far: true, want: PutReq},
		{t: lnet.MsgPut, payload: 1, device: true, want: PutReq},
		{t: lnet.MsgGet, sink: 3976, want: Immediate},
		{t: lnet.MsgGet, sink: 3977, want: GetReq},
		{t: lnet.MsgGet, sink: 1 << 20, far: true, want: Immediate},
		{t: lnet.MsgGet, sink: 1, device: true, want: GetReq},
		{t: lnet.MsgGet, sink: 0, want: Immediate},
	} {
		if got := Choose(c.t, c.payload, c.sink, c.far, c.device); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Recall cancels messages of which nothing was posted, and frees the places that they have
// reserved.
func TestRecall(t *testing.T) {
	a, b := newPair(t, Options{}, V2, 4, 256)
	for id := range 4 {
		a.immediate(id, 1)
	}
	var puts []*Tx
	for id := range 6 {
		puts = append(puts, a.put(10+id, 5000, 1).tx) // four have a place in the queue
	}
	last := a.immediate(99, 1)
	a.c.Recall(func(tx *Tx) bool { return tx != last.tx }, &a.b)
	if len(a.b.Done) != 6 || a.c.credits.reserved != 4 {
		t.Fatalf("%d are recalled, %v", len(a.b.Done), a.c)
	}
	for _, d := range a.b.Done {
		if !d.Recalled || d.Failure == nil || !slices.Contains(puts, d.Tx) {
			t.Errorf("%+v", d)
		}
	}
	a.carry()
	settleInOrder(a, b)
	if len(a.pending) > 0 || a.done != 11 {
		t.Errorf("%d messages are left, %d done", len(a.pending), a.done)
	}
}

// Calls that a driver makes at an unexpected time have no effect.
func TestCallsOutOfPlace(t *testing.T) {
	c, b := NewConn(Options{}), Batch{}
	c.Received(start, 0, nil, &b)
	c.Completed(start, 3, &b)
	c.Tick(start, &b)
	c.Establish(start, Session{}, &b)
	if !b.Empty() || c.State() != Init || !c.wake().IsZero() || !c.Alive().IsZero() {
		t.Errorf("%+v, %v", b, c)
	}
	tx := &Tx{}
	h := lnet.Header{Type: lnet.MsgPut}
	c.Immediate(start, tx, &h, &b)
	c.Get(start, tx, &h, &Descriptor{}, &b)
	c.Put(start, tx, &h, nil, &b)
	if len(b.Done) != 3 {
		t.Errorf("%+v", b.Done)
	}
	c.Flushed(&b)
	c.Flushed(&b)
	c.Close(nil, &b)
	if c.State() != Disconnected {
		t.Error(c)
	}

	a, _ := newPair(t, Options{}, V2, 8, 256)
	a.hear(Message{Type: Immediate, LNet: lnet.Header{Dest: nid1, Src: nid2, Type: lnet.MsgPut}})
	rx := a.waiting[0]
	a.c.Release(rx) // not placed
	a.c.Consumed(start, rx, &a.b)
	a.c.Consumed(start, rx, &a.b)
	a.c.Sink(start, rx, descriptor(0, 1, 1), &a.b)
	a.c.Reply(start, rx, nil, &a.b)
	a.c.Refuse(start, rx, 0, &a.b)
	if len(a.b.Placed) != 1 || a.c.credits.outstanding != 1 {
		t.Errorf("%+v", a.b)
	}
	a.c.Release(rx)
	a.c.Release(rx)
	if len(a.c.free) != 1 {
		t.Error("released twice")
	}
}

// A message that cannot be sent fails and uses no credits.
func TestWhatCannotBeSent(t *testing.T) {
	a, _ := newPair(t, Options{}, V2, 8, 256)
	large := a.header(lnet.MsgPut, 1, 1)
	large.Src = mustNID("2001:db8::1@o2ib")
	long := a.header(lnet.MsgPut, 1, MaxPayload+1)
	for _, h := range []lnet.Header{large, long} {
		tx := &Tx{}
		a.c.Immediate(start, tx, &h, &a.b)
		if len(a.b.Done) != 1 || a.b.Done[0].Failure == nil || len(a.b.Sends) > 0 {
			t.Errorf("%+v", a.b)
		}
		a.b.Reset()
	}
}

// The requests of two connections with a peer have different cookies, even if places are reused
// (o2iblnd 5.9).
//
// o2iblnd 5.9 (2)
func TestCookiesDiffer(t *testing.T) {
	seen := map[Cookie]bool{}
	for number := range uint16(4) {
		r := requests{connection: number}
		txs := make([]Tx, 20)
		for range 10 {
			for i := range txs {
				r.add(&txs[i])
				if seen[txs[i].cookie] {
					t.Fatalf("cookie %#x twice", txs[i].cookie)
				}
				seen[txs[i].cookie] = true
			}
			for i := range txs {
				if r.find(txs[i].cookie) != &txs[i] || r.find(txs[i].cookie+1<<16) != nil {
					t.Fatal("not found, or found by another cookie")
				}
				r.remove(&txs[i])
			}
		}
	}
}

// The values of Health are those of lnd.Status (o2iblnd 13.3), and errors.Is and errors.As work
// with a Failure.
//
// o2iblnd 13.3
func TestHealth(t *testing.T) {
	for h, want := range map[Health]lnd.Status{
		OK: lnd.StatusOK, LocalDropped: lnd.StatusLocalDropped, LocalAborted: lnd.StatusLocalAborted, LocalError: lnd.StatusLocalError,
		LocalTimeout: lnd.StatusLocalTimeout, RemoteError: lnd.StatusRemoteError, RemoteDropped: lnd.StatusRemoteDropped,
		RemoteTimeout: lnd.StatusRemoteTimeout, NetworkTimeout: lnd.StatusNetworkTimeout,
	} {
		if lnd.Status(h) != want {
			t.Errorf("%d is %v, want %v", h, lnd.Status(h), want)
		}
	}
	f := &Failure{Errno: syscall.ETIMEDOUT, Err: ErrDisconnected}
	if !errors.Is(f, syscall.ETIMEDOUT) || !errors.Is(f, ErrDisconnected) || f.Error() != "connection timed out: disconnected" {
		t.Error(f)
	}
}

// Tunables have the kernel's defaults and limits (o2iblnd 15, 8).
//
// o2iblnd 8 (1), 15, 9.1
func TestFlow(t *testing.T) {
	for _, c := range []struct{ f, want Flow }{
		{Flow{}, Flow{8, 4, 8}},
		{Flow{PeerCredits: 4}, Flow{8, 4, 8}},
		{Flow{PeerCredits: 32, HighWater: 16, ConcurrentSends: 64}, Flow{32, 16, 64}},
		{Flow{PeerCredits: 32, HighWater: 40, ConcurrentSends: 65}, Flow{32, 31, 64}},
		{Flow{PeerCredits: 1000, HighWater: 1, ConcurrentSends: 1}, Flow{255, 127, 127}},
	} {
		if got := c.f.Resolved(); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.f, got, c.want)
		}
	}
	if f := (Flow{PeerCredits: 8, HighWater: 4}).Resolved(); f.highWater(V2, 8) != 4 || f.highWater(V1, 8) != 7 || f.highWater(V2, 32) != 16 {
		t.Error("high-water marks")
	}
	for sends, want := range map[int]int{2: 4, 8: 8, 60: 16} {
		if got := (Flow{PeerCredits: 32, ConcurrentSends: sends}).concurrent(V1); got != want {
			t.Errorf("%d SENDs in V1, want %d", got, want)
		}
	}
	if o := (Options{}).resolved(); o.Timeout != 50*time.Second || o.Keepalive != 100*time.Second {
		t.Errorf("%+v", o)
	}
}
