package fuzz

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/recording"
	"github.com/lnetd/lnetd/internal/tshark"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// These tests play recorded conversations between two kernel nodes live, over
// TCP sockets: one kernel's side comes from the recording, the other is our
// socklnd and node, once as the side that connects and once as the side that
// accepts. Everything that we send must equal, byte for byte, what the kernel
// in our place sent.
//
// What a node draws from its wall clock is given to ours from the recording:
// the interface cookie in its handles and the incarnations of its NIs. The
// object cookies need no help: our MDs get the numbers that a kernel's get.
// Addresses and ports are those of the recording; underneath, sockets on
// loopback stand for them (stage).
//
// Discovery is not played by the node yet, so that the test says when to ping
// with discovery's buffer and when to push, and where a kernel's push left
// ahead of the ACK that it owed, ours leaves after it (ackFirst).
var replays = []struct {
	name  string
	file  string
	until time.Duration
}{
	{name: "a to the push", file: "a-tcp-ping-discovery-on", until: 3900 * time.Millisecond},
	{name: "a whole", file: "a-tcp-ping-discovery-on", until: time.Minute},
	{name: "b to selftest", file: "b-tcp-ping-discovery-off", until: 10 * time.Second},
	{name: "j to the first change of NIs", file: "j-ipv6-large-nid", until: 5 * time.Second},
}

func TestReplay(t *testing.T) {
	for _, r := range replays {
		for _, us := range []recording.Side{recording.Active, recording.Passive} {
			t.Run(fmt.Sprintf("%s, we are %s", r.name, us), func(t *testing.T) {
				p := newPlay(t, r.file, r.until, us)
				p.startNode(r.file == "b-tcp-ping-discovery-off")
				p.run()
				p.compare()
			})
		}
	}
}

// play is one recording being played.
type play struct {
	t     *testing.T
	us    recording.Side
	steps []step
	stage *stage
	node  *node.Node
	self  lnet.NID // ours
	them  lnet.NID // the kernel's

	conns map[*recording.Conversation]net.Conn // the kernel's ends
	got   map[*recording.Conversation][]byte   // what we sent
	calls chan error                           // results of what the test asked our node to do
	asked int
}

// step is a unit of the recording.
type step struct {
	recording.TimedUnit
	c *recording.Conversation
}

func newPlay(t *testing.T, file string, until time.Duration, us recording.Side) *play {
	t.Helper()
	rec, err := recording.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	p := &play{t: t, us: us, conns: map[*recording.Conversation]net.Conn{},
		got: map[*recording.Conversation][]byte{}, calls: make(chan error, 64)}
	begin := rec.Conversations[0].Opened
	for _, c := range rec.Conversations {
		units, err := c.Units()
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range units {
			if u.End.Sub(begin) < until {
				p.steps = append(p.steps, step{u, c})
			}
		}
	}
	slices.SortStableFunc(p.steps, func(a, b step) int { return a.Begin.Compare(b.Begin) })
	p.ackFirst()
	hello := p.steps[slices.IndexFunc(p.steps, func(s step) bool {
		return s.Kind == recording.KindHello && s.From == us
	})].Hello
	p.self, p.them = hello.Src, hello.Dst
	p.stage = newStage(t, rec.Conversations[0].Addrs[us], rec.Conversations[0].Addrs[us.Other()])
	return p
}

// ackFirst lets our ACK of a push leave before our push that the kernel sent
// ahead of it: the test pushes when it has seen the ACK.
func (p *play) ackFirst() {
	ours := func(s step, t lnet.MsgType) bool {
		return s.From == p.us && s.Kind == recording.KindMessage && s.Header.Type == t
	}
	for n := 1; n < len(p.steps); n++ {
		if ours(p.steps[n-1], lnet.MsgPut) && ours(p.steps[n], lnet.MsgAck) {
			p.steps[n-1], p.steps[n] = p.steps[n], p.steps[n-1]
		}
	}
}

// startNode starts our node in the place of the kernel's, with its clocks.
func (p *play) startNode(discoveryOff bool) {
	p.t.Helper()
	c := socklnd.DefaultConfig()
	c.Network = p.stage
	c.SourcePorts = socklnd.SourcePrivileged
	c.Wall = func() time.Time { return time.Unix(0, int64(p.incarnation())) }
	d, err := socklnd.New(c)
	if err != nil {
		p.t.Fatal(err)
	}
	p.node, err = node.New(node.Config{
		DisableDiscovery: discoveryOff,
		Wall:             func() time.Time { return time.Unix(0, int64(p.cookie())) },
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := p.node.Close(ctx); err != nil {
			p.t.Error(err)
		}
		if err := d.Close(); err != nil {
			p.t.Error(err)
		}
	})
	if _, err := p.node.AddNI(p.t.Context(), d, lnd.Config{Net: p.self.Net(), NID: p.self}); err != nil {
		p.t.Fatal(err)
	}
}

// incarnation is the incarnation of the NI in whose place we are.
func (p *play) incarnation() uint64 {
	for _, s := range p.steps {
		if s.Kind == recording.KindHello && s.From == p.us {
			return s.Hello.SrcIncarnation
		}
	}
	p.t.Fatal("no hello")
	return 0
}

// cookie is the interface cookie of the node in whose place we are: that of the
// handles that it made; any will do for one that made none.
func (p *play) cookie() uint64 {
	for _, s := range p.steps {
		if s.Kind == recording.KindMessage && s.From == p.us &&
			(s.Header.Type == lnet.MsgGet || s.Header.Type == lnet.MsgPut) {
			return s.Header.Handle.Interface
		}
	}
	return 1
}

// run plays the steps in the order of the recording: the kernel's are written,
// ours are caused, if nothing else does, and read.
func (p *play) run() {
	p.t.Helper()
	for n, s := range p.steps {
		if s.From == p.us {
			p.cause(s)
		}
		conn := p.conn(s.c)
		if s.From != p.us {
			if _, err := conn.Write(s.Raw); err != nil {
				p.t.Fatalf("step %d: %v", n, err)
			}
			continue
		}
		buf := make([]byte, len(s.Raw))
		if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			p.t.Fatal(err)
		}
		got, err := io.ReadFull(conn, buf)
		p.got[s.c] = append(p.got[s.c], buf[:got]...)
		if err != nil {
			p.t.Fatalf("step %d, our %s: read %d bytes of %d: %v\n%s", n, s.Kind, got, len(s.Raw), err, hex.Dump(buf[:got]))
		}
	}
	for range p.asked {
		if err := <-p.calls; err != nil {
			p.t.Error(err)
		}
	}
	p.silent()
}

// cause makes our node send what does not come by itself.
func (p *play) cause(s step) {
	if s.Kind != recording.KindRequest && s.Kind != recording.KindMessage {
		return
	}
	ask := func(f func() error) {
		p.asked++
		go func() { p.calls <- f() }()
	}
	if s.Kind == recording.KindRequest {
		// The first request comes with the first ping.
		if len(p.conns) == 0 {
			ask(func() error { return p.ping(p.firstMessage()) })
		}
		return
	}
	switch {
	case s.Begin.Equal(p.firstMessage().Begin): // asked for with the first request
	case s.Header.Type == lnet.MsgGet:
		ask(func() error { return p.ping(s) })
	case s.Header.Type == lnet.MsgPut:
		ask(p.push)
	}
}

func (p *play) firstMessage() step {
	return p.steps[slices.IndexFunc(p.steps, func(s step) bool { return s.Kind == recording.KindMessage })]
}

func (p *play) ping(s step) error {
	_, err := p.node.Ping(context.Background(), lnet.ProcessID{NID: p.them},
		node.PingOptions{Room: int(s.Header.Length)})
	return err
}

// push sends our ping info as discovery will, and waits for the ACK.
func (p *play) push() error {
	info := p.node.PingInfo()
	q := node.NewEventQueue(node.EventsOf(portals.EventAck))
	h, err := p.node.Bind(portals.MD{Bytes: info.Append(nil, binary.LittleEndian), Threshold: 2, Unlink: true, Handler: q})
	if err != nil {
		return err
	}
	err = p.node.Put(h, lnet.ProcessID{NID: p.them, PID: lnet.PIDLustre},
		node.PutOptions{MatchBits: lnet.PingMatchBits, Ack: true})
	if err != nil {
		return err
	}
	var e portals.Event
	if err := q.Next(context.Background(), &e); err != nil {
		return err
	}
	return e.Err
}

// conn returns the kernel's end of a conversation: one that we opened, or one
// that it opens now.
func (p *play) conn(c *recording.Conversation) net.Conn {
	p.t.Helper()
	if conn := p.conns[c]; conn != nil {
		return conn
	}
	var conn net.Conn
	if p.us == recording.Active {
		conn = p.stage.accept(c.Addrs[recording.Active])
	} else {
		conn = p.stage.call(c.Addrs[recording.Active])
	}
	p.conns[c] = conn
	return conn
}

// silent checks that our node says nothing that the kernel did not.
func (p *play) silent() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.node.Close(ctx); err != nil {
		p.t.Error(err)
	}
	for c, conn := range p.conns {
		rest, _ := io.ReadAll(conn) // a reset ends it too
		if len(rest) > 0 {
			p.t.Errorf("%s: we sent %d bytes more than the kernel:\n%s", c.Addrs[recording.Active], len(rest), hex.Dump(rest))
		}
	}
}

// compare compares what we sent with what the kernel sent.
func (p *play) compare() {
	p.t.Helper()
	var streams []tshark.Stream
	for _, c := range p.order() {
		var want [][]byte
		for _, s := range p.steps {
			if s.c == c && s.From == p.us {
				want = append(want, s.Raw)
			}
		}
		units, err := recording.Parse(p.got[c])
		if err != nil {
			p.t.Fatalf("%s: what we sent: %v", c.Addrs[recording.Active], err)
		}
		var got [][]byte
		for _, u := range units {
			got = append(got, u.Raw)
		}
		if diff := cmp.Diff(dumps(want), dumps(got)); diff != "" {
			p.t.Errorf("%s: kernel (-), we (+):\n%s", c.Addrs[recording.Active], diff)
		}
		streams = append(streams, tshark.Stream{Name: c.Addrs[recording.Active].String(), Bytes: p.got[c]})
	}
	tshark.Check(p.t, streams...)
}

func (p *play) order() []*recording.Conversation {
	var all []*recording.Conversation
	for _, s := range p.steps {
		if !slices.Contains(all, s.c) {
			all = append(all, s.c)
		}
	}
	return all
}

func dumps(units [][]byte) []string {
	out := make([]string, len(units))
	for n, b := range units {
		out[n] = hex.Dump(b)
	}
	return out
}

// stage is a Network on which our node has the recording's address, and the
// kernel that we play the other. Underneath are TCP sockets on loopback.
type stage struct {
	socklnd.Network
	t          *testing.T
	self, them netip.AddrPort
	kernel     net.Listener        // listens for the kernel
	ours       netip.AddrPort      // where our node listens
	callers    chan netip.AddrPort // who calls our node next
	dialed     chan netip.AddrPort // from where our node has called
	listening  chan struct{}
}

func newStage(t *testing.T, self, them netip.AddrPort) *stage {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &stage{Network: socklnd.HostNetwork(), t: t, self: self, them: them, kernel: l,
		callers: make(chan netip.AddrPort, 1), dialed: make(chan netip.AddrPort, 16), listening: make(chan struct{})}
}

// Device implements socklnd.Network.
func (s *stage) Device(string, lnet.NID) (socklnd.Device, error) {
	return socklnd.Device{
		Name:  "eth0",
		Addrs: []netip.Prefix{netip.PrefixFrom(s.self.Addr(), s.self.Addr().BitLen()-8)},
		Up:    true,
	}, nil
}

// Watch implements socklnd.Network: nothing ever changes.
func (s *stage) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

// Listen implements socklnd.Network.
func (s *stage) Listen(at netip.AddrPort, backlog int) (socklnd.Listener, error) {
	if want := netip.AddrPortFrom(s.self.Addr(), 988); at != want {
		return nil, fmt.Errorf("listens on %s: a kernel on %s", at, want)
	}
	l, err := s.Network.Listen(netip.MustParseAddrPort("127.0.0.1:0"), backlog)
	if err != nil {
		return nil, err
	}
	s.ours = l.Addr()
	close(s.listening)
	return &stageListener{Listener: l, s: s, at: at}, nil
}

// Dial implements socklnd.Network.
func (s *stage) Dial(ctx context.Context, from, to netip.AddrPort) (socklnd.Stream, error) {
	if to != s.them {
		return nil, fmt.Errorf("calls %s: a kernel %s", to, s.them)
	}
	stream, err := s.Network.Dial(ctx, netip.MustParseAddrPort("127.0.0.1:0"), s.kernel.Addr().(*net.TCPAddr).AddrPort())
	if err != nil {
		return nil, err
	}
	s.dialed <- from
	return &stageStream{Stream: stream, local: from, remote: to}, nil
}

// accept takes a call of our node, which must come from the port from which
// the kernel's came. Ports that are in use on a real host are not here, so that
// ours counts down by itself.
func (s *stage) accept(from netip.AddrPort) net.Conn {
	s.t.Helper()
	select {
	case got := <-s.dialed:
		if got.Addr() != from.Addr() {
			s.t.Errorf("we call from %s, the kernel from %s", got, from)
		}
	case <-time.After(5 * time.Second):
		s.t.Fatalf("our node does not call")
	}
	c, err := s.kernel.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// call calls our node as the kernel did.
func (s *stage) call(from netip.AddrPort) net.Conn {
	s.t.Helper()
	<-s.listening
	s.callers <- from
	c, err := net.Dial("tcp", s.ours.String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

type stageListener struct {
	socklnd.Listener
	s  *stage
	at netip.AddrPort
}

func (l *stageListener) Accept() (socklnd.Stream, error) {
	stream, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &stageStream{Stream: stream, local: l.at, remote: <-l.s.callers}, nil
}

func (l *stageListener) Addr() netip.AddrPort { return l.at }

type stageStream struct {
	socklnd.Stream
	local, remote netip.AddrPort
}

func (s *stageStream) LocalAddr() netip.AddrPort  { return s.local }
func (s *stageStream) RemoteAddr() netip.AddrPort { return s.remote }
