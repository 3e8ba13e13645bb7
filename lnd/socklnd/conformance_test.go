package socklnd_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/lndtest"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// TestConformance runs the suite that all drivers share, over TCP on the loopback device. It needs
// privileged ports, because a caller from another port is not identified by its HELLO (socklnd
// 5.2). Package simlnd runs the same suite over simulated streams.
//
// socklnd 1 (1), 8.3, 13 (1)-(3)
func TestConformance(t *testing.T) {
	testenv.NeedRoot(t)
	t.Run("3", func(t *testing.T) { conforms(t, 3, 0, 50_000) })
	if testenv.Race {
		return // the others run the same goroutines
	}
	t.Run("1", func(t *testing.T) { conforms(t, 1, 0, 50_000) })
	t.Run("busy_poll", func(t *testing.T) { conforms(t, 1, 100*time.Microsecond, 10_000) })
}

func conforms(t *testing.T, conns int, busyPoll time.Duration, chain int) {
	lndtest.Run(t, lndtest.Harness{
		New:         func(t *testing.T, n int) *lndtest.World { return loopback(t, n, conns, busyPoll) },
		Chain:       chain,
		MaxUnplaced: 1 + conns, // CONTROL, and each BULK_OUT
		Ordered:     conns == 1,
		Descriptors: true,
		Allocations: !testenv.Race,
	})
}

var tcp = lnet.MakeNet(lnet.TypeTCP, 0)

// loopbackNID returns the NID of node k. Addresses also depend on the process, so that test
// processes do not interfere.
func loopbackNID(k int) lnet.NID {
	pid := os.Getpid()
	return lnet.NIDFromIP(tcp, netip.AddrFrom4([4]byte{127, byte(16 + pid>>8%200), byte(pid), byte(k + 1)}))
}

// loopback returns a world of n nodes, each with its own driver.
func loopback(t *testing.T, n, conns int, busyPoll time.Duration) *lndtest.World {
	network := &breakable{Network: socklnd.HostNetwork()}
	drivers := make([]*socklnd.Driver, n)
	renew := func(k int) {
		c := socklnd.DefaultConfig()
		c.Network = network
		c.ConnsPerPeer, c.BusyPoll = conns, busyPoll
		c.Logger = testenv.Logger(t)
		c.SourcePorts = socklnd.SourcePrivileged
		c.MinReconnect, c.MaxReconnect = 50*time.Millisecond, 200*time.Millisecond
		d, err := socklnd.New(c)
		if err != nil {
			t.Fatal(err)
		}
		drivers[k] = d
	}
	closeDriver := func(d *socklnd.Driver) {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	for k := range drivers {
		renew(k)
	}
	return &lndtest.World{
		NID: loopbackNID,
		Open: func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error) {
			return drivers[k].Open(ctx, lnd.Config{Net: tcp, NID: loopbackNID(k), Upper: u})
		},
		Close: func() {
			for _, d := range drivers {
				closeDriver(d)
			}
		},
		Renew: func(k int) {
			closeDriver(drivers[k])
			renew(k)
		},
		Kill: func(a, b int) { network.kill(loopbackNID(a).IP(), loopbackNID(b).IP()) },
	}
}

// breakable is a network whose streams a test can break as if the peer had reset them.
type breakable struct {
	socklnd.Network
	mu      sync.Mutex
	streams map[*breakableStream]bool
}

func (b *breakable) add(s socklnd.Stream, err error) (socklnd.Stream, error) {
	if err != nil {
		return nil, err
	}
	w := &breakableStream{hostly: s.(hostly), network: b}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.streams == nil {
		b.streams = make(map[*breakableStream]bool)
	}
	b.streams[w] = true
	return w, nil
}

// kill breaks all streams between two addresses.
func (b *breakable) kill(x, y netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.streams {
		local, remote := s.LocalAddr().Addr(), s.RemoteAddr().Addr()
		if local == x && remote == y || local == y && remote == x {
			s.broken.Store(true)
			_ = s.hostly.Close() // the stream may be closed already
		}
	}
}

func (b *breakable) Dial(ctx context.Context, from, to netip.AddrPort) (socklnd.Stream, error) {
	return b.add(b.Network.Dial(ctx, from, to))
}

func (b *breakable) Listen(at netip.AddrPort, backlog int) (socklnd.Listener, error) {
	l, err := b.Network.Listen(at, backlog)
	return breakableListener{l, b}, err
}

type breakableListener struct {
	socklnd.Listener
	network *breakable
}

func (l breakableListener) Accept() (socklnd.Stream, error) {
	return l.network.add(l.Listener.Accept())
}

// hostly is a stream of the host's network.
type hostly interface {
	socklnd.Stream
	socklnd.Pollable
}

type breakableStream struct {
	hostly
	network        *breakable
	broken, closed atomic.Bool
}

// explain returns ECONNRESET for an error that kill caused by closing the stream.
func (s *breakableStream) explain(err error) error {
	if err != nil && errors.Is(err, net.ErrClosed) && s.broken.Load() && !s.closed.Load() {
		return syscall.ECONNRESET
	}
	return err
}

func (s *breakableStream) Read(bufs [][]byte) (int, error) {
	n, err := s.hostly.Read(bufs)
	return n, s.explain(err)
}

func (s *breakableStream) TryRead(bufs [][]byte) (int, error) {
	n, err := s.hostly.TryRead(bufs)
	return n, s.explain(err)
}

func (s *breakableStream) TryWrite(bufs [][]byte) (int, error) {
	n, err := s.hostly.TryWrite(bufs)
	return n, s.explain(err)
}

func (s *breakableStream) AwaitWritable() error { return s.explain(s.hostly.AwaitWritable()) }

func (s *breakableStream) Ended() error { return s.explain(s.hostly.Ended()) }

func (s *breakableStream) Close() error {
	s.closed.Store(true)
	s.network.mu.Lock()
	delete(s.network.streams, s)
	s.network.mu.Unlock()
	return s.hostly.Close()
}
