package socklnd_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// turnstile blocks goroutines in pass while it is shut.
type turnstile struct {
	shut atomic.Bool
	open chan struct{}
}

func (g *turnstile) pass() {
	if g.shut.Load() {
		<-g.open
	}
}

// haltingLog blocks in Handle, and haltingStream in Close, while their turnstile is shut.
type haltingLog struct {
	slog.Handler
	at *turnstile
}

func (l haltingLog) Enabled(context.Context, slog.Level) bool { return true }
func (l haltingLog) WithAttrs([]slog.Attr) slog.Handler       { return l }

func (l haltingLog) Handle(context.Context, slog.Record) error {
	l.at.pass()
	return nil
}

type haltingNetwork struct {
	socklnd.Network
	at     *turnstile
	broken *atomic.Bool // writes fail if it is set
}

type haltingStream struct {
	socklnd.Stream
	n haltingNetwork
}

func (n haltingNetwork) Dial(ctx context.Context, from, to netip.AddrPort) (socklnd.Stream, error) {
	s, err := n.Network.Dial(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return haltingStream{s, n}, nil
}

func (s haltingStream) TryWrite(bufs [][]byte) (int, error) {
	if s.n.broken.Load() {
		return 0, syscall.EPIPE
	}
	return s.Stream.TryWrite(bufs)
}

func (s haltingStream) Close() error {
	s.n.at.pass()
	return s.Stream.Close()
}

// silentUpper drops all messages and counts upcalls.
type silentUpper struct {
	i     lnd.Interface
	calls atomic.Int64
}

func (u *silentUpper) Arrived(m *lnd.Rx) error {
	u.calls.Add(1)
	u.i.Receive(m, lnd.Placement{})
	return nil
}
func (u *silentUpper) Withdrawn(*lnd.Rx)               { u.calls.Add(1) }
func (u *silentUpper) PeerDown(lnd.PeerDown)           { u.calls.Add(1) }
func (u *silentUpper) PeerRestarted(lnet.NID)          { u.calls.Add(1) }
func (u *silentUpper) LNDTimeout() time.Duration       { return 0 }
func (u *silentUpper) Vouched(lnet.NID) bool           { return false }
func (u *silentUpper) LinkChanged(lnd.LinkState)       { u.calls.Add(1) }
func (u *silentUpper) PeerStalled(lnet.NID, time.Time) { u.calls.Add(1) }
func (u *silentUpper) ConnectionsLost(lnet.NID)        { u.calls.Add(1) }

type completed chan error

func (c completed) Sent(_ *lnd.Tx, err error) { c <- err }

// TestCloseWaitsForWhoeverEndsConnections checks that Close does not return while a goroutine that
// does not belong to the interface is closing connections of a peer. The goroutine does so in
// Disconnect, or because its write failed.
func TestCloseWaitsForWhoeverEndsConnections(t *testing.T) {
	for name, end := range map[string]func(g *gatedPair){
		"disconnect": func(g *gatedPair) {
			g.stream.shut.Store(true)
			go g.i.Disconnect(g.peer.NID)
		},
		"failed write": func(g *gatedPair) {
			g.log.shut.Store(true)
			g.broken.Store(true)
			go g.put()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGatedPair(t)
				g.put()
				if err := <-g.sent; err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // all connections are open
				end(g)
				synctest.Wait()
				g.fabric.Break(g.host, g.peerHost)
				synctest.Wait() // the readers have ended

				closed := make(chan error, 1)
				go func() { closed <- g.i.Close(context.Background()) }()
				synctest.Wait()
				if len(closed) > 0 {
					t.Error("Close returned while connections are being ended")
				}
				close(g.stream.open)
				close(g.log.open)
				synctest.Wait()
				calls := g.upper.calls.Load()
				if err := <-closed; err != nil {
					t.Error(err)
				}
				if now := g.upper.calls.Load(); now != calls {
					t.Errorf("%d upcalls after Close", now-calls)
				}
				g.stop()
			})
		})
	}
}

// gatedPair is an interface and a peer. Goroutines of the interface can be blocked when they log or
// when they close a stream.
type gatedPair struct {
	t              *testing.T
	fabric         *simlnd.Fabric
	host, peerHost *simlnd.Host
	log, stream    turnstile
	broken         atomic.Bool
	upper          silentUpper
	i              lnd.Interface
	peer           lnet.ProcessID
	peerInterface  lnd.Interface
	sent           completed
}

func newGatedPair(t *testing.T) *gatedPair {
	g := &gatedPair{t: t, fabric: simlnd.New(simlnd.Config{Seed: 1}), sent: make(completed, 10)}
	g.log.open, g.stream.open = make(chan struct{}), make(chan struct{})
	g.host, g.peerHost = g.fabric.Host("a", "10.0.0.1"), g.fabric.Host("b", "10.0.0.2")

	c := socklnd.DefaultConfig()
	c.Network = haltingNetwork{g.host, &g.stream, &g.broken}
	c.SourcePorts = socklnd.SourcePrivileged
	g.i = g.open(c, 1, &g.upper, slog.New(haltingLog{slog.DiscardHandler, &g.log}))
	g.upper.i = g.i
	c.Network = g.peerHost
	other := &silentUpper{}
	g.peerInterface = g.open(c, 2, other, nil)
	other.i = g.peerInterface
	g.peer = lnet.ProcessID{NID: g.peerInterface.NID(), PID: lnet.PIDLustre}
	return g
}

func (g *gatedPair) open(c socklnd.Config, k int, u lnd.Upper, log *slog.Logger) lnd.Interface {
	g.t.Helper()
	d, err := socklnd.New(c)
	if err != nil {
		g.t.Fatal(err)
	}
	nid := lnet.NIDFromIP(tcp, netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", k)))
	i, err := d.Open(context.Background(), lnd.Config{Net: tcp, NID: nid, Upper: u, Logger: log})
	if err != nil {
		g.t.Fatal(err)
	}
	return i
}

// put sends an empty message to the peer.
func (g *gatedPair) put() {
	g.i.Send(&lnd.Tx{
		Header: lnet.Header{Type: lnet.MsgPut, Src: g.i.NID(), Dest: g.peer.NID, SrcPID: lnet.PIDLustre, DestPID: lnet.PIDLustre},
		To:     g.peer,
		Done:   g.sent,
	})
}

// stop closes the peer's interface, then the fabric.
func (g *gatedPair) stop() {
	if err := g.peerInterface.Close(context.Background()); err != nil {
		g.t.Error(err)
	}
	g.fabric.Close()
}
