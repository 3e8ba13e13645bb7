package o2iblnd_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// puppet is a scripted peer: the test decides what it sends, as a kernel or as an attacker.
type puppet struct {
	t    *testing.T
	host *fabric.Host
	nid  lnet.NID
	at   netip.Addr
	proc *fabric.Process
	ch   verbs.Channel
	dev  verbs.Device
	cq   verbs.CQ
	mem  verbs.Memory

	mu       sync.Mutex // guards the rest
	requests []protocol.Message
	events   []verbs.Event
	ids      []verbs.ID
	answer   func(n int, m *protocol.Message) (accept bool, private []byte)
}

const puppetStamp = 4711

func newPuppet(t *testing.T, f *fabric.Fabric, k int) *puppet {
	t.Helper()
	p := &puppet{t: t, nid: nidOf(k), at: netip.MustParseAddr(address(k)), host: f.Host("puppet"+address(k), address(k))}
	p.proc = p.host.Open()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	p.ch, err = p.proc.OpenChannel()
	check(err)
	l, err := p.ch.Listen(netip.AddrPortFrom(p.at, 987), 128)
	check(err)
	p.dev, _, err = l.Device()
	check(err)
	p.cq, err = p.dev.NewCQ(10_000, 0)
	check(err)
	p.mem, err = p.dev.Alloc(64<<10, false, verbs.AccessLocalWrite)
	check(err)
	go p.run()
	return p
}

func (p *puppet) run() {
	var ev [1]verbs.Event
	for {
		if _, err := p.ch.Events(ev[:]); err != nil {
			return
		}
		e := ev[0]
		p.mu.Lock()
		switch e.Kind {
		case verbs.EventConnectRequest:
			p.asked(&e)
		case verbs.EventRouteResolved:
			p.prepare(e.ID)
			_ = e.ID.Connect(verbs.ConnParam{Private: e.ID.Owner().([]byte), Retries: 5, RNRRetries: 6})
		case verbs.EventAddrResolved:
			_ = e.ID.ResolveRoute(time.Second)
		default:
			p.events = append(p.events, e)
		}
		p.mu.Unlock()
	}
}

func (p *puppet) prepare(id verbs.ID) {
	p.ids = append(p.ids, id)
	if err := id.CreateQP(&verbs.QP{CQ: p.cq, Sends: 8, Recvs: 8, SendPieces: 1}); err != nil {
		p.t.Error(err)
	}
	var list []verbs.Recv
	for k := range 8 {
		list = append(list, verbs.Recv{WRID: uint64(k), Addr: p.mem.Addr() + uint64(k)*4096, Len: 4096, LKey: p.mem.LKey()})
	}
	_, _, _ = id.Post(list, nil, nil)
}

// asked answers a request for a connection.
func (p *puppet) asked(e *verbs.Event) {
	var m protocol.Message
	if _, err := m.Decode(e.Private[:e.PrivateLen], protocol.Check); err != nil {
		p.t.Error(err)
	}
	m.LNet, m.Sink = lnet.Header{}, protocol.Descriptor{}
	p.requests = append(p.requests, m)
	if e.Remote.Port() >= 1024 || e.Retries != 5 || e.RNRRetries != 6 {
		p.t.Errorf("a call from %v with %d retries, %d if nothing is posted", e.Remote, e.Retries, e.RNRRetries)
	}
	accept, private := p.answer(len(p.requests), &m)
	if !accept {
		_ = e.ID.Reject(private)
		e.ID.Destroy()
		return
	}
	p.prepare(e.ID)
	_ = e.ID.Accept(verbs.ConnParam{Private: private, Retries: 5, RNRRetries: 6})
}

// acceptAll makes the puppet accept every request, as kernels do.
func (p *puppet) acceptAll() {
	p.answer = func(_ int, m *protocol.Message) (bool, []byte) { return true, encode(p.t, p.ack(m)) }
}

// call requests a connection, with the given private data.
func (p *puppet) call(to netip.Addr, private []byte) {
	p.t.Helper()
	id, err := p.ch.Dial(verbs.Dial{From: p.at, To: netip.AddrPortFrom(to, 987), Privileged: true, Timeout: time.Second})
	if err != nil {
		p.t.Fatal(err)
	}
	id.SetOwner(private)
}

// say sends a message on a connection.
func (p *puppet) say(t *testing.T, id verbs.ID, m protocol.Message) {
	t.Helper()
	n := copy(p.mem.Bytes()[60<<10:], encode(t, m))
	_, _, err := id.Post(nil,
		[]verbs.Request{{Count: 1, Op: verbs.Send, Flags: verbs.FlagSignalled}},
		[]verbs.Piece{{Addr: p.mem.Addr() + 60<<10, Len: uint32(n), LKey: p.mem.LKey()}})
	if err != nil {
		t.Fatal(err)
	}
}

// take returns the events since the last call of take.
func (p *puppet) take() []verbs.Event {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	events := p.events
	p.events = nil
	return events
}

func encode(t *testing.T, m protocol.Message) []byte {
	t.Helper()
	b, err := m.Append(nil, binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ack returns the answer of a kernel to m.
func (p *puppet) ack(m *protocol.Message) protocol.Message {
	return protocol.Message{
		Version: m.Version, Type: protocol.ConnAck, Src: m.Dst, SrcStamp: puppetStamp, Dst: m.Src, DstStamp: m.SrcStamp, Params: m.Params,
	}
}

func reject(why protocol.Reason, depth, fragments uint16) []byte {
	r := protocol.Reject{Version: protocol.V2, Why: why, Stamp: puppetStamp, Limits: protocol.Params{Depth: depth, Fragments: fragments, Size: 4096}}
	return r.Append(nil, binary.LittleEndian)
}

// TestRejected checks a rejection for each reason that kernels have, followed by an acceptance.
//
// o2iblnd 3.2 (1), 3.4, 6 (3)
func TestRejected(t *testing.T) {
	for _, c := range []struct {
		why      protocol.Reason
		depth    uint16
		frags    uint16
		requests int // the number that arrives
		err      error
		want     func(m *protocol.Message) bool // checks the second request
	}{
		{why: protocol.TooDeep, depth: 4, frags: 256, requests: 2, want: func(m *protocol.Message) bool { return m.Params.Depth == 4 }},
		{why: protocol.TooManyFrag, depth: 8, frags: 32, requests: 2, want: func(m *protocol.Message) bool { return m.Params.Fragments == 32 }},
		{why: protocol.Stale, depth: 8, frags: 257, requests: 2, want: func(m *protocol.Message) bool { return m.DstStamp == puppetStamp }},
		{why: protocol.RaceLost, depth: 8, frags: 257, requests: 2, want: func(*protocol.Message) bool { return true }},
		{why: protocol.Fatal, requests: 1, err: syscall.ECONNREFUSED},
		{why: protocol.NoResources, requests: 1, err: syscall.ECONNREFUSED},
		{why: protocol.Early, requests: 1, err: syscall.ECONNREFUSED},
	} {
		t.Run(c.why.String(), func(t *testing.T) {
			onFabric(t, func(t *testing.T, f *fabric.Fabric) {
				a, p := newStation(t, f, 0, nil), newPuppet(t, f, 7)
				p.answer = func(n int, m *protocol.Message) (bool, []byte) {
					if n == 1 {
						return false, reject(c.why, c.depth, c.frags)
					}
					return true, encode(t, p.ack(m))
				}
				a.send(p.nid, 1, 100)
				time.Sleep(3 * time.Second)
				sent, errs := a.outcome()
				switch {
				case sent != 1, c.err == nil && len(errs) > 0, c.err != nil && (len(errs) != 1 || !errors.Is(errs[0], c.err)):
					t.Errorf("%d sent, %v", sent, errs)
				case len(p.requests) != c.requests:
					t.Errorf("%d requests, want %d", len(p.requests), c.requests)
				case c.want != nil && !c.want(&p.requests[1]):
					t.Errorf("the second request is %+v", p.requests[1])
				}
				a.close()
			})
		})
	}
}

// TestWaiting: given a peer that keeps rejecting requests because it is calling, but never calls,
// then messages that wait for a connection fail at their deadline.
//
// o2iblnd 13.2 (3), 13.1
func TestWaiting(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, p := newStation(t, f, 0, nil), newPuppet(t, f, 7)
		p.answer = func(int, *protocol.Message) (bool, []byte) { return false, reject(protocol.RaceLost, 8, 257) }
		a.send(p.nid, 1, 100)
		time.Sleep(14 * time.Second)
		if sent, _ := a.outcome(); sent != 0 || counter(a, "peers") != 1 {
			t.Errorf("%d sent, %d peers", sent, counter(a, "peers"))
		}
		time.Sleep(2 * time.Second)
		_, errs := a.outcome()
		if len(errs) != 1 || !errors.Is(errs[0], syscall.ETIMEDOUT) || lnd.StatusOf(errs[0]) != lnd.StatusNetworkTimeout {
			t.Errorf("%v", errs)
		}
		if downs := a.told().downs; len(downs) != 1 || !errors.Is(downs[0].Err, lnd.ErrTimeout) || downs[0].Peer != p.nid {
			t.Errorf("the peer is lost, but was reported so with %v", downs)
		}
		time.Sleep(time.Minute + 5*time.Second) // a stall outlasts the attempts to connect
		if n := counter(a, "peers"); n != 0 {
			t.Errorf("%d peers are left", n)
		}
		a.close()
	})
}

// TestBadAnswer checks that a connection ends at once if the peer accepts it with an invalid
// answer.
//
// o2iblnd 3.7
func TestBadAnswer(t *testing.T) {
	for name, spoil := range map[string]func(m *protocol.Message){
		"dststamp": func(m *protocol.Message) { m.DstStamp++ },
		"srcnid":   func(m *protocol.Message) { m.Src = nidOf(77) },
		"depth":    func(m *protocol.Message) { m.Params.Depth++ },
		"type":     func(m *protocol.Message) { m.Type = protocol.ConnReq },
	} {
		t.Run(name, func(t *testing.T) {
			onFabric(t, func(t *testing.T, f *fabric.Fabric) {
				a, p := newStation(t, f, 0, nil), newPuppet(t, f, 7)
				p.answer = func(_ int, m *protocol.Message) (bool, []byte) {
					answer := p.ack(m)
					spoil(&answer)
					return true, encode(t, answer)
				}
				a.send(p.nid, 1, 100)
				time.Sleep(time.Second)
				if _, errs := a.outcome(); len(errs) != 1 || !errors.Is(errs[0], syscall.ECONNABORTED) {
					t.Errorf("%v", errs)
				}
				if e := p.take(); len(e) == 0 || e[len(e)-1].Kind != verbs.EventDisconnected {
					t.Errorf("the peer heard %v", e)
				}
				a.close()
			})
		})
	}
}

// TestSilentPeer: given a peer that does not answer a PUT_REQ, then the connection ends after the
// timeout. A request for a connection that gets no answer fails the message sooner.
//
// o2iblnd 13.2 (2), 3.2 (3)
func TestSilentPeer(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, p := newStation(t, f, 0, nil), newPuppet(t, f, 7)
		p.answer = func(_ int, m *protocol.Message) (bool, []byte) { return true, encode(t, p.ack(m)) }
		a.send(p.nid, 1, 50_000)
		time.Sleep(9 * time.Second)
		if sent, _ := a.outcome(); sent != 0 {
			t.Error("it has ended already")
		}
		time.Sleep(3 * time.Second)
		if _, errs := a.outcome(); len(errs) != 1 || lnd.StatusOf(errs[0]) != lnd.StatusRemoteTimeout {
			t.Errorf("%v", errs)
		}
		if e := p.take(); len(e) == 0 || e[len(e)-1].Kind != verbs.EventDisconnected {
			t.Errorf("the peer heard %v", e)
		}
		hold := f.Hold(a.host, p.host, fabric.Forward)
		a.send(p.nid, 1, 100)
		time.Sleep(6 * time.Second)
		if _, errs := a.outcome(); len(errs) != 1 || !errors.Is(errs[0], syscall.ENETDOWN) {
			t.Errorf("nobody answers: %v", errs)
		}
		hold.Release()
		a.close()
	})
}

// TestHostileCallers checks that each kind of invalid request is rejected for its reason and
// counted, and that other peers are not affected.
//
// o2iblnd 3.6 (1)
func TestHostileCallers(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b, p := newStation(t, f, 0, nil), newStation(t, f, 1, nil), newPuppet(t, f, 7)
		request := func(spoil func(m *protocol.Message)) []byte {
			m := protocol.Message{
				Version: protocol.V2, Type: protocol.ConnReq, Src: p.nid, SrcStamp: puppetStamp, Dst: nidOf(0),
				Params: protocol.Params{Depth: 8, Fragments: 256, Size: 4096},
			}
			spoil(&m)
			return encode(t, m)
		}
		var want lnd.RefusalCounts
		for _, c := range []struct {
			private []byte
			why     protocol.Reason
			reason  lnd.Refusal
		}{
			{nil, protocol.Fatal, lnd.RefusedMagic},
			{make([]byte, 56), protocol.Fatal, lnd.RefusedMagic},
			{request(func(m *protocol.Message) { m.Version = 0x13 }), protocol.Fatal, lnd.RefusedVersion},
			{request(func(m *protocol.Message) { m.Version = protocol.V1 }), protocol.Fatal, lnd.RefusedVersion},
			{request(func(m *protocol.Message) { m.Dst = nidOf(5) }), protocol.Fatal, lnd.RefusedNID},
			{request(func(m *protocol.Message) { m.DstStamp = 1 }), protocol.Stale, lnd.RefusedStale},
			{request(func(m *protocol.Message) { m.Type = protocol.Noop }), protocol.Fatal, lnd.RefusedHello},
			{request(func(m *protocol.Message) { m.Params.Depth = 9 }), protocol.TooDeep, lnd.RefusedHello},
			{request(func(m *protocol.Message) { m.Params.Depth = 0 }), protocol.Fatal, lnd.RefusedHello},
			{request(func(m *protocol.Message) { m.Params.Fragments = 300 }), protocol.TooManyFrag, lnd.RefusedHello},
			{request(func(m *protocol.Message) { m.Src = lnet.NIDFromIP(lnet.MakeNet(lnet.TypeO2IB, 9), p.at) }), protocol.NoResources, lnd.RefusedHello},
		} {
			want[c.reason]++
			p.call(nidOf(0).IP(), c.private)
			time.Sleep(time.Second)
			e := p.take()
			if len(e) != 1 || e[0].Kind != verbs.EventRejected {
				t.Fatalf("%v: %v", c.reason, e)
			}
			if r, err := protocol.DecodeReject(e[0].Private[:e[0].PrivateLen]); err != nil || r.Why != c.why {
				t.Errorf("%v: rejected for %v, want %v (%v)", c.reason, r.Why, c.why, err)
			}
		}
		if diff := cmp.Diff(want, a.i.Refusals()); diff != "" {
			t.Errorf("refusals (-want +got):\n%s", diff)
		}
		a.works(b)
		a.close()
		b.close()
	})
}

// TestHalfOpen: given more silent callers from one source than it may have, then the oldest are
// evicted and the others time out. Callers from other sources are accepted.
func TestHalfOpen(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		few := func(c *o2iblnd.Config) { c.MaxHalfOpenPerSource = 3 }
		a, b, p := newStation(t, f, 0, few), newStation(t, f, 1, nil), newPuppet(t, f, 7)
		hold := f.Hold(p.host, a.host, fabric.Forward)
		for k := range 10 {
			m := protocol.Message{
				Version: protocol.V2, Type: protocol.ConnReq, Src: nidOf(100 + k), SrcStamp: puppetStamp, Dst: nidOf(0),
				Params: protocol.Params{Depth: 8, Fragments: 256, Size: 4096},
			}
			p.call(nidOf(0).IP(), encode(t, m))
		}
		time.Sleep(time.Second)
		f.SetLink(a.host, p.host, fabric.Both, fabric.Link{CMLoss: 1}) // their next messages are lost
		hold.Release()
		time.Sleep(time.Second)
		if got := a.i.Refusals(); got[lnd.RefusedMany] != 7 {
			t.Errorf("%d of 10 callers were evicted, want 7", got[lnd.RefusedMany])
		}
		b.works(a)
		time.Sleep(10 * time.Second)
		if got := a.i.Refusals(); got[lnd.RefusedSlow] != 3 || got.Total() != 10 {
			t.Errorf("refusals %v, want 3 that were too slow", got)
		}
		a.close()
		b.close()
	})
}

// TestBrokenProtocol checks that a message that violates the protocol ends the connection.
//
// o2iblnd 9.4 (1)
func TestBrokenProtocol(t *testing.T) {
	for name, spoil := range map[string]func(m *protocol.Message){
		"credits":  func(m *protocol.Message) { m.Credits = 9 },
		"dststamp": func(m *protocol.Message) { m.DstStamp++ },
		"cookie":   func(m *protocol.Message) { m.Type, m.Cookie = protocol.PutDone, 12345 },
		"type":     func(m *protocol.Message) { m.Type = protocol.ConnReq },
	} {
		t.Run(name, func(t *testing.T) {
			onFabric(t, func(t *testing.T, f *fabric.Fabric) {
				a, p := newStation(t, f, 0, nil), newPuppet(t, f, 7)
				var req protocol.Message
				p.answer = func(_ int, m *protocol.Message) (bool, []byte) {
					req = *m
					return true, encode(t, p.ack(m))
				}
				a.send(p.nid, 1, 0)
				time.Sleep(time.Second)
				if _, errs := a.outcome(); len(errs) > 0 {
					t.Fatal(errs)
				}
				m := protocol.Message{Version: protocol.V2, Type: protocol.Noop, Src: p.nid, SrcStamp: puppetStamp, Dst: req.Src, DstStamp: req.SrcStamp}
				spoil(&m)
				p.say(t, p.ids[0], m)
				time.Sleep(time.Second)
				if e := p.take(); len(e) == 0 || e[len(e)-1].Kind != verbs.EventDisconnected {
					t.Errorf("the peer heard %v", e)
				}
				if len(a.told().downs) != 1 {
					t.Errorf("%d notices of the loss", len(a.told().downs))
				}
				a.close()
			})
		})
	}
}

// TestFewFragments: memory of more pieces than the peer accepts fragments is first copied into one
// piece.
//
// o2iblnd 10.2 (5)
func TestFewFragments(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, p := newStation(t, f, 0, nil), newPuppet(t, f, 7)
		var req protocol.Message
		p.answer = func(_ int, m *protocol.Message) (bool, []byte) {
			req = *m
			answer := p.ack(m)
			answer.Params.Fragments = 1
			return true, encode(t, answer)
		}
		sink, err := p.dev.Alloc(1<<16, false, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		region := memory.NewRegion(make([]byte, 1<<16), nil)
		if err := region.Register(a.i.(memory.Registrar)); err != nil {
			t.Fatal(err)
		}
		source := memory.Vector{Length: 8000}
		for k := range 8 {
			part := region.Slice(2000*k, 1000)
			copy(part.Segments[0].Bytes[part.Offset:], []byte{byte(k + 1)})
			source.Segments = part.AppendSegments(source.Segments)
		}
		a.i.Send(&lnd.Tx{
			Header: lnet.Header{Type: lnet.MsgPut, Src: nidOf(0), Dest: p.nid, Handle: lnet.NoHandle, PayloadLength: 8000},
			To:     lnet.ProcessID{NID: p.nid, PID: lnet.PIDLustre}, Payload: source, Done: a,
		})
		time.Sleep(time.Second)
		p.take() // waits until the PUT_REQ has arrived
		var asked protocol.Message
		if _, err := asked.Decode(p.mem.Bytes()[:4096], protocol.Check); err != nil || asked.Type != protocol.PutReq {
			t.Fatalf("%v, %v", asked.Type, err)
		}
		p.say(t, p.ids[0], protocol.Message{
			Version: protocol.V2, Type: protocol.PutAck, Src: p.nid, SrcStamp: puppetStamp, Dst: req.Src, DstStamp: req.SrcStamp,
			Cookie: asked.Cookie, Sink: protocol.Descriptor{Key: sink.RKey(), Fragments: []protocol.Fragment{{Addr: sink.Addr(), Length: 8000}}},
		})
		time.Sleep(time.Second)
		if sent, errs := a.outcome(); sent != 1 || len(errs) > 0 {
			t.Errorf("%d sent, %v", sent, errs)
		}
		for k := range 8 {
			if got := sink.Bytes()[1000*k]; got != byte(k+1) {
				t.Errorf("piece %d begins with %d", k, got)
			}
		}
		if err := region.Release(); err != nil {
			t.Error(err)
		}
		a.close()
	})
}
