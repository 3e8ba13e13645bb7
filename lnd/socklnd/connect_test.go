package socklnd

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// socklnd 1 (1), 2.2 (1), 2.3 (2), 3 (2), 4.5 (1), 12.4 (1)
func TestTheFirstMessageOpensASet(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n).listen()
	s := n.put(p.id(), 10)
	w, h := p.accept()
	want := protocol.Hello{
		Version: protocol.V3, Src: n.NID(), Dst: p.nid(), SrcPID: lnet.PIDLustre,
		SrcIncarnation: n.incarnation, Type: protocol.Control,
	}
	if diff := cmp.Diff(want, h, equalNIDs); diff != "" {
		t.Errorf("HELLO (-want +got):\n%s", diff)
	}
	w.answer(protocol.Control)
	if _, _, payload := w.receive(); !bytes.Equal(payload, pattern(10)) {
		t.Error("another payload")
	}
	s.done()
	for _, c := range []protocol.ConnType{protocol.BulkIn, protocol.BulkOut} {
		next := p.take()
		if next.typ != c.Invert() {
			t.Errorf("next came %s, want %s", next.typ.Invert(), c)
		}
	}
}

// set has the node open a set of count connections, and returns the puppet's ends.
func (p *puppet) set(count int) (control *wire, bulkIn, bulkOut []*wire) {
	p.t.Helper()
	s := p.node.put(p.id(), 0)
	for range count {
		w := p.take()
		switch w.typ {
		case protocol.Control:
			control = w
		case protocol.BulkIn:
			bulkIn = append(bulkIn, w)
		case protocol.BulkOut:
			bulkOut = append(bulkOut, w)
		}
	}
	control.receive()
	s.done()
	p.node.awaitSettled(p.id())
	return control, bulkIn, bulkOut
}

// awaitSettled waits until the opener has ended and no caller is being accepted.
func (n *node) awaitSettled(id lnet.ProcessID) {
	n.t.Helper()
	n.awaitState(id, "the opener's end", func(p *peer) bool { return !p.opening && p.Accepting == 0 })
}

// awaitState waits until reached is true for a peer. Use it for states that no event announces.
func (n *node) awaitState(id lnet.ProcessID, what string, reached func(*peer) bool) {
	n.t.Helper()
	n.awaitTable(what, func() bool {
		p := n.Find(id)
		if p == nil {
			return false
		}
		p.Lock()
		defer p.Unlock()
		return reached(p)
	})
}

// awaitTable waits until reached is true. It holds the lock of the peer table while it calls
// reached.
func (n *node) awaitTable(what string, reached func() bool) {
	n.t.Helper()
	n.awaitThat(what, func() bool {
		return reached()
	})
}

// awaitCounter waits until a counter has a value.
func (n *node) awaitCounter(name string, value uint64) {
	n.t.Helper()
	n.awaitThat(fmt.Sprint(name, " ", value), func() bool { return n.counter(name) == value })
}

// awaitThat polls until reached is true, because no event announces it.
func (n *node) awaitThat(what string, reached func() bool) {
	n.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !reached(); <-tick.C {
		if time.Now().After(deadline) {
			n.t.Fatalf("no %s within %v", what, patience)
		}
	}
}

// socklnd 2.2 (1), 2.3 (1)
func TestConnsPerPeer4GivesNineConnections(t *testing.T) {
	n := start(t, func(c *Config) { c.ConnsPerPeer = 4 })
	p := newPuppet(n).listen()
	control, in, out := p.set(9)
	if control == nil || len(in) != 4 || len(out) != 4 {
		t.Errorf("%d BULK_IN and %d BULK_OUT", len(in), len(out))
	}
	if got := n.counter("connects_total"); got != 9 {
		t.Errorf("%d connections", got)
	}
	// There is no further attempt: the next message uses the existing connections.
	s := n.put(p.id(), 10)
	control.receive()
	s.done()
}

// socklnd 7 (6)
func TestOtherRefusalsAreAHardFailure(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n).listen()
	s := n.put(p.id(), 10)
	for range 4 { // race, stale, race, stale
		p.decline()
		p.life++
	}
	s.fails(lnd.StatusLocalError)
	if d := await(t, n.down, "PeerDown"); d.Peer != p.nid() || !d.LastAlive.IsZero() {
		t.Errorf("%+v", d)
	}
	if got := n.counter("connect_failures_total"); got != 1 {
		t.Errorf("%d hard failures", got)
	}
	if got, want := n.CallFailures(), (lnd.CallFailureCounts{lnd.CallTurnedAway: 1}); got != want {
		t.Errorf("failed calls %v, want %v", got, want)
	}
}

// TestAfterThreeRefusalsAPartOfTheSetWillDo checks that the opener accepts an incomplete set, with
// at least one connection of each type, after three refusals in a row. A later run of refusals is
// counted from zero.
//
// socklnd 7 (6)
func TestAfterThreeRefusalsAPartOfTheSetWillDo(t *testing.T) {
	n := start(t, func(c *Config) { c.ConnsPerPeer = 2 })
	p := newPuppet(n).listen()
	s := n.put(p.id(), 0)
	ends := []*wire{p.take(), p.take(), p.take()}
	for range 3 {
		p.decline()
	}
	n.awaitSettled(p.id())
	ends[0].receive()
	s.done()
	s = n.put(p.id(), 5000)
	ends[2].receive()
	s.done()
	if got := n.counter("connect_failures_total"); got != 0 {
		t.Errorf("%d hard failures", got)
	}
	// Then all connections close. At the next attempt the peer refuses once.
	for _, w := range ends {
		_ = w.Close()
	}
	await(t, n.down, "PeerDown")
	s = n.put(p.id(), 0)
	p.decline()
	p.take().receive()
	s.done()
}

// socklnd 5.4 (3), 7 (3)
func TestARefusalInAnotherVersionIsFollowedByThatVersion(t *testing.T) {
	for v := protocol.V1; v <= protocol.V2; v++ {
		n := start(t, nil)
		p := newPuppet(n).listen()
		p.version = v
		s := n.put(p.id(), 10)
		w, h := p.accept()
		if h.Version != protocol.V3 {
			t.Errorf("first HELLO of %s", h.Version)
		}
		w.answer(protocol.None)
		w.ends()
		if w, h = p.accept(); h.Version != v {
			t.Errorf("second HELLO of %s, want %s", h.Version, v)
		}
		w.answer(protocol.Control)
		w.receive()
		s.done()
	}
}

// socklnd 4.5 (1), 5.4 (6)
func TestAnAnswerInAnotherVersionSetsTheVersion(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n).listen()
	p.version = protocol.V2
	s := n.put(p.id(), 10)
	w := p.take()
	w.receive()
	s.done()
	if _, h := p.accept(); h.Version != protocol.V2 {
		t.Errorf("the next HELLO is of %s, want v2", h.Version)
	}
}

// socklnd 5.4 (7), 6 (3), 7 (3)
func TestAnAnswerOfANewLifeClosesTheOldConnections(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n).listen()
	s := n.put(p.id(), 10)
	old := p.take()
	old.receive()
	s.done()
	w, _ := p.accept() // BULK_IN
	p.life++
	w.answer(protocol.BulkOut)
	w.ends()
	old.ends()
	s = n.put(p.id(), 10)
	p.take().receive()
	s.done()
}

// socklnd 5.4 (7), 6 (3)
func TestARefusalByANewLifeClosesTheOldConnections(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n).listen()
	s := n.put(p.id(), 10)
	old := p.take()
	old.receive()
	s.done()
	w, _ := p.accept() // BULK_IN
	p.life++
	w.answer(protocol.None)
	w.ends()
	old.ends()
	s = n.put(p.id(), 10)
	if again := p.take(); again.typ != protocol.Control {
		t.Errorf("%s was called first", again.typ)
	} else {
		again.receive()
	}
	s.done()
}

// discovery 9.8
// socklnd 3 (4), 5.1 (3), 5.2 (3), 5.4 (1), 5.4 (4), 15.2 (3)-(5), 15.4 (1)
// lnet-wire 5.3 (3)
func TestHardFailuresOfAnAttempt(t *testing.T) {
	const timeout = 300 * time.Millisecond
	for _, test := range []struct {
		name   string
		answer func(w *wire, h protocol.Hello) // nil: the peer does not listen
		want   lnd.Status
		errno  error
	}{
		{"nobody listens", nil, lnd.StatusRemoteDropped, syscall.ECONNREFUSED},
		{"another NID answers", func(w *wire, h protocol.Hello) {
			h.Src, h.SrcIncarnation = w.p.node.NID(), 1
			w.say(h)
		}, lnd.StatusLocalError, lnd.ErrProtocol},
		{"another PID answers", func(w *wire, _ protocol.Hello) {
			h := w.p.hello(protocol.Control)
			h.SrcPID = 1
			w.say(h)
		}, lnd.StatusLocalError, lnd.ErrProtocol},
		{"another type answers", func(w *wire, _ protocol.Hello) { w.answer(protocol.BulkIn) },
			lnd.StatusLocalError, lnd.ErrProtocol},
		{"the acceptor refuses the version", func(w *wire, _ protocol.Hello) {
			w.send(lnet.AppendAcceptorRefusal(nil, w.p.order))
		}, lnd.StatusLocalError, lnd.ErrProtocol},
		{"closed without an answer", func(w *wire, _ protocol.Hello) { _ = w.Close() },
			lnd.StatusRemoteDropped, nil},
		{"no answer", func(*wire, protocol.Hello) {}, lnd.StatusNetworkTimeout, syscall.ETIMEDOUT},
		{"half an answer", func(w *wire, _ protocol.Hello) { w.send([]byte{0x63, 0x69, 0x72, 0x45, 3}) },
			lnd.StatusNetworkTimeout, syscall.ETIMEDOUT},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *memoryNetwork) {
				n := start(t, func(c *Config) { m.use(c); c.SockTimeout = timeout })
				p := newPuppet(n)
				if test.answer != nil {
					p.listen()
				}
				sent := []*sending{n.put(p.id(), 10)}
				if test.answer != nil {
					w, h := p.accept()
					sent = append(sent, n.put(p.id(), 5000)) // while the first one waits
					test.answer(w, h)
				}
				for _, s := range sent {
					if err := s.fails(test.want); test.errno != nil && !errors.Is(err, test.errno) {
						t.Errorf("error %v, want %v in it", err, test.errno)
					}
				}
				d := await(t, n.down, "PeerDown")
				if d.Peer != p.nid() || lnd.StatusOf(d.Err) != test.want {
					t.Errorf("%+v", d)
				}
			})
		})
	}
}

// pauseOf returns the backoff of calls to a peer, whether the peer is in the table or not.
func (n *node) pauseOf(id lnet.ProcessID) *peering.Backoff {
	if p := n.Find(id); p != nil {
		p.Lock()
		defer p.Unlock()
		return new(p.Backoff)
	}
	var b peering.Backoff
	n.Locked(func() {
		var r peering.Record
		r, b = n.Departed.Recall(id, time.Now())
		n.Departed.Keep(id, r, b)
	})
	return &b
}

// TestReconnectSkipsThePause checks that a message with Reconnect connects during the pause after a failed
// call, and that other messages fail without an attempt.
func TestReconnectSkipsThePause(t *testing.T) {
	n := start(t, func(c *Config) { c.MinReconnect, c.MaxReconnect = time.Hour, time.Hour })
	p := newPuppet(n)
	n.put(p.id(), 10).fails(lnd.StatusRemoteDropped)
	p.listen()
	n.put(p.id(), 10).fails(lnd.StatusRemoteError)
	s := &sending{t: t, sent: make(chan error, 2)}
	s.tx = lnd.Tx{Header: putHeader(n.NID(), p.nid(), 0), To: p.id(), Done: s, Reconnect: true}
	n.Send(&s.tx)
	p.take().receive()
	s.done()
}

// TestAFailedCallIsRemembered checks that a peer leaves the table after a failed call, and that the
// pause before the next call still applies.
func TestAFailedCallIsRemembered(t *testing.T) {
	n := start(t, func(c *Config) { c.MinReconnect, c.MaxReconnect = time.Hour, time.Hour })
	p := newPuppet(n)
	n.put(p.id(), 10).fails(lnd.StatusRemoteDropped)
	n.awaitGone(p.id())
	p.listen()
	for range 3 {
		n.put(p.id(), 10).fails(lnd.StatusRemoteError)
		n.awaitGone(p.id())
	}
	if got := n.counter("connect_failures_total"); got != 1 {
		t.Errorf("%d attempts, want 1", got)
	}
	if got, want := n.CallFailures(), (lnd.CallFailureCounts{lnd.CallRefused: 1}); got != want {
		t.Errorf("failed calls %v, want %v", got, want)
	}
	p.visits() // a successful connection ends the pause
	s := n.put(p.id(), 10)
	p.take().receive()
	s.done()
}

// TestASendWithinThePauseFailsAtOnce checks that messages fail at once during the pause after a
// hard failure, and that a message after the pause starts a new attempt.
//
// discovery 9.8
// socklnd 7 (4)-(5), 12.4 (2), 12.4 (5), 15.2 (2)
func TestASendWithinThePauseFailsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		const pause = 500 * time.Millisecond
		n := start(t, func(c *Config) { m.use(c); c.MinReconnect, c.MaxReconnect = pause, pause })
		p := newPuppet(n)
		n.put(p.id(), 10).fails(lnd.StatusRemoteDropped)
		begin := time.Now()
		p.listen()
		err := n.put(p.id(), 10).fails(lnd.StatusRemoteError)
		if !errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, lnd.ErrUnreachable) || errors.Is(err, syscall.EHOSTUNREACH) {
			t.Errorf("error %v, want the one of the first call", err)
		}
		n.awaitTable("end of the pause", func() bool { return n.pauseOf(p.id()).Ready(time.Now()) })
		if d := time.Since(begin); d < pause/2 {
			t.Errorf("the pause ended after %v", d)
		}
		s := n.put(p.id(), 10)
		p.take().receive()
		s.done()
	})
}

// TestRecoveryIsLogged checks that the first connection after a failed call is logged, once, and that a first
// connection without a failure is not.
func TestRecoveryIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		const pause = 500 * time.Millisecond
		var out bytes.Buffer
		n := start(t, func(c *Config) {
			m.use(c)
			c.MinReconnect, c.MaxReconnect = pause, pause
			c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey || a.Key == "cause" {
					return slog.Attr{}
				}
				return a
			}}))
		})
		healthy, p := newPuppet(n).listen(), newPuppet(n)
		s := n.put(healthy.id(), 10)
		healthy.take().receive()
		s.done()
		n.put(p.id(), 10).fails(lnd.StatusRemoteDropped)
		p.listen()
		n.awaitTable("end of the pause", func() bool { return n.pauseOf(p.id()).Ready(time.Now()) })
		s = n.put(p.id(), 10)
		p.take().receive()
		s.done()
		synctest.Wait()
		want := fmt.Sprintf("level=WARN msg=\"connect failed\" nid=%s peer=%s\nlevel=INFO msg=\"peer is connected again\" nid=%[1]s peer=%[2]s\n", n.NID(), p.nid())
		if got := strings.ReplaceAll(out.String(), " \n", "\n"); !strings.Contains(got, want) || strings.Count(got, "again") != 1 {
			t.Errorf("log:\n%s\nwant in it:\n%s", got, want)
		}
	})
}

// socklnd 12.4 (1)
func TestNobodyCallsAProcessWithTheUserFlag(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n).listen()
	id := lnet.ProcessID{NID: p.nid(), PID: lnet.PIDUserFlag | 5}
	if err := n.put(id, 0).fails(lnd.StatusRemoteError); !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("error %v", err)
	}
}

func TestNobodyCallsAnotherAddressFamily(t *testing.T) {
	n := start(t, nil)
	nid, err := lnet.ParseNID("2001:db8::1@tcp")
	if err != nil {
		t.Fatal(err)
	}
	n.put(lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}, 0).fails(lnd.StatusRemoteError)
}

// socklnd 2.2 (4)
func TestTrafficWithOneself(t *testing.T) {
	n := start(t, func(c *Config) { c.ConnsPerPeer = 2 })
	for _, size := range []int{0, 100, 5000, 1 << 20} {
		s := n.put(n.id(), size)
		if a := n.arrival(); !bytes.Equal(a.payload, pattern(size)) || a.from != n.id() {
			t.Errorf("%d bytes from %s, want %d", len(a.payload), a.from, size)
		}
		s.done()
	}
}
