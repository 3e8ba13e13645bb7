package protocol

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

// start is the time at which the tests begin.
var start = time.Unix(1_700_000_000, 0)

// end is one end of a connection over a wire in memory: a Conn, a driver that carries out its
// batches, a device, and an LNet above them. The device checks what a real one would: that a SEND
// finds a receive buffer, that the send queue does not overflow, and that no slot is used twice.
type end struct {
	t    rapid.TB
	name string
	c    *Conn
	b    Batch
	peer *end
	now  time.Time

	buffers [][]byte
	posted  []int
	used    map[int]bool // slots
	wrs     int
	wire    []chain // posted, not yet arrived at the peer
	sends   []chain // arrived, completions not polled
	recvs   []recv  // completions not polled

	memory []byte // addresses are offsets
	brk    int

	slow    [4]int // for each kind of step, the percentage of its chances that is skipped
	waiting []*Rx  // arrivals without an answer
	gone    map[*Rx]bool
	pending map[*Tx]*op
	placing map[*Rx]*op
	done    int
	placed  int
	failed  int
	dropped bool // the connection is being disconnected
	trace   func(format string, args ...any)
}

type chain struct {
	slot, wrs int
	part      bool
	writes    []Write
	pieces    [][]Segment
	message   []byte
}

type recv struct{ buffer, n int }

// op is one message of LNet. Its payload is derived from its number.
type op struct {
	id    int
	form  Type
	n     int
	at    int // address at this end
	tx    *Tx
	spare int // bytes by which a sink is larger than the answer
}

func fill(b []byte, id int) {
	for i := range b {
		b[i] = byte(id*31 + i*7 + i>>8)
	}
}

func newEnd(t rapid.TB, name string, o Options, v Version, depth int) *end {
	e := &end{
		t: t, name: name, c: NewConn(o), now: start, used: map[int]bool{}, memory: make([]byte, 1<<20),
		gone: map[*Rx]bool{}, pending: map[*Tx]*op{}, placing: map[*Rx]*op{},
		trace: func(string, ...any) {},
	}
	for n := range ReceiveBuffers(v, depth) {
		e.buffers = append(e.buffers, make([]byte, MaxMessage))
		e.posted = append(e.posted, n)
	}
	return e
}

func sessions(v Version, depth, fragments int) (s1, s2 Session) {
	s1 = Session{Version: v, Self: nid1, SelfStamp: stamp1, Peer: nid2, PeerStamp: stamp2, Depth: depth, Fragments: fragments}
	s2 = Session{Version: v, Self: nid2, SelfStamp: stamp2, Peer: nid1, PeerStamp: stamp1, Depth: depth, Fragments: fragments}
	return s1, s2
}

// newPair returns a connection that both ends have established.
func newPair(t rapid.TB, o Options, v Version, depth, fragments int) (a, b *end) {
	a, b = newEnd(t, "A", o, v, depth), newEnd(t, "B", o, v, depth)
	a.peer, b.peer = b, a
	s1, s2 := sessions(v, depth, fragments)
	a.c.Connect(start)
	b.c.Accept()
	a.c.Establish(start, s1, &a.b)
	b.c.Establish(start, s2, &b.b)
	return a, b
}

// carry carries out the batch of the connection.
func (e *end) carry() {
	e.posted = append(e.posted, e.b.Receives...)
	for i := range e.b.Sends {
		s := &e.b.Sends[i]
		k := chain{slot: s.Slot, wrs: s.Writes + 1, part: s.Part}
		if s.Part {
			k.wrs--
		} else {
			k.message = append([]byte(nil), e.b.Head(s)...)
		}
		if s.Payload != nil {
			o := e.pending[s.Payload]
			k.message = append(k.message, e.memory[o.at:o.at+o.n]...)
			if e.c.o.Checksum != NoChecksum {
				Seal(k.message, order, e.c.o.Checksum)
			}
		}
		for _, w := range e.b.Writes[s.First : s.First+s.Writes] {
			k.writes = append(k.writes, w)
			k.pieces = append(k.pieces, append([]Segment(nil), e.b.Pieces[w.First:w.First+w.Pieces]...))
			e.trace("%s: RDMA WRITE %d bytes of %d pieces to %#x", e.name, w.Length, w.Pieces, w.Addr)
		}
		if k.part {
			e.trace("%s: no more fit", e.name)
		} else {
			e.trace("%s: %v", e.name, describe(k.message))
		}
		if e.used[k.slot] || k.slot >= e.c.Slots() {
			e.t.Fatalf("%s: slot %d is in use", e.name, k.slot)
		}
		e.used[k.slot] = true
		e.wrs += k.wrs
		if e.wrs > e.c.o.SendQueue {
			e.t.Fatalf("%s: %d work requests in a send queue of %d", e.name, e.wrs, e.c.o.SendQueue)
		}
		e.wire = append(e.wire, k)
	}
	if e.b.Disconnect {
		e.dropped = true
		e.trace("%s: disconnect: %v", e.name, e.b.Failure)
	}
	e.checkRequests()
	arrivals := append([]*Rx(nil), e.b.Arrivals...)
	for _, rx := range e.b.Withdrawn {
		e.trace("%s: %v withdrawn", e.name, rx.Type)
		e.gone[rx] = true
	}
	for _, d := range e.b.Done {
		e.finish(d)
	}
	for _, p := range e.b.Placed {
		e.place(p)
	}
	e.b.Reset()
	for _, rx := range arrivals {
		e.trace("%s: arrived %v %v of %d bytes", e.name, rx.Type, rx.Header.Type, rx.Header.PayloadLength)
		e.waiting = append(e.waiting, rx)
	}
}

// checkRequests checks that there is a receive buffer for the answer to each request.
func (e *end) checkRequests() {
	n := 0
	for _, tx := range e.c.requests.places {
		if tx != nil && tx.form.reserves() {
			n++
		}
	}
	if depth := e.c.Session().Depth; n > depth {
		e.t.Fatalf("%s: %d requests at a depth of %d", e.name, n, depth)
	}
}

func describe(message []byte) string {
	var m Message
	if _, err := m.Decode(append(message, make([]byte, MaxMessage)...), DontCheck); err != nil {
		return err.Error()
	}
	s := fmt.Sprintf("%v credits %d", m.Type, m.Credits)
	switch m.Type {
	case PutNak, PutDone, GetDone:
		s += fmt.Sprintf(" status %d", m.Status)
	}
	return s
}

// finish is called when a sent message is done.
func (e *end) finish(d Done) {
	o := e.pending[d.Tx]
	if o == nil {
		e.t.Fatalf("%s: a message has ended twice", e.name)
	}
	delete(e.pending, d.Tx)
	e.done++
	if d.Failure != nil {
		e.failed++
		e.trace("%s: %v failed, health %d: %v", e.name, o.form, d.Failure.Health, d.Failure)
		return
	}
	e.trace("%s: %v done", e.name, o.form)
	if o.form != GetReq {
		return
	}
	want := make([]byte, o.n)
	fill(want, o.id)
	if got := e.memory[o.at : o.at+o.n]; !d.Replied || d.Length != o.n || string(got) != string(want) {
		e.t.Fatalf("%s: the answer to GET %d is wrong: %+v", e.name, o.id, d)
	}
	if d.Sure < d.Length {
		e.trace("%s: %d of %d bytes are sure", e.name, d.Sure, d.Length)
	}
}

// place is called when an arrival is placed.
func (e *end) place(p Placed) {
	o := e.placing[p.Rx]
	if o == nil {
		e.t.Fatalf("%s: an arrival has ended twice, or was not answered", e.name)
	}
	delete(e.placing, p.Rx)
	e.placed++
	if p.Failure != nil {
		e.trace("%s: %v not placed, health %d: %v", e.name, o.form, p.Failure.Health, p.Failure)
	} else {
		e.trace("%s: %v placed", e.name, o.form)
		if o.form == PutReq && o.n > 0 {
			want := make([]byte, o.n)
			fill(want, o.id)
			if string(e.memory[o.at:o.at+o.n]) != string(want) {
				e.t.Fatalf("%s: PUT %d has other bytes", e.name, o.id)
			}
		}
	}
	e.c.Release(p.Rx)
}

// room allocates n bytes and returns their address.
func (e *end) room(n int) int {
	if e.brk+n > len(e.memory) {
		e.brk = 0 // the earlier contents are no longer used in these tests
	}
	at := e.brk
	e.brk += n
	return at
}

// put sends message number id with n bytes of payload in several pieces.
func (e *end) put(id, n, pieces int) *op {
	o := e.payload(id, n)
	o.form = PutReq
	h := e.header(lnet.MsgPut, id, n)
	e.c.Put(e.now, o.tx, &h, cut(o.at, n, pieces), &e.b)
	e.carry()
	return o
}

func (e *end) immediate(id, n int) *op {
	o := e.payload(id, n)
	o.form = Immediate
	h := e.header(lnet.MsgPut, id, n)
	e.c.Immediate(e.now, o.tx, &h, &e.b)
	e.carry()
	return o
}

func (e *end) payload(id, n int) *op {
	o := &op{id: id, n: n, at: e.room(n), tx: &Tx{}}
	fill(e.memory[o.at:o.at+n], id)
	e.pending[o.tx] = o
	return o
}

// get asks for n bytes. Its sink has spare bytes more.
func (e *end) get(id, n, spare, fragments int) *op {
	o := &op{id: id, form: GetReq, n: n, at: e.room(n + spare), tx: &Tx{}, spare: spare}
	e.pending[o.tx] = o
	h := e.header(lnet.MsgGet, id, 0)
	h.Length = uint32(n + spare)
	h.Offset = uint32(n) // how many bytes the other end answers with
	e.c.Get(e.now, o.tx, &h, descriptor(o.at, n+spare, fragments), &e.b)
	e.carry()
	return o
}

func (e *end) header(t lnet.MsgType, id, n int) lnet.Header {
	s := e.c.Session()
	return lnet.Header{
		Dest: s.Peer, Src: s.Self, DestPID: lnet.PIDLustre, SrcPID: lnet.PIDLustre, Type: t,
		MatchBits: uint64(id), PayloadLength: uint32(n),
	}
}

// cut divides n bytes at an address into pieces.
func cut(at, n, pieces int) (list []Segment) {
	for pieces = min(max(pieces, 1), max(n, 1)); pieces > 0; pieces-- {
		k := n / pieces
		list = append(list, Segment{Addr: uint64(at), Key: 7, Length: uint32(k)})
		at, n = at+k, n-k
	}
	return list
}

func descriptor(at, n, fragments int) *Descriptor {
	d := &Descriptor{Key: 9}
	for _, s := range cut(at, n, fragments) {
		d.Fragments = append(d.Fragments, Fragment{Addr: s.Addr, Length: s.Length})
	}
	return d
}

// answer answers the i-th waiting arrival. The sink or source has the given number of pieces. If
// drop is set, the arrival is refused.
func (e *end) answer(i, pieces int, drop bool) {
	rx := e.waiting[i]
	e.waiting = append(e.waiting[:i], e.waiting[i+1:]...)
	o := &op{id: int(rx.Header.MatchBits), form: rx.Type, n: int(rx.Header.PayloadLength)}
	e.placing[rx] = o
	switch {
	case rx.Type == Immediate:
		want := make([]byte, o.n)
		fill(want, o.id)
		if !e.gone[rx] && string(rx.Payload) != string(want) {
			e.t.Fatalf("%s: IMMEDIATE %d has other bytes", e.name, o.id)
		}
		e.c.Consumed(e.now, rx, &e.b)
	case drop:
		o.n = 0
		e.c.Refuse(e.now, rx, 0, &e.b)
	case rx.Type == PutReq:
		o.at = e.room(o.n)
		clear(e.memory[o.at : o.at+o.n])
		e.c.Sink(e.now, rx, descriptor(o.at, o.n, pieces), &e.b)
	default:
		o.n = int(rx.Header.Offset)
		o.at = e.room(o.n)
		fill(e.memory[o.at:o.at+o.n], o.id)
		e.c.Reply(e.now, rx, cut(o.at, o.n, pieces), &e.b)
	}
	delete(e.gone, rx)
	e.carry()
}

// deliver makes the oldest chain arrive at the peer.
func (e *end) deliver() bool {
	if len(e.wire) == 0 {
		return false
	}
	k := e.wire[0]
	e.wire = e.wire[1:]
	p := e.peer
	for i, w := range k.writes {
		at := int(w.Addr)
		for _, s := range k.pieces[i] {
			at += copy(p.memory[at:], e.memory[s.Addr:s.Addr+uint64(s.Length)])
		}
		if at != int(w.Addr)+int(w.Length) || w.Key != 9 {
			e.t.Fatalf("%s: a WRITE %+v has %d bytes", e.name, w, at-int(w.Addr))
		}
	}
	if !k.part {
		if sealed := order.Uint32(k.message[checksumAt:]) != 0; sealed != (e.c.o.Checksum != NoChecksum) {
			e.t.Fatalf("%s: sealed: %v", e.name, sealed)
		}
		if len(p.posted) == 0 {
			e.t.Fatalf("%s: RNR: no receive buffer for %v", p.name, describe(k.message))
		}
		n := p.posted[0]
		p.posted = p.posted[1:]
		p.recvs = append(p.recvs, recv{n, copy(p.buffers[n], k.message)})
		p.checkNoops()
	}
	e.sends = append(e.sends, k)
	return true
}

// checkNoops checks that there is a receive buffer for each NOOP that the driver has not polled
// (o2iblnd 9.6).
func (e *end) checkNoops() {
	n := 0
	for _, r := range e.recvs {
		if Type(e.buffers[r.buffer][6]) == Noop {
			n++
		}
	}
	if n > noopBuffers && e.c.Session().Version == V2 {
		e.t.Fatalf("%s: %d NOOPs have come and were not looked at", e.name, n)
	}
}

// pollSend polls one completion of a chain.
func (e *end) pollSend() bool {
	if len(e.sends) == 0 {
		return false
	}
	k := e.sends[0]
	e.sends = e.sends[1:]
	e.used[k.slot] = false
	e.wrs -= k.wrs
	e.c.Completed(e.now, k.slot, &e.b)
	e.carry()
	return true
}

func (e *end) pollRecv() bool {
	if len(e.recvs) == 0 {
		return false
	}
	r := e.recvs[0]
	e.recvs = e.recvs[1:]
	e.c.Received(e.now, r.buffer, e.buffers[r.buffer][:r.n], &e.b)
	e.carry()
	return true
}

// step performs one possible step at e. It returns false if no step is possible, or if it was
// skipped according to slow.
func (e *end) step(r *rand.Rand) bool {
	for _, k := range r.Perm(4) {
		if r.IntN(100) < e.slow[k] {
			continue
		}
		switch {
		case k == 0 && e.deliver(), k == 1 && e.pollSend(), k == 2 && e.pollRecv():
			return true
		case k == 3 && len(e.waiting) > 0:
			e.answer(r.IntN(len(e.waiting)), 1+r.IntN(4), r.IntN(8) == 0 && e.waiting[0].Type != GetReq)
			return true
		}
	}
	return false
}

// settle performs steps until no step is possible.
func settle(a, b *end, r *rand.Rand) {
	a.slow, b.slow = [4]int{}, [4]int{}
	for again := true; again; {
		again = a.step(r) || b.step(r)
	}
}

// flush disconnects e, as the driver does.
func (e *end) flush() {
	e.wire, e.sends, e.recvs = nil, nil, nil
	e.c.Flushed(&e.b)
	e.carry()
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// wireOf returns the encoded message.
func wireOf(t rapid.TB, m Message) []byte {
	t.Helper()
	b, err := m.Append(nil, binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	return append(b, m.Payload...)
}
