package fuzz

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/testing/tshark"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// TestEmittedFramesInTshark lets two nodes exchange messages of every type
// and of sizes on both sides of every threshold, and holds tshark's reading of
// each frame that they emit against ours.
func TestEmittedFramesInTshark(t *testing.T) {
	tap := &tap{Network: socklnd.HostNetwork(), streams: map[string][]byte{}}
	a := startTapped(t, tap, "127.9.1.1")
	b := startTapped(t, tap, "127.9.1.2")
	for k, size := range []int{0, 1, 96, 919, 920, 927, 928, 4095, 4096, 65536, lnet.MTU} {
		exchangeBothWays(t, a, b, uint64(k), size)
		exchangeBothWays(t, b, a, uint64(k), size)
	}
	for _, n := range []*tapped{a, b} {
		other := b
		if n == b {
			other = a
		}
		if _, err := n.node.Ping(t.Context(), lnet.ProcessID{NID: other.nid}, node.PingOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	a.stop()
	b.stop()
	checked := tshark.Check(t, tap.all()...)
	// Four messages for each pair of exchanges, and two for each ping; the
	// PUT without an ACK makes one more.
	if want := 2*11*5 + 2*2; checked.Compared != want {
		t.Errorf("tshark has read %d frames: want %d", checked.Compared, want)
	}
	t.Logf("%d frames compared; not shown to tshark: %v", checked.Compared, checked.NotShown)
}

// exchangeBothWays does a PUT with and one without an ACK, and a GET.
func exchangeBothWays(t *testing.T, from, to *tapped, k uint64, size int) {
	t.Helper()
	bits := 0x0123456789abcd00 | k
	got := node.NewEventQueue(node.EventsOf(portals.EventPut, portals.EventGet))
	target, err := to.node.Attach(portals.Entry{Portal: 26, MatchBits: bits}, portals.MD{
		Bytes: make([]byte, size+64), Threshold: portals.Unlimited,
		Options: portals.OpPut | portals.OpGet | portals.ManageRemote, Handler: got})
	if err != nil {
		t.Fatal(err)
	}
	sent := node.NewEventQueue(node.EventsOf(portals.EventAck, portals.EventReply))
	h, err := from.node.Bind(portals.MD{Bytes: make([]byte, size), Threshold: portals.Unlimited, Handler: sent})
	if err != nil {
		t.Fatal(err)
	}
	peer := lnet.ProcessID{NID: to.nid, PID: lnet.PIDLustre}
	for _, ack := range []bool{false, true} {
		err := from.node.Put(h, peer, node.PutOptions{
			Portal: 26, MatchBits: bits, Offset: uint32(k), HdrData: 0xfedcba9876543210 ^ k, Ack: ack})
		if err != nil {
			t.Fatal(err)
		}
		await(t, got)
	}
	await(t, sent)
	if err := from.node.Get(h, peer, node.GetOptions{Portal: 26, MatchBits: bits, Offset: uint32(2 * k)}); err != nil {
		t.Fatal(err)
	}
	await(t, sent)
	await(t, got)
	for n, h := range map[*node.Node]lnet.Handle{from.node: h, to.node: target} {
		if err := n.Unlink(h); err != nil {
			t.Fatal(err)
		}
	}
}

func await(t *testing.T, q *node.EventQueue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var e portals.Event
	if err := q.Next(ctx, &e); err != nil {
		t.Fatal(err)
	}
	if e.Err != nil {
		t.Fatal(e.Err)
	}
}

// tapped is a node whose streams a tap sees.
type tapped struct {
	node *node.Node
	nid  lnet.NID
	stop func()
}

func startTapped(t *testing.T, tap *tap, address string) *tapped {
	t.Helper()
	c := socklnd.UnprivilegedConfig(9971)
	c.Network = tap
	d, err := socklnd.New(c)
	if err != nil {
		t.Fatal(err)
	}
	parameters := node.DefaultParameters()
	parameters.Discovery = discovery.Static // the test says what is sent
	n, err := node.New(node.Config{Parameters: &parameters})
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(n.Close(ctx), d.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	net := lnet.MakeNet(lnet.TypeTCP, 0)
	nid := lnet.NIDFromIP(net, netip.MustParseAddr(address))
	if _, err := n.AddNI(t.Context(), d, lnd.Config{Net: net, NID: nid}); err != nil {
		t.Fatal(err)
	}
	return &tapped{node: n, nid: nid, stop: stop}
}

// tap is the host's network, with a record of all that is written.
type tap struct {
	socklnd.Network
	mu      sync.Mutex
	streams map[string][]byte
}

func (n *tap) all() []tshark.Stream {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []tshark.Stream
	for name, b := range n.streams {
		out = append(out, tshark.Stream{Name: name, Bytes: b})
	}
	return out
}

func (n *tap) Listen(at netip.AddrPort, backlog int) (socklnd.Listener, error) {
	l, err := n.Network.Listen(at, backlog)
	if err != nil {
		return nil, err
	}
	return &tapListener{l, n}, nil
}

func (n *tap) Dial(ctx context.Context, from, to netip.AddrPort) (socklnd.Stream, error) {
	s, err := n.Network.Dial(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return &tapStream{s, n}, nil
}

type tapListener struct {
	socklnd.Listener
	n *tap
}

func (l *tapListener) Accept() (socklnd.Stream, error) {
	s, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tapStream{s, l.n}, nil
}

type tapStream struct {
	socklnd.Stream
	n *tap
}

func (s *tapStream) TryWrite(bufs [][]byte) (int, error) {
	n, err := s.Stream.TryWrite(bufs)
	name := fmt.Sprintf("%s to %s", s.LocalAddr(), s.RemoteAddr())
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	left := n
	for _, b := range bufs {
		b = b[:min(left, len(b))]
		s.n.streams[name] = append(s.n.streams[name], b...)
		left -= len(b)
	}
	return n, err
}
