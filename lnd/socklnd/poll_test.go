package socklnd

import (
	"bytes"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/memory/polling"
)

// watchful configures the longest possible busy polling.
func watchful(c *Config) { c.BusyPoll = MaxBusyPoll }

// startWatchful starts a node with busy polling, on at least two processors.
func startWatchful(t *testing.T) *node {
	t.Helper()
	onProcessors(t, 2)
	return start(t, watchful)
}

// manners are the ways in which callers of Poll read a connection. A caller that watches it takes
// all messages; a caller that sleeps on it takes only answers.
var manners = []manner{
	{"watching", watchful, (*wire).put},
	{"sleeping", nil, (*wire).reply},
}

type manner struct {
	name string
	edit func(*Config)
	send func(w *wire, n int) // sends a message of n bytes, of a kind that callers take
}

// eachManner runs a test with each of them.
func eachManner(t *testing.T, f func(t *testing.T, m manner)) {
	for _, m := range manners {
		t.Run(m.name, func(t *testing.T) { f(t, m) })
	}
}

func (m *manner) start(t *testing.T) *node {
	t.Helper()
	onProcessors(t, 2)
	return start(t, m.edit)
}

// reply sends a REPLY with n bytes.
func (w *wire) reply(n int) {
	w.t.Helper()
	w.send(w.message(pattern(n), asReply))
}

func asReply(_ *protocol.Frame, h *lnet.Header) { h.Type = lnet.MsgReply }

// onProcessors makes the test run on at least n processors.
func onProcessors(t *testing.T, n int) {
	if have := runtime.GOMAXPROCS(0); have < n {
		runtime.GOMAXPROCS(n)
		t.Cleanup(func() { runtime.GOMAXPROCS(have) })
	}
}

// callers starts count callers that spend nearly all their time in Poll, until over is called.
func (n *node) callers(p *puppet, count int) (over func()) {
	var done lnd.Wait
	var all sync.WaitGroup
	for range count {
		all.Go(func() {
			for !done.Over() {
				n.Poll(p.nid(), &done)
				runtime.Gosched()
			}
		})
	}
	over = sync.OnceFunc(func() {
		done.End()
		done.Wake()
		all.Wait()
	})
	n.t.Cleanup(over)
	return over
}

// inCaller reports whether the current goroutine is in a call of Poll.
func inCaller() bool {
	stack := make([]byte, 1<<14)
	return strings.Contains(string(stack[:runtime.Stack(stack, false)]), ").Poll(")
}

// TestCallersFindMessages checks that callers take messages while they poll. The reader, which has
// had that role until then, leaves it to them.
func TestCallersFindMessages(t *testing.T) {
	eachManner(t, func(t *testing.T, m manner) {
		n := m.start(t)
		var found atomic.Int32
		n.onArrival(func(a *arrival) error {
			if inCaller() {
				found.Add(1)
			}
			a.place(memory.Of(make([]byte, a.header.PayloadLength)))
			return nil
		})
		p := newPuppet(n)
		w := p.connect(protocol.Control)
		n.callers(p, 5)
		for size := 0; found.Load() < 3; size++ {
			m.send(w, size)
			if a := n.arrival(); !bytes.Equal(a.payload, pattern(size)) {
				t.Fatalf("%d bytes came, want %d", len(a.payload), size)
			}
		}
	})
}

// TestCallersLeaveWhatMustWait checks that a caller hands a message without a placement over to the
// reader, because the caller waits for something else.
func TestCallersLeaveWhatMustWait(t *testing.T) {
	eachManner(t, func(t *testing.T, m manner) {
		n := m.start(t)
		held := make(chan *arrival, 1)
		n.onArrival(func(a *arrival) error {
			if inCaller() && a.header.PayloadLength > 0 {
				held <- a
				return nil
			}
			a.place(memory.Of(make([]byte, a.header.PayloadLength)))
			return nil
		})
		p := newPuppet(n)
		w := p.connect(protocol.Control)
		over := n.callers(p, 2)
		size := 0
		for k := 0; k < 3; {
			size++
			m.send(w, size)
			m.send(w, 0)
			select {
			case a := <-held:
				k++
				if k == 3 {
					over() // the rest needs no callers
				}
				a.place(memory.Of(make([]byte, size)))
			case a := <-n.arrived: // the reader took it first
				n.arrived <- a
			}
			if a := n.arrival(); a.err != nil || !bytes.Equal(a.payload, pattern(size)) && len(a.payload) > 0 {
				t.Fatalf("%d bytes came, want %d: %v", len(a.payload), size, a.err)
			}
			n.arrival()
		}
	})
}

// TestCallersLeaveWhatDies: a caller has just found a message without a placement when the
// connection is closed, by that goroutine or by another one. The reader withdraws the message, and
// the placement is still completed.
func TestCallersLeaveWhatDies(t *testing.T) {
	eachManner(t, func(t *testing.T, m manner) {
		for name, kill := range map[string]func(n *node, p *puppet){
			"by himself": func(n *node, p *puppet) { n.Disconnect(p.nid()) },
			"by another": func(n *node, p *puppet) { go n.Disconnect(p.nid()) },
		} {
			t.Run(name, func(t *testing.T) {
				n := m.start(t)
				for range 10 {
					p := newPuppet(n)
					held := make(chan *arrival, 1)
					n.onArrival(func(a *arrival) error {
						if !inCaller() {
							a.place(memory.Of(make([]byte, a.header.PayloadLength)))
							return nil
						}
						held <- a
						kill(n, p)
						return nil
					})
					w := p.connect(protocol.Control)
					over := n.callers(p, 2)
					var late *arrival
					for late == nil {
						m.send(w, 9)
						select {
						case late = <-held:
						case <-n.arrived: // the reader took it first
						}
					}
					if m := await(t, n.withdrawn, "Withdrawn"); m != late.rx {
						t.Error("another arrival was withdrawn")
					}
					late.place(memory.Of(make([]byte, 9)))
					if a := await(t, n.arrived, "completion"); a != late || a.err == nil {
						t.Errorf("completed with %v", a.err)
					}
					over()
				}
			})
		}
	})
}

// TestCallersMeetTheEnd checks connections that end while callers read them.
func TestCallersMeetTheEnd(t *testing.T) {
	eachManner(t, func(t *testing.T, m manner) {
		for _, h := range hangUps {
			t.Run(h.name, func(t *testing.T) {
				n := m.start(t)
				for range 10 {
					p := newPuppet(n)
					w := p.connect(protocol.Control)
					over := n.callers(p, 2)
					m.send(w, 5)
					n.arrival()
					if err := h.do(w.Conn.(*net.TCPConn)); err != nil {
						t.Fatal(err)
					}
					d := await(t, n.down, "PeerDown")
					if got := lnd.StatusOf(d.Err); d.Peer != p.nid() || got != lnd.StatusRemoteDropped {
						t.Errorf("%s is down with status %q, want %s with %q: %v", d.Peer, got, p.nid(), lnd.StatusRemoteDropped, d.Err)
					}
					over()
				}
				if got := n.counter("connections"); got != 0 {
					t.Errorf("%d connections", got)
				}
			})
		}
	})
}

// TestCallersHaveTheirOwnTime checks that Poll returns although the peer never stops sending.
func TestCallersHaveTheirOwnTime(t *testing.T) {
	n := startWatchful(t)
	var came, found atomic.Int32
	n.onArrival(func(a *arrival) error {
		if came.Add(1)%64 == 0 && inCaller() { // inCaller is slow, so it runs only for some messages
			found.Add(1)
		}
		a.drop()
		return nil
	})
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	b := bytes.Repeat(w.message(nil, nil), 1000)
	var sender sync.WaitGroup
	sender.Go(func() {
		for {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	})
	n.awaitState(p.id(), "traffic", func(p *peer) bool { return p.lastReceiver.Load() != nil })
	var over lnd.Wait
	for found.Load() < 20 {
		n.Poll(p.nid(), &over)
	}
	_ = w.Close()
	sender.Wait()
}

// TestCallersWhileTheInterfaceCloses checks that callers make no upcall after Close has returned.
func TestCallersWhileTheInterfaceCloses(t *testing.T) {
	eachManner(t, func(t *testing.T, m manner) {
		for range 10 {
			n := m.start(t)
			var closed atomic.Bool
			n.onArrival(func(a *arrival) error {
				if closed.Load() {
					t.Error("an upcall after the end")
				}
				a.place(memory.Of(make([]byte, a.header.PayloadLength)))
				return nil
			})
			p := newPuppet(n)
			w := p.connect(protocol.Control)
			over := n.callers(p, 2)
			m.send(w, 5)
			n.arrival()
			b := bytes.Repeat(w.message(pattern(100), nil), 1000)
			var sender sync.WaitGroup
			sender.Go(func() { _, _ = w.Write(b) }) // fails when the connection closes
			n.arrival()
			n.stop()
			closed.Store(true)
			_ = w.Close()
			sender.Wait()
			over()
		}
	})
}

// TestPollOfNobody checks that Poll returns if nothing can be read: the peer does not exist, has
// sent nothing, or has no shared connection.
func TestPollOfNobody(t *testing.T) {
	for _, edit := range []func(*Config){nil, watchful} {
		n := start(t, edit)
		p := newPuppet(n)
		var over lnd.Wait
		n.Poll(p.nid(), &over)
		w := p.connect(protocol.Control)
		n.Poll(p.nid(), &over)
		if edit == nil {
			w.put(5)
			n.arrival()
			n.Poll(p.nid(), &over)
		}
	}
}

// TestPollersAreFew checks that pollers leave at least one processor free.
func TestPollersAreFew(t *testing.T) {
	onProcessors(t, 3)
	for polling.Resting(time.Now()) { // an earlier test may have found the processors busy
		runtime.Gosched()
	}
	stream := loud{}
	all := make([]sharing, runtime.GOMAXPROCS(0)+3)
	begun := 0
	for k := range all {
		all[k].stream = &stream
		if all[k].begin() {
			begun++
		}
	}
	if begun != runtime.GOMAXPROCS(0)-1 || stream.quiet != begun {
		t.Errorf("%d watch, and %d are quiet, on %d processors", begun, stream.quiet, runtime.GOMAXPROCS(0))
	}
	for k := range all {
		all[k].end()
		all[k].end()
	}
	if stream.quiet != 0 {
		t.Errorf("%d are quiet at the end", stream.quiet)
	}
}

// loud counts the streams for which Quiet is on.
type loud struct {
	Pollable
	quiet int
}

func (l *loud) Quiet(on bool) {
	if on {
		l.quiet++
	} else {
		l.quiet--
	}
}

// TestBusyPollIsTuned checks busy_poll as an option of the driver, of an interface, and of one that
// is open.
func TestBusyPollIsTuned(t *testing.T) {
	for _, d := range []time.Duration{-1, MaxBusyPoll + 1} {
		c := DefaultConfig()
		c.BusyPoll = d
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "busy_poll") {
			t.Errorf("busy_poll %v: error %v", d, err)
		}
	}
	n := start(t, func(c *Config) { c.BusyPoll = time.Millisecond })
	if got := n.Options()["busy_poll"]; got != 1000 {
		t.Errorf("busy_poll is %d µs", got)
	}
	for _, d := range []int64{-1, 10_001} {
		if err := n.Tune(lnd.Values{"busy_poll": d}); err == nil || !strings.Contains(err.Error(), "busy_poll") {
			t.Errorf("busy_poll %d µs: error %v", d, err)
		}
	}
	if err := n.Tune(lnd.Values{"busy_poll": 0}); err != nil {
		t.Fatal(err)
	}
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	for range 3 {
		w.put(5)
		n.arrival()
	}
	n.awaitState(p.id(), "connection", func(p *peer) bool { return len(p.conns) == 1 && !p.conns[0].poll.shared.Load() })
}

// TestBusyPollEnds checks that after busy_poll is set to 0 a connection still carries messages, and
// that callers take no more requests.
func TestBusyPollEnds(t *testing.T) {
	n := startWatchful(t)
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	w.put(5)
	n.arrival()
	if err := n.Tune(lnd.Values{"busy_poll": 0}); err != nil {
		t.Fatal(err)
	}
	n.onArrival(func(a *arrival) error {
		if inCaller() {
			t.Error("a caller has found a message")
		}
		a.place(memory.Of(make([]byte, a.header.PayloadLength)))
		return nil
	})
	n.callers(p, 2)
	for range 20 {
		w.put(5)
		n.arrival()
	}
	n.awaitThat("no goroutine polls", func() bool {
		free := 0
		for polling.Acquire() {
			free++
		}
		for range free {
			polling.Release()
		}
		return free == runtime.GOMAXPROCS(0)-1
	})
}

// TestAHandlerPanicsInACaller: given a handler that panics in a caller of Poll, when the program
// recovers, then only the connection has ended.
func TestAHandlerPanicsInACaller(t *testing.T) {
	eachManner(t, func(t *testing.T, m manner) {
		n := m.start(t)
		var panicked atomic.Bool
		n.onArrival(func(a *arrival) error {
			if inCaller() && !panicked.Swap(true) {
				panic("a handler")
			}
			a.place(memory.Of(make([]byte, a.header.PayloadLength)))
			return nil
		})
		p := newPuppet(n)
		w := p.connect(protocol.Control)
		var over lnd.Wait
		var caller sync.WaitGroup
		caller.Go(func() {
			defer func() { _ = recover() }()
			for !over.Over() {
				n.Poll(p.nid(), &over)
			}
		})
		for !panicked.Load() {
			m.send(w, 7)
			select {
			case <-n.arrived: // the reader took it first
			case d := <-n.down:
				if !errors.Is(d.Err, errPanic) {
					t.Error(d.Err)
				}
			}
		}
		over.End()
		caller.Wait()
		m.send(p.connect(protocol.Control), 11)
		if a := n.arrival(); !bytes.Equal(a.payload, pattern(11)) {
			t.Errorf("%d bytes came, want 11", len(a.payload))
		}
	})
}
