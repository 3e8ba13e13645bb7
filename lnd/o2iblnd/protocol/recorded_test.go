package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/recording"
)

// eachRecording runs a test for the connections in each recording of kernel nodes, and in others.
func eachRecording(t *testing.T, run func(t *testing.T, c *recording.RDMAConversation), others ...string) {
	t.Helper()
	for _, name := range append(append(recording.RDMANames(), "o4-o2ib-two-rails"), others...) {
		t.Run(name, func(t *testing.T) {
			rec, err := recording.LoadRDMA(name)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d connections, %d packets of others skipped", len(rec.Conversations), rec.Skipped)
			for _, c := range rec.Conversations {
				run(t, c)
			}
		})
	}
}

// isMessage reports whether a recorded transfer is a message.
func isMessage(x *recording.Transfer) bool {
	switch x.Kind {
	case recording.CMRequest, recording.CMReply, recording.Sent:
		return true
	case recording.CMReady, recording.Written, recording.CMReject:
	}
	return false
}

// Every message that kernels have sent decodes, and encodes to the same bytes.
//
// o2iblnd 4 (1), 5.1, 5.2, 5.3 (1), 5.4, 5.5 (1), 5.6, 5.7, 5.8, 3.5
func TestRecordedMessages(t *testing.T) {
	eachRecording(t, func(t *testing.T, c *recording.RDMAConversation) {
		var m Message
		count := map[Type]int{}
		for i := range c.Transfers {
			x := &c.Transfers[i]
			if !isMessage(x) {
				continue
			}
			order, err := m.Decode(x.Data, Check)
			if err != nil {
				t.Fatalf("transfer %d: %v\n% x", i, err, x.Data)
			}
			count[m.Type]++
			again, err := m.Append(nil, order.(binary.AppendByteOrder))
			if err != nil {
				t.Fatalf("transfer %d: %v", i, err)
			}
			if m.Type == Immediate {
				p, err := m.Content()
				if err != nil {
					t.Fatalf("transfer %d: %v", i, err)
				}
				again = append(again, p...)
			}
			// The CM pads the private data of the passive side with zeros (o2iblnd 3.5).
			if n := len(again); !bytes.Equal(again, x.Data[:n]) || len(bytes.Trim(x.Data[n:], "\x00")) > 0 {
				t.Errorf("transfer %d became\n% x, was\n% x", i, again, x.Data)
			}
		}
		t.Log(count)
	}, "o2-o2ib-credits-mismatch")
}

// A recorded conversation, in which our Conn replaces either kernel. It receives what the other
// kernel has sent, and is called as the kernel's LNet acted. On the wire and by RDMA it must send
// what the kernel sent. Only cookies may differ, and credits may be returned earlier: with the
// answer to a request instead of after it (o2iblnd 9.4).
//
// o2iblnd 2.2 (1), 3.6 agree, 3.7, 10.2 (1), 10.3 (1)
func TestRecordedConversations(t *testing.T) {
	eachRecording(t, func(t *testing.T, c *recording.RDMAConversation) {
		for _, side := range []recording.Side{recording.Active, recording.Passive} {
			t.Run(fmt.Sprint("called by ", c.Addrs[recording.Active], ", ", side), func(t *testing.T) {
				p := &player{t: t, side: side, cookies: map[Cookie]Cookie{}, txs: map[*Tx]bool{}}
				for i := range c.Transfers {
					p.at = i
					p.play(&c.Transfers[i])
				}
				p.end()
			})
		}
	})
}

// player plays one side of a recording.
type player struct {
	t        *testing.T
	side     recording.Side
	at       int
	now      time.Time
	c        *Conn
	b        Batch
	peering  Peering
	request  Message
	session  Session
	buffers  int                  // posted buffers
	waiting  []*Rx                // arrivals
	cookies  map[Cookie]Cookie    // cookies of the recorded side, by ours
	writes   []recording.Transfer // WRITEs of the recorded side since its last SEND
	owed     int                  // credits that the recorded side has returned later than we did
	txs      map[*Tx]bool
	segments []Segment
}

func (p *player) fatalf(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("transfer %d: %s", p.at, fmt.Sprintf(format, args...))
}

func (p *player) play(x *recording.Transfer) {
	p.now = x.At
	var m Message
	if isMessage(x) {
		if _, err := m.Decode(x.Data, Check); err != nil {
			p.fatalf("%v", err)
		}
	}
	switch ours := x.From == p.side; x.Kind {
	case recording.CMRequest:
		p.connect(&m, ours)
	case recording.CMReply:
		p.accept(&m, x.Data, ours)
	case recording.CMReady:
		if p.side == recording.Passive {
			p.c.Establish(p.now, p.session, &p.b)
			p.carry()
		}
	case recording.Written:
		if ours {
			p.writes = append(p.writes, *x)
		}
	case recording.Sent:
		if ours {
			p.say(&m, x.Data)
		} else {
			p.hear(x.Data)
		}
	}
}

// self returns the NI that we replace.
func self(m *Message, ours bool) Self {
	s := Self{NID: m.Src, Stamp: m.SrcStamp, Depth: int(m.Params.Depth), Fragments: MaxFragments}
	if !ours {
		s = Self{NID: m.Dst, Stamp: m.DstStamp, Depth: 8, Fragments: MaxFragments}
	}
	return s
}

func (p *player) connect(m *Message, ours bool) {
	p.c = NewConn(Options{})
	p.buffers = ReceiveBuffers(V2, int(m.Params.Depth))
	p.request = *m
	if !ours {
		return // checked with the answer, which contains our NID
	}
	s := self(m, true)
	var got Message
	p.peering.Request(&s, m.Dst, &got)
	want := *m
	want.Params.Fragments = MaxOffered // so that no version needs a second attempt (o2iblnd 15)
	if !bytes.Equal(wireOf(p.t, got), wireOf(p.t, want)) {
		p.fatalf("CONNREQ %+v, want %+v", got, want)
	}
	p.c.Connect(p.now)
}

func (p *player) accept(m *Message, data []byte, ours bool) {
	if !ours {
		s, err := p.peering.Connected(&p.request, m)
		if err != nil {
			p.fatalf("%v", err)
		}
		p.session = s
		p.c.Establish(p.now, s, &p.b)
		p.carry()
		return
	}
	s := self(m, true)
	l := Listener{NIs: []Self{s}}
	var caller, ack Message
	if _, r, err := l.Judge(1023, wireOf(p.t, p.request), &caller); err != nil {
		p.fatalf("rejected with %+v: %v", r, err)
	}
	if r, ok := p.peering.Accept(&caller, &s, false); !ok {
		p.fatalf("rejected with %+v", r)
	}
	p.session = s.Agree(&caller, 8, &ack)
	if got := wireOf(p.t, ack); !bytes.Equal(got, data[:len(got)]) {
		p.fatalf("CONNACK % x, want % x", got, data)
	}
	p.c.Accept()
}

// hear passes a message of the other kernel to the Conn, with our cookies in it.
func (p *player) hear(data []byte) {
	b := bytes.Clone(data)
	switch Type(b[6]) {
	case PutAck, PutNak, PutDone, GetDone:
		for ours, theirs := range p.cookies {
			if theirs == cookie(b[headerSize:]) {
				binary.LittleEndian.PutUint64(b[headerSize:], uint64(ours))
				delete(p.cookies, ours)
				break
			}
		}
	}
	p.buffers--
	p.c.Received(p.now, 0, b, &p.b)
	p.carry()
}

// carry carries out a batch that is not compared with the recording.
func (p *player) carry() {
	if p.b.Disconnect {
		p.fatalf("disconnected: %v", p.b.Failure)
	}
	if len(p.b.Sends) > 0 && Type(p.b.Head(&p.b.Sends[0])[6]) != PutDone {
		p.fatalf("sends %s of its own accord", describe(p.b.Head(&p.b.Sends[0])))
	}
	p.finish()
}

// finish handles everything except Sends. If there are Sends, they are left for say.
func (p *player) finish() {
	p.buffers += len(p.b.Receives)
	for _, d := range p.b.Done {
		if d.Failure != nil || !p.txs[d.Tx] || d.Replied && d.Sure != d.Length {
			p.fatalf("done: %+v", d)
		}
		delete(p.txs, d.Tx)
	}
	for _, rx := range p.b.Arrivals {
		p.waiting = append(p.waiting, rx)
		if rx.Type == Immediate { // LNet consumes it at once
			p.waiting = p.waiting[:len(p.waiting)-1]
			p.b.Arrivals = nil
			p.c.Consumed(p.now, rx, &p.b)
			p.buffers++
			p.b.Receives = nil
		}
	}
	for _, x := range p.b.Placed {
		if x.Failure != nil {
			p.fatalf("placed: %v", x.Failure)
		}
		p.c.Release(x.Rx)
	}
	if len(p.b.Sends) == 0 {
		p.b.Reset()
	} else {
		p.b.Done, p.b.Placed, p.b.Arrivals, p.b.Receives = nil, nil, nil, nil
	}
}

// say makes the Conn do what the kernel did, and compares the results.
func (p *player) say(m *Message, want []byte) {
	tx := &Tx{}
	switch m.Type {
	case Immediate:
		p.txs[tx] = true
		p.c.Immediate(p.now, tx, &m.LNet, &p.b)
	case PutReq:
		p.txs[tx] = true
		p.segments = []Segment{{Addr: 1 << 40, Key: 5, Length: m.LNet.PayloadLength}}
		p.c.Put(p.now, tx, &m.LNet, p.segments, &p.b)
	case GetReq:
		p.txs[tx] = true
		p.c.Get(p.now, tx, &m.LNet, &m.Sink, &p.b)
	case PutAck:
		p.c.Sink(p.now, p.arrival(PutReq, m.Cookie), &m.Sink, &p.b)
	case GetDone:
		source := []Segment{{Addr: 2 << 40, Key: 6, Length: uint32(m.Status)}}
		p.c.Reply(p.now, p.arrival(GetReq, m.Cookie), source, &p.b)
	case PutDone: // sent without a call
	default:
		p.fatalf("the recording has %v", m.Type)
	}
	if len(p.b.Sends) != 1 {
		p.fatalf("%d messages for %v", len(p.b.Sends), m.Type)
	}
	s := &p.b.Sends[0]
	p.compareWrites(s)
	p.compare(p.b.Head(s), m, want)
	slot := s.Slot
	p.b.Sends = nil
	p.finish()
	p.c.Completed(p.now, slot, &p.b)
	p.carry()
}

func (p *player) arrival(of Type, c Cookie) *Rx {
	for i, rx := range p.waiting {
		if rx.Type == of && rx.cookie == c {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			return rx
		}
	}
	p.fatalf("no %v has come with cookie %v", of, c)
	return nil
}

// compare compares a message with the recorded one.
func (p *player) compare(got []byte, m *Message, want []byte) {
	got = bytes.Clone(got)
	own := -1
	switch m.Type {
	case PutReq, GetReq:
		own = immediateSize
	case PutAck:
		own = headerSize + cookieSize
	case PutDone:
		copy(got[headerSize:], want[headerSize:headerSize+cookieSize])
		if s := cookie(want[headerSize:]); s != m.Cookie {
			p.fatalf("cookie %v", s)
		}
	}
	if own >= 0 {
		p.cookies[cookie(got[own:])] = cookie(want[own:])
		copy(got[own:], want[own:own+cookieSize])
	}
	p.owed += int(got[7]) - int(want[7])
	if p.owed < 0 {
		p.fatalf("%v returns fewer credits than the kernel by now: %d", m.Type, p.owed)
	}
	got[7] = want[7]
	if n := len(got); !bytes.Equal(got, want[:n]) {
		p.fatalf("sent\n% x, want\n% x", got, want)
	}
}

// compareWrites compares the RDMA WRITEs before a message.
func (p *player) compareWrites(s *Send) {
	if s.Writes != len(p.writes) {
		p.fatalf("%d WRITEs, want %d", s.Writes, len(p.writes))
	}
	for i, w := range p.b.Writes[s.First : s.First+s.Writes] {
		if x := &p.writes[i]; w.Addr != x.Addr || w.Key != x.Key || int(w.Length) != len(x.Data) {
			p.fatalf("WRITE %+v, want %d bytes to %#x with key %#x", w, len(x.Data), x.Addr, x.Key)
		}
	}
	p.writes = nil
}

// end checks that nothing is left.
func (p *player) end() {
	if len(p.txs)+len(p.waiting)+len(p.writes)+len(p.cookies) > 0 {
		p.fatalf("left: %d messages, %d arrivals, %d writes, %d cookies", len(p.txs), len(p.waiting), len(p.writes), len(p.cookies))
	}
	if p.buffers != ReceiveBuffers(V2, 8) {
		p.fatalf("%d receive buffers are posted", p.buffers)
	}
}
