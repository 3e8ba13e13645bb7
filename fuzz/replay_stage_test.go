package fuzz

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/socklnd"
)

// stage is a Network on which our node has the addresses of a recorded node, and the kernels that the
// test plays have theirs. TCP sockets on loopback carry the bytes.
type stage struct {
	socklnd.Network
	t       *testing.T
	devices []hostnet.Device
	kernels net.Listener // listens for all kernels

	calling sync.Mutex // held while connecting to our node, so that it can identify the caller

	mu    sync.Mutex
	used  map[call]bool // source ports are in use towards an address
	calls map[call]chan net.Conn
	ready map[call]chan struct{} // closed when our node may use the connection
	ours  map[netip.AddrPort]*stageListener
}

// call is the addresses of a TCP connection, from the dialling side's point of view.
type call struct{ from, to netip.AddrPort }

func newStage(t *testing.T, devices []hostnet.Device) *stage {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &stage{Network: socklnd.HostNetwork(), t: t, devices: devices, kernels: l,
		used: map[call]bool{}, calls: map[call]chan net.Conn{}, ready: map[call]chan struct{}{},
		ours: map[netip.AddrPort]*stageListener{}}
}

// Devices implements hostnet.Host.
func (s *stage) Devices() ([]hostnet.Device, error) { return s.devices, nil }

// Watch implements hostnet.Host. Nothing ever changes.
func (s *stage) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

// Listen implements socklnd.Network.
func (s *stage) Listen(at netip.AddrPort, backlog int) (socklnd.Listener, error) {
	l, err := s.Network.Listen(netip.MustParseAddrPort("127.0.0.1:0"), backlog)
	if err != nil {
		return nil, err
	}
	ours := &stageListener{Listener: l, s: s, at: at, callers: make(chan netip.AddrPort, 64)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ours[at] = ours
	return ours, nil
}

// Dial implements socklnd.Network. accept finds the connection.
func (s *stage) Dial(ctx context.Context, from, to netip.AddrPort) (socklnd.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := call{from, to}
	if s.used[c] {
		return nil, syscall.EADDRINUSE
	}
	if l := s.ours[to]; l != nil {
		s.used[c] = true
		return s.dialSelf(ctx, l, from)
	}
	at := s.kernels.Addr().(*net.TCPAddr).AddrPort()
	stream, err := s.Network.Dial(ctx, netip.MustParseAddrPort("127.0.0.1:0"), at)
	if err != nil {
		return nil, err
	}
	conn, err := s.kernels.Accept()
	if err != nil {
		_ = stream.Close()
		return nil, err
	}
	s.used[c] = true
	s.slot(c) <- conn
	return &stageStream{Stream: stream, stage: s, call: c, local: from, remote: to, ready: s.gate(c)}, nil
}

// dialSelf connects our node to itself. The test does not see these connections.
func (s *stage) dialSelf(ctx context.Context, l *stageListener, from netip.AddrPort) (socklnd.Stream, error) {
	s.calling.Lock()
	defer s.calling.Unlock()
	l.callers <- from
	stream, err := s.Network.Dial(ctx, netip.MustParseAddrPort("127.0.0.1:0"), l.Listener.Addr())
	if err != nil {
		return nil, err
	}
	c := call{from, l.at}
	return &stageStream{Stream: stream, stage: s, call: c, local: from, remote: l.at, ready: make(chan struct{})}, nil
}

// slot returns the channel in which a connection of our node waits. s.mu is held.
func (s *stage) slot(c call) chan net.Conn {
	if s.calls[c] == nil {
		s.calls[c] = make(chan net.Conn, 1)
	}
	return s.calls[c]
}

// gate returns a channel that is closed when our node may use a connection. s.mu is held.
func (s *stage) gate(c call) chan struct{} {
	if s.ready[c] == nil {
		s.ready[c] = make(chan struct{})
	}
	return s.ready[c]
}

// await waits until our node may use a connection with completed HELLOs.
func (s *stage) await(c call) {
	s.t.Helper()
	s.mu.Lock()
	ready := s.gate(c)
	s.mu.Unlock()
	select {
	case <-ready:
	case <-time.After(patience):
		s.t.Fatalf("our node does not take the connection from %s to %s", c.from, c.to)
	}
}

// accept accepts a connection that our node opens between the recorded addresses.
func (s *stage) accept(c call) net.Conn {
	s.t.Helper()
	s.mu.Lock()
	slot := s.slot(c)
	s.mu.Unlock()
	select {
	case conn := <-slot:
		s.t.Cleanup(func() { _ = conn.Close() })
		return conn
	case <-time.After(patience):
		s.t.Fatalf("our node does not call %s from %s", c.to, c.from)
		return nil
	}
}

// unexpected lists the connections of our node that were not accepted.
func (s *stage) unexpected() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []call
	for c, slot := range s.calls {
		if len(slot) > 0 {
			left = append(left, c)
		}
	}
	return left
}

// call connects to our node as a kernel did.
func (s *stage) call(c call) net.Conn {
	s.t.Helper()
	s.mu.Lock()
	l := s.ours[c.to]
	s.mu.Unlock()
	if l == nil {
		s.t.Fatalf("our node does not listen on %s", c.to)
	}
	s.calling.Lock()
	defer s.calling.Unlock()
	l.callers <- c.from
	conn, err := net.Dial("tcp", l.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// stageListener is our node's listener on an address of the recording.
type stageListener struct {
	socklnd.Listener
	s       *stage
	at      netip.AddrPort
	callers chan netip.AddrPort // address of the next connection
}

// Accept implements socklnd.Listener.
func (l *stageListener) Accept() (socklnd.Stream, error) {
	stream, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from := <-l.callers
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	c := call{from, l.at}
	return &stageStream{Stream: stream, stage: l.s, call: c, local: l.at, remote: from, ready: l.s.gate(c)}, nil
}

// Addr implements socklnd.Listener.
func (l *stageListener) Addr() netip.AddrPort { return l.at }

// stageStream has the addresses of the recording.
type stageStream struct {
	socklnd.Stream
	stage         *stage
	call          call
	local, remote netip.AddrPort

	configured atomic.Bool
	once       sync.Once
	ready      chan struct{}
}

// Configure implements socklnd.Stream. It is called after the HELLOs.
func (s *stageStream) Configure(o socklnd.StreamOptions) error {
	s.configured.Store(true)
	return s.Stream.Configure(o)
}

// Read implements socklnd.Stream. The first Read after Configure is for messages: from then on the
// connection is in use.
func (s *stageStream) Read(bufs [][]byte) (int, error) {
	if s.configured.Load() {
		s.once.Do(func() { close(s.ready) })
	}
	return s.Stream.Read(bufs)
}

// Close implements socklnd.Stream. The addresses can be used again.
func (s *stageStream) Close() error {
	s.stage.mu.Lock()
	if s.stage.ready[s.call] == s.ready {
		delete(s.stage.ready, s.call)
		delete(s.stage.used, s.call)
	}
	s.stage.mu.Unlock()
	return s.Stream.Close()
}

func (s *stageStream) LocalAddr() netip.AddrPort  { return s.local }
func (s *stageStream) RemoteAddr() netip.AddrPort { return s.remote }

// has reports whether an address belongs to our node.
func (s *stage) has(a netip.Addr) bool {
	return slices.ContainsFunc(s.devices, func(d hostnet.Device) bool { return d.Has(a) })
}
