package socklnd

import (
	"bytes"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/memory"
)

// watchful has connections be watched for as long as they may.
func watchful(c *Config) { c.BusyPoll = maxBusyPoll }

// polled starts a node with such connections, on two processors at least.
func polled(t *testing.T) *node {
	t.Helper()
	if n := runtime.GOMAXPROCS(0); n < 2 {
		runtime.GOMAXPROCS(2)
		t.Cleanup(func() { runtime.GOMAXPROCS(n) })
	}
	return start(t, watchful)
}

// callers has callers wait for what the puppet sends, nearly always in Poll, until it is
// over.
func (n *node) callers(p *puppet, count int) (over func()) {
	var done atomic.Bool
	var all sync.WaitGroup
	for range count {
		all.Go(func() {
			for !done.Load() {
				n.Poll(p.nid(), &done)
				runtime.Gosched()
			}
		})
	}
	over = sync.OnceFunc(func() {
		done.Store(true)
		all.Wait()
	})
	n.t.Cleanup(over)
	return over
}

// inCaller tells whether it runs in the goroutine of a caller of Poll.
func inCaller() bool {
	stack := make([]byte, 1<<14)
	return strings.Contains(string(stack[:runtime.Stack(stack, false)]), ").Poll(")
}

// TestCallersFindMessages shows that what comes while callers watch one of them takes.
// The reader, which has the role before, leaves it to them.
func TestCallersFindMessages(t *testing.T) {
	n := polled(t)
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
		w.put(size)
		if a := n.arrival(); !bytes.Equal(a.payload, pattern(size)) {
			t.Fatalf("%d bytes came, want %d", len(a.payload), size)
		}
	}
}

// TestCallersLeaveWhatMustWait shows a message without a placement, of which the reader
// takes care: a caller has something else to wait for.
func TestCallersLeaveWhatMustWait(t *testing.T) {
	n := polled(t)
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
		w.put(size)
		w.put(0)
		select {
		case a := <-held:
			k++
			if k == 3 {
				over() // the callers are not needed for what follows
			}
			a.place(memory.Of(make([]byte, size)))
		case a := <-n.arrived: // the reader was there first
			n.arrived <- a
		}
		if a := n.arrival(); a.err != nil || !bytes.Equal(a.payload, pattern(size)) && len(a.payload) > 0 {
			t.Fatalf("%d bytes came, want %d: %v", len(a.payload), size, a.err)
		}
		n.arrival()
	}
}

// TestCallersMeetTheEnd shows connections that end while callers watch them.
func TestCallersMeetTheEnd(t *testing.T) {
	for _, h := range hangUps {
		t.Run(h.name, func(t *testing.T) {
			n := polled(t)
			for range 10 {
				p := newPuppet(n)
				w := p.connect(protocol.Control)
				over := n.callers(p, 2)
				w.put(5)
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
}

// TestCallersHaveTheirOwnTime shows a caller who waits in vain beside a peer that never stops
// sending: he gets away.
func TestCallersHaveTheirOwnTime(t *testing.T) {
	n := polled(t)
	n.onArrival(func(a *arrival) error {
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
	n.awaitState(p.id(), "traffic", func(p *peer) bool { return p.polled.Load() != nil })
	var over atomic.Bool
	for range 20 {
		n.Poll(p.nid(), &over)
	}
	_ = w.Close()
	sender.Wait()
}

// TestCallersWhileTheInterfaceCloses shows that callers make no upcall either when
// Close has returned.
func TestCallersWhileTheInterfaceCloses(t *testing.T) {
	for range 10 {
		n := polled(t)
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
		w.put(5)
		n.arrival()
		b := bytes.Repeat(w.message(pattern(100), nil), 1000)
		var sender sync.WaitGroup
		sender.Go(func() { _, _ = w.Write(b) }) // which fails at the end
		n.arrival()
		n.stop()
		closed.Store(true)
		_ = w.Close()
		sender.Wait()
		over()
	}
}

// TestPollOfNobody shows that Poll returns where nothing can be watched: a peer that
// there is not, one that has sent nothing, and one whose connections are not polled.
func TestPollOfNobody(t *testing.T) {
	for _, edit := range []func(*Config){nil, watchful} {
		n := start(t, edit)
		p := newPuppet(n)
		var over atomic.Bool
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

// TestWatchersAreFew shows that a processor is left to everybody else.
func TestWatchersAreFew(t *testing.T) {
	stream := loud{}
	all := make([]polling, runtime.GOMAXPROCS(0)+3)
	begun := 0
	for k := range all {
		all[k].stream = &stream
		if all[k].begin() {
			begun++
		}
	}
	if begun >= runtime.GOMAXPROCS(0) || stream.quiet != begun {
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

// loud counts calls of Quiet.
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

// TestBusyPollIsTuned shows the setting: of the driver, of an interface, and later.
func TestBusyPollIsTuned(t *testing.T) {
	for _, d := range []time.Duration{-1, maxBusyPoll + 1} {
		c := DefaultConfig()
		c.BusyPoll = d
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "busy_poll") {
			t.Errorf("busy_poll %v: error %v", d, err)
		}
	}
	n := start(t, func(c *Config) { c.BusyPoll = time.Millisecond })
	if got := *n.Options().(Options).BusyPoll; got != time.Millisecond || !n.Polls() {
		t.Errorf("busy_poll is %v, polls: %t", got, n.Polls())
	}
	for _, d := range []time.Duration{-1, maxBusyPoll + 1} {
		if err := n.Tune(Options{ConnsPerPeer: -1, BusyPoll: &d}); err == nil || !strings.Contains(err.Error(), "busy_poll") {
			t.Errorf("busy_poll %v: error %v", d, err)
		}
	}
	if err := n.Tune(Options{ConnsPerPeer: -1, BusyPoll: new(time.Duration)}); err != nil {
		t.Fatal(err)
	}
	if n.Polls() {
		t.Error("it polls that has been told not to")
	}
	p := newPuppet(n)
	p.connect(protocol.Control).put(5)
	n.arrival()
	n.awaitState(p.id(), "connection", func(p *peer) bool { return len(p.conns) == 1 && p.polled.Load() == nil })
}
