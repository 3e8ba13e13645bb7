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

// standing is a stream that only knows where it comes from, and whether it has
// been closed.
type standing struct {
	Stream
	remote netip.AddrPort
	closed bool
}

func (s *standing) RemoteAddr() netip.AddrPort { return s.remote }
func (s *standing) Close() error               { s.closed = true; return nil }

func from(source, port int) *standing {
	return &standing{remote: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(source >> 8), byte(source)}), uint16(port))}
}

func TestHalfOpenSparesOtherSources(t *testing.T) {
	h := newHalfOpen(6, 3)
	good := from(1, 1)
	h.enter(nil, good)
	var greedy []*standing
	for k := range 10 {
		s := from(2, k)
		greedy = append(greedy, s)
		h.enter(nil, s)
	}
	for k, s := range greedy {
		if want := k < 7; s.closed != want {
			t.Errorf("newcomer %d of a greedy source: closed %v, want %v", k, s.closed, want)
		}
	}
	if good.closed || h.count != 4 {
		t.Errorf("closed %v, %d stand", good.closed, h.count)
	}
}

func TestHalfOpenTakesFromTheGreediestSourceWhenFull(t *testing.T) {
	h := newHalfOpen(4, 3)
	all := []*standing{from(1, 1), from(2, 1), from(2, 2), from(2, 3), from(3, 1), from(4, 1)}
	for _, s := range all {
		h.enter(nil, s)
	}
	for k, want := range []bool{false, true, true, false, false, false} {
		if all[k].closed != want {
			t.Errorf("newcomer %d: closed %v, want %v", k, all[k].closed, want)
		}
	}
}

// TestHalfOpenTakesTheOldestOfManySources shows that a flood from as many
// sources as there are places leaves each newcomer its time.
func TestHalfOpenTakesTheOldestOfManySources(t *testing.T) {
	const total = 50
	h := newHalfOpen(total, 8)
	var all []*standing
	for k := range 4 * total {
		s := from(k, 1)
		all = append(all, s)
		h.enter(nil, s)
		for age, o := range all {
			if want := len(all)-age > total; o.closed != want {
				t.Fatalf("after %d newcomers: number %d closed %v, want %v", len(all), age, o.closed, want)
			}
		}
	}
}

func TestHalfOpenForgetsWhoHasLeft(t *testing.T) {
	h := newHalfOpen(10, 2)
	first, second, third := from(1, 1), from(1, 2), from(1, 3)
	n := h.enter(nil, first)
	h.enter(nil, second)
	if !h.leave(n) {
		t.Error("gone before it left")
	}
	if h.leave(n) {
		t.Error("left twice")
	}
	h.enter(nil, third)
	if first.closed || second.closed || h.count != 2 {
		t.Errorf("closed %v and %v, %d stand", first.closed, second.closed, h.count)
	}
}

// gate is a network whose streams, when they write, wait for leave.
type gate struct {
	Network
	entered, leave chan struct{}
}

func newGate() *gate {
	return &gate{disguised{HostNetwork()}, make(chan struct{}, 100), make(chan struct{})}
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

// TestWhoHasIntroducedItselfIsNotEvicted shows that a flood cannot end a
// connection that is being answered.
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

// awaitHalfOpen waits until so many newcomers stand.
func (d *Driver) awaitHalfOpen(t testing.TB, count int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		d.halfOpen.mu.Lock()
		got := d.halfOpen.count
		d.halfOpen.mu.Unlock()
		if got == count {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d half-open connections, want %d", got, count)
		}
	}
}

// TestCloseEndsNewcomers shows that an interface takes those with it that have
// come to its acceptor and not said whom they want, and nobody else.
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

// pausingLog stops whoever logs a message until it is told to go on.
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

// breaking is a network whose accepted streams cannot be written to.
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

// TestCloseWaitsForAdmissions shows that no upcall comes after Close, not even
// of a newcomer whose answer could not be written.
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
		close(n.down) // nobody may send there any more
		closed <- err
	}()
	n.awaitTable("closing", func() bool { return n.closing && len(n.peers) == 0 })
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
