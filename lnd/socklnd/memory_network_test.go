package socklnd

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/hostnet/hostnettest"
)

// inBubble runs a test with simulated time on a network in memory. Time passes only while all
// goroutines wait, so the speed of the machine does not matter.
func inBubble(t *testing.T, test func(t *testing.T, m *memoryNetwork)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &memoryNetwork{listeners: make(map[netip.AddrPort]*memoryListener)}
		m.Set(hostnet.Device{Name: "memory", Addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}, Up: true, Loopback: true})
		test(t, m)
	})
}

// memoryNetwork is a network for one test. A stream buffers up to streamBuffer bytes in each
// direction. All calls appear to come from privileged ports.
type memoryNetwork struct {
	hostnettest.Host
	mu        sync.Mutex
	listeners map[netip.AddrPort]*memoryListener
	calls     int
}

const streamBuffer = 256 << 10

func (m *memoryNetwork) use(c *Config) { c.Network = m }

// memory returns the network that puppets use. Networks that embed m share it.
func (m *memoryNetwork) memory() *memoryNetwork { return m }

func (*memoryNetwork) Speed(string) int { return 0 }

func (m *memoryNetwork) Listen(at netip.AddrPort, _ int) (Listener, error) { return m.listen(at) }

func (m *memoryNetwork) listen(at netip.AddrPort) (*memoryListener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners[at] != nil {
		return nil, syscall.EADDRINUSE
	}
	l := &memoryListener{network: m, at: at, calls: make(chan *memoryStream, 100), closed: make(chan struct{})}
	m.listeners[at] = l
	return l, nil
}

func (m *memoryNetwork) Dial(_ context.Context, from, to netip.AddrPort) (Stream, error) {
	return m.dial(from, to)
}

func (m *memoryNetwork) dial(from, to netip.AddrPort) (*memoryStream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.listeners[to]
	if l == nil {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	if from.Port() == 0 {
		m.calls++
		from = netip.AddrPortFrom(from.Addr(), uint16(512+m.calls%500))
	}
	wire := &sync.Mutex{}
	one, other := newMemoryStream(wire, from, to), newMemoryStream(wire, to, from)
	one.peer, other.peer = other, one
	l.calls <- other
	return one, nil
}

// memoryListener is a listener for the node or for a puppet.
type memoryListener struct {
	network *memoryNetwork
	at      netip.AddrPort
	calls   chan *memoryStream
	closed  chan struct{}
}

func (l *memoryListener) Accept() (Stream, error) { return l.accept() }

func (l *memoryListener) accept() (*memoryStream, error) {
	select {
	case s := <-l.calls:
		return s, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Addr() netip.AddrPort { return l.at }

func (l *memoryListener) Close() error {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	if l.network.listeners[l.at] == l {
		delete(l.network.listeners, l.at)
		close(l.closed)
	}
	return nil
}

// memoryStream is one end of a stream. Both ends share mu.
type memoryStream struct {
	mu            *sync.Mutex
	changed       *sync.Cond
	peer          *memoryStream
	local, remote netip.AddrPort
	in            []byte
	closed        bool
	gone          error     // set if TCP has given up the connection: the reason
	read, write   time.Time // deadlines
}

func newMemoryStream(mu *sync.Mutex, local, remote netip.AddrPort) *memoryStream {
	return &memoryStream{mu: mu, changed: sync.NewCond(mu), local: local, remote: remote}
}

func (s *memoryStream) LocalAddr() netip.AddrPort     { return s.local }
func (s *memoryStream) RemoteAddr() netip.AddrPort    { return s.remote }
func (s *memoryStream) Configure(StreamOptions) error { return nil }
func (s *memoryStream) Trying() (bool, time.Duration) { return false, 0 } // nothing is ever retransmitted

// over returns the error of an operation with this deadline, or nil if the operation can go ahead.
// The caller holds mu.
func (s *memoryStream) over(deadline time.Time) error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.gone != nil:
		return s.gone
	case !deadline.IsZero() && !time.Now().Before(deadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// giveUp makes this end fail with why, as if TCP had given up the connection.
func (s *memoryStream) giveUp(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = why
	s.changed.Broadcast()
}

func (s *memoryStream) Read(bufs [][]byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.in) == 0 {
		if err := s.over(s.read); err != nil {
			return 0, err
		}
		if s.peer.closed {
			return 0, io.EOF
		}
		s.changed.Wait()
	}
	if s.closed {
		return 0, net.ErrClosed
	}
	for _, b := range bufs {
		k := copy(b, s.in)
		s.in, n = s.in[k:], n+k
	}
	s.peer.changed.Broadcast()
	return n, nil
}

func (s *memoryStream) TryWrite(bufs [][]byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.over(s.write); err != nil {
		return 0, err
	}
	if s.peer.closed {
		return 0, syscall.EPIPE
	}
	for _, b := range bufs {
		k := min(len(b), streamBuffer-len(s.peer.in))
		s.peer.in, n = append(s.peer.in, b[:k]...), n+k
	}
	s.peer.changed.Broadcast()
	return n, nil
}

func (s *memoryStream) AwaitWritable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if err := s.over(s.write); err != nil {
			return err
		}
		if s.peer.closed || len(s.peer.in) < streamBuffer {
			return nil
		}
		s.changed.Wait()
	}
}

func (s *memoryStream) SetReadDeadline(at time.Time) error  { return s.bound(&s.read, at) }
func (s *memoryStream) SetWriteDeadline(at time.Time) error { return s.bound(&s.write, at) }

func (s *memoryStream) bound(deadline *time.Time, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*deadline = at
	if !at.IsZero() {
		time.AfterFunc(time.Until(at), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changed.Broadcast()
		})
	}
	return nil
}

func (s *memoryStream) Ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return net.ErrClosed
	case s.peer.closed:
		return io.EOF
	}
	return nil
}

func (s *memoryStream) Unacked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.peer.in)
}

func (s *memoryStream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.changed.Broadcast()
	s.peer.changed.Broadcast()
	return nil
}

// memoryEnd is a stream that a puppet uses.
type memoryEnd struct{ *memoryStream }

func (e memoryEnd) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(e.local) }
func (e memoryEnd) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(e.remote) }

func (e memoryEnd) Read(b []byte) (int, error) { return e.memoryStream.Read([][]byte{b}) }

func (e memoryEnd) Write(b []byte) (n int, err error) {
	for n < len(b) {
		k, err := e.TryWrite([][]byte{b[n:]})
		if err != nil {
			return n, err
		}
		if n += k; n < len(b) {
			if err := e.AwaitWritable(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (e memoryEnd) SetDeadline(at time.Time) error {
	_ = e.SetReadDeadline(at)
	return e.SetWriteDeadline(at)
}

// memoryDoor is a listener that a puppet uses. It needs no deadline, because a bubble detects a
// wait that cannot end.
type memoryDoor struct{ *memoryListener }

func (d memoryDoor) SetDeadline(time.Time) error { return nil }

func (d memoryDoor) Accept() (net.Conn, error) {
	s, err := d.accept()
	if err != nil {
		return nil, err
	}
	return memoryEnd{s}, nil
}
