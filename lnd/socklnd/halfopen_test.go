package socklnd

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// gate is a network whose accepted streams block in TryWrite until leave is closed. entered and closed get an element
// when TryWrite begins, and when a stream has been closed.
type gate struct {
	Network
	entered, leave, closed chan struct{}
}

func newGate() *gate {
	return &gate{disguised{HostNetwork()}, make(chan struct{}, 100), make(chan struct{}), make(chan struct{}, 100)}
}

type gateListener struct {
	Listener
	g *gate
}

type gateStream struct {
	Stream
	g *gate
}

func (g *gate) Listen(at netip.AddrPort, backlog int) (Listener, error) {
	l, err := g.Network.Listen(at, backlog)
	return gateListener{l, g}, err
}

func (l gateListener) Accept() (Stream, error) {
	s, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return gateStream{s, l.g}, nil
}

func (s gateStream) TryWrite(bufs [][]byte) (int, error) {
	s.g.entered <- struct{}{}
	<-s.g.leave
	return s.Stream.TryWrite(bufs)
}

func (s gateStream) Close() error {
	defer func() { s.g.closed <- struct{}{} }()
	return s.Stream.Close()
}

// TestWhoHasIntroducedItselfIsNotEvicted checks that other half-open connections cannot evict one
// whose HELLO is being answered.
func TestWhoHasIntroducedItselfIsNotEvicted(t *testing.T) {
	g := newGate()
	n := start(t, func(c *Config) { c.Network, c.MaxHalfOpenPerSource = g, 1 })
	p := newPuppet(n)
	w := p.call(protocol.Control)
	await(t, g.entered, "answer")
	for range 3 {
		p.dial()
	}
	n.driver.awaitHalfOpen(t, 1)
	close(g.leave)
	if h := w.hello(); h.Type != protocol.Control {
		t.Errorf("answer %+v", h)
	}
	w.put(10)
	n.arrival()
}

// awaitHalfOpen waits until there are count half-open connections.
func (d *Driver) awaitHalfOpen(t testing.TB, count int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		got, _ := d.halfOpen.Len()
		if got == count {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d half-open connections, want %d", got, count)
		}
	}
}

// TestCloseEndsNewcomers checks that closing an interface closes the half-open connections to its
// own acceptor, and no others.
func TestCloseEndsNewcomers(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		n := start(t, m.use)
		neighbour := &node{t: t, driver: n.driver, arrived: make(chan *arrival, 10), down: make(chan lnd.PeerDown, 10)}
		i, err := n.driver.Open(context.Background(), lnd.Config{Net: tcp, NID: lnet.NIDFromIP(tcp, newAddress()), Upper: neighbour})
		if err != nil {
			t.Fatal(err)
		}
		neighbour.Interface = i.(*Interface)
		silent := newPuppet(n).dial()
		other := newPuppet(neighbour)
		late := other.dial()
		n.driver.awaitHalfOpen(t, 2)

		begin := time.Now()
		if err := n.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		silent.ends()
		if d := time.Since(begin); d > 0 {
			t.Errorf("a newcomer stayed for %v", d)
		}
		h := other.hello(protocol.Control)
		late.send(other.request())
		late.say(h)
		if h := late.hello(); h.Type != protocol.Control {
			t.Errorf("the neighbour's newcomer is answered %+v", h)
		}
		if err := neighbour.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := n.driver.Close(); err != nil {
			t.Error(err)
		}
	})
}

// pausingLog blocks the first goroutine that logs message until the test continues it.
type pausingLog struct {
	slog.Handler
	message       string
	reached, goOn chan struct{}
	once          *sync.Once
}

func (l pausingLog) Enabled(context.Context, slog.Level) bool { return true }
func (l pausingLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l pausingLog) WithGroup(string) slog.Handler            { return l }

func (l pausingLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, l.message) {
		l.once.Do(func() {
			l.reached <- struct{}{}
			<-l.goOn
		})
	}
	return nil
}

// breaking is a network whose accepted streams fail every write.
type breaking struct{ *gate }

func (b breaking) Listen(at netip.AddrPort, backlog int) (Listener, error) {
	l, err := b.Network.Listen(at, backlog)
	return breakingListener{l}, err
}

type breakingListener struct{ Listener }

func (l breakingListener) Accept() (Stream, error) {
	s, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return breakingStream{s}, nil
}

type breakingStream struct{ Stream }

func (breakingStream) TryWrite([][]byte) (int, error) { return 0, errTruncated }

// TestCloseWaitsForAdmissions checks that there is no upcall after Close has returned, even if the
// answer to a new caller could not be written.
func TestCloseWaitsForAdmissions(t *testing.T) {
	log := pausingLog{message: "connections closed", reached: make(chan struct{}, 1), goOn: make(chan struct{}), once: new(sync.Once)}
	n := start(t, func(c *Config) {
		c.Network = breaking{newGate()}
		c.Logger = slog.New(log)
	})
	newPuppet(n).call(protocol.Control)
	await(t, log.reached, "failed admission")
	closed := make(chan error, 1)
	go func() {
		err := n.Close(context.Background())
		close(n.down) // a later upcall would panic
		closed <- err
	}()
	n.awaitTable("closing", func() bool { return n.Closed() })
	select {
	case <-closed:
		t.Error("closed while a newcomer is being admitted")
	default:
	}
	close(log.goOn)
	if err := await(t, closed, "end of Close"); err != nil {
		t.Error(err)
	}
	if err := n.driver.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseRefusesAdmissions: given a caller whose HELLO is being answered when the interface
// closes, then it is counted as RefusedClosing, not as RefusedGone.
func TestCloseRefusesAdmissions(t *testing.T) {
	n := start(t, func(c *Config) { c.Network = newGate() })
	closeDuringAnswer(newPuppet(n))
	n.awaitRefusals(lnd.RefusedClosing, 1)
}

// closeDuringAnswer stops the node, whose network is a gate, while it answers a caller.
func closeDuringAnswer(p *puppet) {
	n := p.node
	g := n.driver.config.Network.(*gate)
	p.call(protocol.Control)
	await(n.t, g.entered, "answer")
	stopped := make(chan struct{}, 1)
	go func() {
		n.stop() // also waits for the caller's goroutine, which logs
		stopped <- struct{}{}
	}()
	await(n.t, g.closed, "end of the caller's stream") // if it had a moment left, the caller could be accepted
	close(g.leave)
	await(n.t, stopped, "end of stop")
}
