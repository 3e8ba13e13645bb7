package protocol

import (
	"encoding/binary"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// we returns the NI of the second node of the vectors.
func we() Self { return Self{NID: nid2, Stamp: stamp2, Depth: 8, Fragments: MaxFragments} }

// CONNREQs in the order of the checks: each row is rejected for its reason, and the reject contains
// what it may (o2iblnd 3.6, 21).
//
// o2iblnd 2.2 (2), 3.6 (1)-(10), 8 (3)
func TestCallers(t *testing.T) {
	base := from1(Message{Type: ConnReq, Params: paramsOfVectors})
	nothing := Params{Size: MaxMessage}
	ours := Params{Depth: 8, Fragments: 257, Size: MaxMessage}
	edit := func(f func(*Message)) Message { m := base; f(&m); return m }
	for _, c := range []struct {
		name     string
		listener func(*Listener)
		port     uint16
		message  Message
		bytes    func([]byte) []byte
		want     Reject // zero: accepted
		wantErr  string
	}{
		{name: "as kernels ask", message: base},
		{name: "from any port", port: 40000, message: base},
		{name: "fewer fragments", message: edit(func(m *Message) { m.Params.Fragments = 1 })},
		{name: "dststamp", message: edit(func(m *Message) { m.DstStamp = stamp2 })},
		{
			name: "port", port: 1024, listener: func(l *Listener) { l.Privileged = true }, message: base,
			want: Reject{Version: V2, Why: Fatal, Limits: nothing}, wantErr: "message: source port 1024: a privileged port, below 1024, is required",
		},
		{name: "privileged port", port: 1023, listener: func(l *Listener) { l.Privileged = true }, message: base},
		{
			name: "short", message: base, bytes: func(b []byte) []byte { return b[:5] },
			want: Reject{Version: V2, Why: Fatal, Limits: nothing}, wantErr: "5 of 6",
		},
		{
			name: "unified magic", message: base, bytes: func(b []byte) []byte { binary.LittleEndian.PutUint32(b, magicUnified); return b },
			want: Reject{Version: V2, Why: Fatal, Limits: nothing}, wantErr: "magic 0x45726963",
		},
		{
			name: "version", message: base, bytes: func(b []byte) []byte { b[4] = 0x13; return b },
			want: Reject{Version: V2, Why: Fatal, Limits: nothing}, wantErr: "version 19",
		},
		{
			name: "V1 of ours", message: edit(func(m *Message) { m.Version = V1 }),
			want: Reject{Version: V2, Why: Fatal, Limits: nothing}, wantErr: "version 17",
		},
		{
			name: "nob", message: base, bytes: func(b []byte) []byte { b[8] = 57; return b },
			want: Reject{Version: V2, Why: Fatal, Limits: nothing}, wantErr: "nob 57",
		},
		{
			name: "dstnid", message: edit(func(m *Message) { m.Dst = mustNID("10.8.0.9@o2ib") }),
			want: Reject{Version: V2, Why: Fatal, Limits: nothing}, wantErr: "dstnid 10.8.0.9@o2ib: this node has no NI with this NID",
		},
		{
			name: "net", message: edit(func(m *Message) { m.Dst = mustNID("10.8.0.2@o2ib1") }),
			want: Reject{Version: V2, Why: Fatal, Limits: nothing}, wantErr: "dstnid",
		},
		{
			name: "no NI yet", message: base, listener: func(l *Listener) { l.NIs = nil },
			want: Reject{Version: V2, Why: Early, Limits: nothing}, wantErr: "dstnid",
		},
		{
			name: "an NI that is not up", message: base, listener: func(l *Listener) { l.NIs[0].Down = true },
			want: Reject{Version: V2, Why: Early, Limits: nothing}, wantErr: "dstnid",
		},
		{
			name: "other dststamp", message: edit(func(m *Message) { m.DstStamp = 5 }),
			want: Reject{Version: V2, Why: Stale, Stamp: stamp2, Limits: ours}, wantErr: "dststamp 5: not the incarnation of this NI",
		},
		{
			name: "type", message: edit(func(m *Message) { m.Type = Noop }), bytes: func(b []byte) []byte { return append(b, make([]byte, 8)...) },
			want: Reject{Version: V2, Why: Fatal, Stamp: stamp2, Limits: ours}, wantErr: "expected CONNREQ",
		},
		{
			name: "depth", message: edit(func(m *Message) { m.Params.Depth = 16 }),
			want: Reject{Version: V2, Why: TooDeep, Stamp: stamp2, Limits: ours}, wantErr: "queue_depth 16",
		},
		{
			name: "no depth", message: edit(func(m *Message) { m.Params.Depth = 0 }),
			want: Reject{Version: V2, Why: Fatal, Stamp: stamp2, Limits: ours}, wantErr: "queue_depth 0",
		},
		{
			name: "fragments", message: edit(func(m *Message) { m.Params.Fragments = 300 }),
			want: Reject{Version: V2, Why: TooManyFrag, Stamp: stamp2, Limits: ours}, wantErr: "max_frags 300",
		},
		{
			name: "no fragments", message: edit(func(m *Message) { m.Params.Fragments = 0 }),
			want: Reject{Version: V2, Why: Fatal, Stamp: stamp2, Limits: ours}, wantErr: "max_frags 0",
		},
		{
			name: "size", message: edit(func(m *Message) { m.Params.Size = 8192 }),
			want: Reject{Version: V2, Why: Fatal, Stamp: stamp2, Limits: ours}, wantErr: "max_msg_size 8192",
		},
		{
			name: "V1", message: edit(func(m *Message) { m.Version, m.DstStamp = V1, unknownV1 }),
			listener: func(l *Listener) { l.V1 = true },
		},
		{
			name: "depth of V1", message: edit(func(m *Message) { m.Version, m.Params.Depth = V1, 9 }),
			listener: func(l *Listener) { l.V1 = true },
			want:     Reject{Version: V1, Why: Fatal, Stamp: stamp2, Limits: ours}, wantErr: "queue_depth 9",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := we()
			other.NID = mustNID("10.8.0.2@o2ib5")
			l := Listener{NIs: []Self{we(), other}}
			if c.listener != nil {
				c.listener(&l)
			}
			for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
				b, err := c.message.Append(nil, order)
				if err != nil {
					t.Fatal(err)
				}
				if c.bytes != nil {
					if order != binary.AppendByteOrder(binary.LittleEndian) {
						continue
					}
					b = c.bytes(b)
				}
				var m Message
				ni, r, err := l.Judge(c.port, b, &m)
				if r != c.want || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
					t.Errorf("NI %d, %+v, %v; want %+v, %s", ni, r, err, c.want, c.wantErr)
				}
			}
		})
	}
}

// dstnid selects one of two NIs on an interface (o2iblnd 3.1).
//
// o2iblnd 3.1 (2)
func TestTwoNIsOfAListener(t *testing.T) {
	other := we()
	other.NID, other.Stamp = mustNID("10.8.0.2@o2ib1"), 77
	l := Listener{NIs: []Self{we(), other}}
	m := from1(Message{Type: ConnReq, Params: paramsOfVectors})
	m.Dst, m.DstStamp = other.NID, 77
	var got Message
	if ni, _, err := l.Judge(0, wireOf(t, m), &got); ni != 1 || err != nil {
		t.Errorf("%d, %v", ni, err)
	}
}

// The answer to a caller, limited to what the device supports (o2iblnd 3.6, 3.7).
//
// o2iblnd 3.6 (11), 3.6 agree, 3.7
func TestAgree(t *testing.T) {
	request, self := from1(Message{Type: ConnReq, Params: paramsOfVectors}), we()
	var ack Message
	s := self.Agree(&request, 4, &ack)
	want := from2(Message{Type: ConnAck, Params: Params{Depth: 4, Fragments: 256, Size: 4096}})
	if d := cmp.Diff(want, ack, equate); d != "" {
		t.Error(d)
	}
	var p Peering
	other, err := p.Connected(&request, &ack)
	if err != nil || other.Depth != s.Depth || other.PeerStamp != s.SelfStamp || other.Self != s.Peer || s.Depth != 4 {
		t.Errorf("%+v and %+v: %v", s, other, err)
	}
	if r := self.NoRoom(&request); r != (Reject{Version: V2, Why: NoResources, Stamp: stamp2, Limits: Params{8, 257, 4096}}) {
		t.Errorf("%+v", r)
	}
}

// A CONNACK that does not answer the request (o2iblnd 3.7).
//
// o2iblnd 3.7
func TestAnswersThatAreNone(t *testing.T) {
	request := from1(Message{Type: ConnReq, Params: paramsOfVectors})
	for want, edit := range map[string]func(m *Message){
		"type CONNREQ":                  func(m *Message) { m.Type = ConnReq },
		"version 0x11":                  func(m *Message) { m.Version = V1 },
		"queue_depth 9: more than this": func(m *Message) { m.Params.Depth = 9 },
		"queue_depth 0":                 func(m *Message) { m.Params.Depth = 0 },
		"max_frags 257":                 func(m *Message) { m.Params.Fragments = 257 },
		"max_frags 0":                   func(m *Message) { m.Params.Fragments = 0 },
		"max_msg_size 4097":             func(m *Message) { m.Params.Size = 4097 },
		"srcnid 10.8.0.1@o2ib":          func(m *Message) { m.Src = nid1 },
		"dstnid 10.8.0.2@o2ib":          func(m *Message) { m.Dst = nid2 },
		"dststamp 3: does not match":    func(m *Message) { m.DstStamp = 3 },
	} {
		m := from2(Message{Type: ConnAck, Params: paramsOfVectors})
		edit(&m)
		var p Peering
		_, err := p.Connected(&request, &m)
		var f *Failure
		if !errors.As(err, &f) || f.Errno != syscall.ECONNABORTED || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if p.Stamp != 0 {
			t.Errorf("%s: it is remembered", want)
		}
	}
}

// Actions after a rejection (o2iblnd 6).
//
// o2iblnd 6 (2)-(9), 8 (2), 2.2 (2)
func TestRejections(t *testing.T) {
	limits := Params{Depth: 8, Fragments: 257, Size: 4096}
	rejected := func(r Reject) []byte { return append(r.Append(nil, binary.LittleEndian), make([]byte, 124)...) }
	for _, c := range []struct {
		name    string
		status  int
		data    []byte
		v1      bool
		spokeV1 bool
		idle    bool // no messages wait
		calling bool
		next    func(*Message) // change of the next request
		after   time.Duration
		errno   syscall.Errno // the attempt has failed
		health  Health
		rest    bool // no redial, no failure
	}{
		{
			name: "race", data: rejected(Reject{V2, RaceLost, stamp2, limits}), after: time.Second,
			next: func(m *Message) { m.DstStamp = stamp2 },
		},
		{name: "race, and the peer calls", data: rejected(Reject{V2, RaceLost, stamp2, limits}), calling: true, rest: true,
			next: func(m *Message) { m.DstStamp = stamp2 }},
		{name: "resources", data: rejected(Reject{V2, NoResources, stamp2, limits}), errno: syscall.ECONNREFUSED, health: RemoteDropped},
		{name: "fatal", data: rejected(Reject{V2, Fatal, 0, Params{}}), errno: syscall.ECONNREFUSED, health: RemoteDropped},
		{name: "early", data: rejected(Reject{V2, Early, 0, Params{}}), errno: syscall.ECONNREFUSED, health: RemoteDropped},
		{name: "no reason", data: rejected(Reject{V2, 77, 0, Params{}}), errno: syscall.ECONNREFUSED, health: RemoteDropped},
		{name: "stale", data: rejected(Reject{V2, Stale, 99, limits}), next: func(m *Message) { m.DstStamp = 99 }},
		{name: "stale, nothing waits", data: rejected(Reject{V2, Stale, 99, limits}), idle: true, rest: true,
			next: func(m *Message) { m.DstStamp = 99 }},
		{
			name: "fragments", data: rejected(Reject{V2, TooManyFrag, 99, Params{8, 32, 4096}}),
			next: func(m *Message) { m.DstStamp, m.Params.Fragments = 99, 32 },
		},
		{name: "as many fragments", data: rejected(Reject{V2, TooManyFrag, 99, limits}), errno: syscall.ECONNREFUSED, health: RemoteDropped},
		{
			name: "depth", data: rejected(Reject{V2, TooDeep, 99, Params{4, 257, 4096}}),
			next: func(m *Message) { m.DstStamp, m.Params.Depth = 99, 4 },
		},
		{name: "as deep", data: rejected(Reject{V2, TooDeep, 99, limits}), errno: syscall.ECONNREFUSED, health: RemoteDropped},
		{name: "V1", data: rejected(Reject{V1, Uncompat, 0, Params{}}), v1: true, next: func(m *Message) { m.Version = V1 }},
		{name: "V1, nothing waits", data: rejected(Reject{V1, Uncompat, 0, Params{}}), v1: true, idle: true, next: func(m *Message) { m.Version = V1 }},
		{name: "fatal of V1", data: rejected(Reject{V1, Fatal, 0, Params{}})[:8], v1: true, next: func(m *Message) { m.Version = V1 }},
		{name: "V1, which we do not speak", data: rejected(Reject{V1, Uncompat, 0, Params{}}), errno: syscall.ECONNREFUSED, health: RemoteDropped},
		{name: "V2, of a peer that spoke V1", data: rejected(Reject{V2, Fatal, 0, Params{}}), v1: true, spokeV1: true,
			next: func(m *Message) { m.Version = V2 }},
		{name: "our version", data: rejected(Reject{V2, Uncompat, 0, Params{}}), errno: syscall.ECONNREFUSED, health: RemoteDropped},
		{name: "a process that died", data: make([]byte, 148), errno: syscall.ECONNREFUSED, health: RemoteDropped},
		{name: "nobody listens", status: 8, errno: syscall.EHOSTUNREACH, health: NetworkTimeout},
		{name: "stale to the CM", status: 10, next: func(*Message) {}},
		{name: "the CM", status: 4, errno: syscall.ECONNREFUSED, health: RemoteDropped},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Peering{V1: c.v1}
			if c.spokeV1 {
				p.Version = V1
			}
			self := Self{NID: nid1, Stamp: stamp1, Depth: 8, Fragments: MaxFragments}
			var request, next Message
			p.Request(&self, nid2, &request)
			if c.status == 0 {
				c.status = cmConsumer
			}
			d := p.Rejected(start, Rejection{Request: &request, Status: c.status, Data: c.data, Waiting: !c.idle, Calling: c.calling})
			switch {
			case c.errno != 0:
				if d.Redial || d.Failure == nil || d.Failure.Errno != c.errno || d.Failure.Health != c.health {
					t.Errorf("%+v (%v)", d, d.Failure)
				}
				return
			case c.rest:
				if d.Redial || d.Failure != nil {
					t.Errorf("%+v", d)
				}
			case !d.Redial || d.At.Sub(start) != c.after:
				t.Fatalf("%+v (%v)", d, d.Failure)
			}
			p.Request(&self, nid2, &next)
			want := request
			c.next(&want)
			if d := cmp.Diff(want, next, equate); d != "" {
				t.Errorf("the next request (-want +got):\n%s", d)
			}
		})
	}
}

// We offer at least as many fragments as every version accepts, and no more (o2iblnd 15). We offer
// no queue so small that a kernel would return credits endlessly (o2iblnd 9.5).
//
// o2iblnd 9.5 (4), 15
func TestWhatIsOffered(t *testing.T) {
	var p Peering
	self, m := we(), Message{}
	p.Request(&self, nid1, &m)
	if m.Params != (Params{Depth: 8, Fragments: 256, Size: 4096}) || m.DstStamp != 0 {
		t.Errorf("%+v", m)
	}
	r := Reject{V2, TooDeep, 9, Params{3, 257, 4096}}
	d := p.Rejected(start, Rejection{Request: &m, Status: cmConsumer, Data: r.Append(nil, binary.LittleEndian), Waiting: true})
	if d.Redial || d.Failure == nil {
		t.Errorf("a depth of 3: %+v", d)
	}
}

// The first ten attempts follow at once, the next ones after a second each. After a connection, or
// at the end of the series, a new series begins at once (o2iblnd 12.4, 21).
//
// o2iblnd 12.4
func TestRedials(t *testing.T) {
	var p Peering
	self, request := Self{NID: nid1, Stamp: stamp1, Depth: 8, Fragments: 256}, Message{}
	stale := Reject{V2, Stale, 99, Params{8, 257, 4096}}
	data := stale.Append(nil, binary.LittleEndian)
	row := func() (pauses []time.Duration) {
		for range 13 {
			p.Request(&self, nid2, &request)
			d := p.Rejected(start, Rejection{Request: &request, Status: cmConsumer, Data: data, Waiting: true})
			pauses = append(pauses, d.At.Sub(start))
		}
		return pauses
	}
	want := append(make([]time.Duration, 10), time.Second, time.Second, time.Second)
	if d := cmp.Diff(want, row()); d != "" {
		t.Error(d)
	}
	p.Failed()
	if d := cmp.Diff(want, row()); d != "" {
		t.Error(d)
	}
	ack := from2(Message{Type: ConnAck, Params: paramsOfVectors})
	p.Request(&self, nid2, &request)
	if _, err := p.Connected(&request, &ack); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, row()); d != "" {
		t.Error(d)
	}
}

// If a peer has restarted while there are connections with its previous life, its first request is
// rejected as stale, and the next one is accepted (o2iblnd 12.3, 21).
//
// o2iblnd 3.6 (12), 12.3
func TestRestartedPeer(t *testing.T) {
	var p Peering
	self := we()
	call := func(stamp uint64, v Version, connected bool) (Reject, bool) {
		m := from1(Message{Type: ConnReq, Params: paramsOfVectors})
		m.SrcStamp, m.Version = stamp, v
		return p.Accept(&m, &self, connected)
	}
	if r, ok := call(1, V2, false); !ok {
		t.Fatalf("first contact: %+v", r)
	}
	if r, ok := call(1, V2, true); !ok {
		t.Fatalf("a second connection: %+v", r)
	}
	want := Reject{V2, Stale, stamp2, Params{8, 257, 4096}}
	if r, ok := call(5, V2, true); ok || r != want {
		t.Fatalf("a new life: %+v", r)
	}
	if r, ok := call(5, V2, false); !ok {
		t.Fatalf("once more: %+v", r)
	}
	if r, ok := call(1, V2, true); ok {
		t.Fatalf("the old life again, late: %+v", r)
	}
	if r, ok := call(9, V2, false); !ok {
		t.Fatalf("a new life, nothing left of the old: %+v", r)
	}
	want.Version = V1
	if r, ok := call(9, V1, true); ok || r != want {
		t.Fatalf("another version: %+v", r)
	}
	for stamp := range uint64(100) { // memory stays limited
		call(1000+stamp, V2, false)
	}
	if p.Stamp != 1099 {
		t.Errorf("stamp %d", p.Stamp)
	}
}

// We never reject because of a race, so two nodes that connect at the same time converge (o2iblnd
// 12.2). The peer is a kernel whose order makes it win, a kernel whose order does not, or an lnetd.
//
// o2iblnd 3.6 (13), 12.2, 18 (11)
func TestRaces(t *testing.T) {
	for _, c := range []struct {
		name  string
		order func(lnet.NID) uint64 // nil: the peer is an lnetd
	}{{"with one of us", nil}, {"with a kernel of 2.15", orderOfOld}, {"with a kernel of 2.16", orderOfNew}} {
		for _, nids := range [][2]lnet.NID{{nid1, nid2}, {nid2, nid1}} {
			ours, theirs := Self{NID: nids[0], Stamp: 1, Depth: 8, Fragments: 256}, Self{NID: nids[1], Stamp: 2, Depth: 8, Fragments: 256}
			var us, them Peering
			var request, call Message
			us.Request(&ours, theirs.NID, &request)
			them.Request(&theirs, ours.NID, &call)
			// Their request is accepted.
			if r, ok := us.Accept(&call, &ours, true); !ok {
				t.Errorf("%s: we reject with %+v", c.name, r)
			}
			if c.order == nil || c.order(ours.NID) >= c.order(theirs.NID) {
				continue // ours is accepted too: two connections are harmless
			}
			lost := Reject{V2, RaceLost, 2, Params{8, 257, 4096}}
			d := us.Rejected(start, Rejection{Request: &request, Status: cmConsumer,
				Data: lost.Append(nil, binary.LittleEndian), Waiting: true, Calling: true})
			if d.Redial || d.Failure != nil {
				t.Errorf("%s: %+v", c.name, d)
			}
		}
	}
}

// The orders used by kernels on little-endian hosts (o2iblnd 12.2, 22).
func orderOfOld(n lnet.NID) uint64 { v, _ := n.NID4(); return v }

func orderOfNew(n lnet.NID) uint64 {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], n.Number())
	return uint64(uint32(n.Net()) ^ binary.LittleEndian.Uint32(ip[:]))
}

func TestRaceOrders(t *testing.T) {
	for nid, want := range map[string]uint64{
		"10.8.0.1@o2ib": 0x0105080a, "10.8.0.2@o2ib": 0x0205080a, "10.8.0.3@o2ib": 0x0305080a, "10.8.1.0@o2ib": 0x0004080a,
	} {
		if got := orderOfNew(mustNID(nid)); got != want {
			t.Errorf("%s: %#08x, want %#08x", nid, got, want)
		}
	}
}

// Events of the CM that end attempts (o2iblnd 3.2, 13.3).
//
// o2iblnd 3.2 (2)-(3), 13.2 (1), 13.3
func TestConnectFailures(t *testing.T) {
	for e, want := range map[CMEvent]Failure{
		CMAddrError:    {Errno: syscall.EHOSTUNREACH, Health: NetworkTimeout},
		CMRouteError:   {Errno: syscall.EHOSTUNREACH, Health: NetworkTimeout},
		CMUnreachable:  {Errno: syscall.ENETDOWN, Health: LocalDropped},
		CMConnectError: {Errno: syscall.ENOTCONN, Health: LocalDropped},
		CMDisconnected: {Errno: syscall.ECONNRESET, Health: LocalDropped},
		CMTimeout:      {Errno: syscall.ENETDOWN, Health: LocalDropped},
	} {
		f := e.Failure()
		if f.Errno != want.Errno || f.Health != want.Health || !errors.Is(f, want.Errno) {
			t.Errorf("%v: %+v", e, f)
		}
	}
	for timeout, want := range map[time.Duration][2]time.Duration{
		50 * time.Second: {12500 * time.Millisecond, 22500 * time.Millisecond},
		10 * time.Second: {5 * time.Second, 15 * time.Second},
	} {
		if got := [2]time.Duration{ConnectTimeout(timeout), WaitTimeout(timeout)}; got != want {
			t.Errorf("%v: %v, want %v", timeout, got, want)
		}
	}
	c := NewConn(Options{})
	var b Batch
	c.Connect(start)
	if at := c.wake(); at.Sub(start) != 12500*time.Millisecond {
		t.Errorf("wakes at %v", at)
	}
	c.Tick(start.Add(12499*time.Millisecond), &b)
	if b.Disconnect {
		t.Error("too early")
	}
	c.Tick(start.Add(12500*time.Millisecond), &b)
	if !b.Disconnect || b.Failure.Errno != syscall.ENETDOWN {
		t.Errorf("%+v", b)
	}
}

// conns_per_peer (o2iblnd 12.5).
//
// o2iblnd 12.5
func TestSpread(t *testing.T) {
	var s Spread
	if n := s.Want(0); n != 1 {
		t.Errorf("%d attempts", n)
	}
	if n := s.Want(4); n != 4 {
		t.Errorf("%d attempts", n)
	}
	for range 4 {
		s.Dialled()
	}
	if s.Want(4) != 0 {
		t.Error("more attempts")
	}
	for range 3 {
		s.Up(true)
	}
	if s.Failed() || s.Want(4) != 0 {
		t.Error("one of four has failed")
	}
	s.Up(false)
	for range 3 {
		if s.Down() {
			t.Error("nothing left")
		}
	}
	if s.Want(4) != 0 {
		t.Error("a set that is not whole")
	}
	if !s.Down() || s.Want(4) != 4 {
		t.Error("nothing is left")
	}
	s.Dialled()
	if !s.Failed() || !s.Empty() {
		t.Error("nothing is left")
	}
}
