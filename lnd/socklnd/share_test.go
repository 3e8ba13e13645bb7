package socklnd

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/memory"
)

// talkingTo returns the connection on which the peer's last message arrived.
func (n *node) talkingTo(p *puppet) (c *conn) {
	n.t.Helper()
	n.awaitState(p.id(), "a message", func(p *peer) bool { c = p.lastReceiver.Load(); return c != nil })
	return c
}

// share calls Poll until the connection of w is shared.
func (n *node) share(p *puppet, w *wire) *conn {
	n.t.Helper()
	w.put(1)
	n.arrival()
	c := n.talkingTo(p)
	var over lnd.Wait
	for range callsToShare {
		n.Poll(p.nid(), &over)
	}
	n.awaitThat("it is shared", c.poll.shared.Load)
	return c
}

// TestConnectionsAreSharedWhenThatPays checks when callers begin to read a connection. Sharing
// needs a descriptor; without one the connection works as before.
func TestConnectionsAreSharedWhenThatPays(t *testing.T) {
	for name, bell := range map[string]func(Bell) (Bell, error){
		"":              func(b Bell) (Bell, error) { return b, nil },
		"no descriptor": func(b Bell) (Bell, error) { b.Close(); return nil, syscall.EMFILE },
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, func(c *Config) { c.Network = belled{disguised{HostNetwork()}, bell} })
			p := newPuppet(n)
			w := p.connect(protocol.Control)
			w.put(1)
			n.arrival()
			c := n.talkingTo(p)
			var over lnd.Wait
			for k := range 2 * callsToShare {
				if c.poll.shared.Load() && k < callsToShare {
					t.Fatalf("it is shared after %d calls", k)
				}
				n.Poll(p.nid(), &over)
			}
			if name == "" {
				n.awaitThat("it is shared", c.poll.shared.Load)
			}
			for size := range 20 {
				w.put(size)
				if a := n.arrival(); len(a.payload) != size {
					t.Fatalf("%d bytes came, want %d", len(a.payload), size)
				}
			}
			if name != "" && c.poll.shared.Load() {
				t.Error("it is shared without a bell")
			}
		})
	}
}

// TestRequestsEndWithTheReader checks that a sleeping caller does not read the rest of a request
// that the reader has begun.
func TestRequestsEndWithTheReader(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	n.share(p, w)
	ended := &whereabouts{inCaller: make(chan bool, 1)}
	begun := make(chan struct{}, 1)
	n.onArrival(func(a *arrival) error {
		n.Receive(a.rx, lnd.Placement{Memory: memory.Of(make([]byte, a.header.PayloadLength)), Done: ended})
		begun <- struct{}{}
		return nil
	})
	n.callers(p, 2)
	for range 20 {
		b := w.message(pattern(100_000), nil)
		w.send(b[:50_000])
		await(t, begun, "the beginning")
		w.send(b[50_000:])
		if await(t, ended.inCaller, "the end") {
			t.Fatal("a caller has taken the end of a request")
		}
	}
}

// whereabouts reports whether messages are completed in goroutines of callers.
type whereabouts struct{ inCaller chan bool }

func (e *whereabouts) Received(*lnd.Rx, error) { e.inCaller <- inCaller() }

// TestCallersLeaveRequests: given requests between answers, a caller that sleeps on the socket
// leaves the requests to the reader, which takes them in order.
func TestCallersLeaveRequests(t *testing.T) {
	n := start(t, nil)
	var found atomic.Int32
	n.onArrival(func(a *arrival) error {
		if inCaller() {
			found.Add(1)
			if !isAnswer(&a.header) {
				t.Error("a caller has taken a request")
			}
		}
		a.place(memory.Of(make([]byte, a.header.PayloadLength)))
		return nil
	})
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	n.callers(p, 2)
	for size := 0; found.Load() < 20; size++ {
		w.send(append(append(w.message(pattern(size), asReply), w.message(pattern(size+1), nil)...), w.message(pattern(size+2), asReply)...))
		for k := range 3 {
			if a := n.arrival(); !bytes.Equal(a.payload, pattern(size+k)) {
				t.Fatalf("%d bytes came, want %d", len(a.payload), size+k)
			}
		}
	}
}

// TestFaultOfASharedConnection checks a payload whose destination is no longer mapped, with another
// message right behind it, on a connection that callers read too.
func TestFaultOfASharedConnection(t *testing.T) {
	for _, m := range manners {
		t.Run(m.name, func(t *testing.T) {
			n := m.start(t)
			p := newPuppet(n)
			w := p.connect(protocol.Control)
			n.share(p, w)
			page := os.Getpagesize()
			gone, cut := testenv.Mapped(t, 5*page)
			cut(4 * page)
			n.onArrival(func(a *arrival) error {
				if len(gone) == int(a.header.PayloadLength) {
					a.place(memory.Of(gone))
				} else {
					a.place(memory.Of(make([]byte, a.header.PayloadLength)))
				}
				return nil
			})
			w.send(append(w.message(pattern(len(gone)), nil), w.message(pattern(7), nil)...))
			if a := await(t, n.arrived, "the end"); !errors.Is(a.err, syscall.EFAULT) {
				t.Errorf("without memory: %v", a.err)
			}
			if a := n.arrival(); !bytes.Equal(a.payload, pattern(7)) {
				t.Errorf("%d bytes came behind it: %v", len(a.payload), a.err)
			}
		})
	}
}

// TestABellBreaks checks that a bell that cannot be unmuted ends the connection, and that no
// message that had arrived is lost.
func TestABellBreaks(t *testing.T) {
	var broken atomic.Bool
	n := start(t, func(c *Config) {
		c.Network = belled{disguised{HostNetwork()}, func(b Bell) (Bell, error) { return breakingBell{b, &broken}, nil }}
	})
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	n.share(p, w)
	n.callers(p, 1)
	broken.Store(true)
	for {
		if _, err := w.Write(w.message(pattern(5), nil)); err != nil {
			break
		}
		select {
		case a := <-n.arrived:
			if !bytes.Equal(a.payload, pattern(5)) {
				t.Fatalf("%d bytes came: %v", len(a.payload), a.err)
			}
			continue
		case d := <-n.down:
			if !errors.Is(d.Err, syscall.ENOSPC) {
				t.Errorf("down: %v", d.Err)
			}
		}
		break
	}
}

// breakingBell cannot be unmuted while broken is set.
type breakingBell struct {
	Bell
	broken *atomic.Bool
}

func (b breakingBell) Mute(on bool) error {
	if !on && b.broken.Load() {
		return syscall.ENOSPC
	}
	return b.Bell.Mute(on)
}

// belled is a network whose accepted streams have replaced bells.
type belled struct {
	Network
	bell func(Bell) (Bell, error)
}

func (b belled) Listen(at netip.AddrPort, backlog int) (Listener, error) {
	l, err := b.Network.Listen(at, backlog)
	return belledListener{l, b.bell}, err
}

type belledListener struct {
	Listener
	bell func(Bell) (Bell, error)
}

func (l belledListener) Accept() (Stream, error) {
	s, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return belledStream{s.(hostly), l.bell}, nil
}

type belledStream struct {
	hostly
	bell func(Bell) (Bell, error)
}

func (s belledStream) Bell() (Bell, error) {
	b, err := s.hostly.Bell()
	if err != nil {
		return nil, err
	}
	return s.bell(b)
}

// TestCallersTakeAnswersAfterARequest: given an answer behind a completed request, a caller that
// sleeps on the socket takes the answer itself. The test holds the reader's role, so that the
// reader cannot.
func TestCallersTakeAnswersAfterARequest(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	c := n.share(p, w)
	w.put(5)
	n.arrival()
	c.poll.role.acquire()
	var over lnd.Wait
	n.onArrival(func(a *arrival) error {
		over.End()
		a.place(memory.Of(make([]byte, a.header.PayloadLength)))
		return nil
	})
	w.reply(7)
	for naps := 0; naps < 100 && !over.Over(); naps++ { // on a busy host a sleep may end without a message
		if err := c.readAsCaller(&over, 0); err != nil {
			t.Error(err)
		}
	}
	if !over.Over() {
		t.Error("the caller has not read the answer")
	}
	c.leave()
	if a := n.arrival(); !bytes.Equal(a.payload, pattern(7)) {
		t.Errorf("%d bytes came, want 7", len(a.payload))
	}
}
