package socklnd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/memory"
)

// hangUps are the ways in which a peer ends its side of a connection.
var hangUps = []struct {
	name string
	do   func(c *net.TCPConn) error
	want error // the result of Ended
}{
	{"close", (*net.TCPConn).Close, io.EOF},
	{"half close", (*net.TCPConn).CloseWrite, io.EOF},
	{"reset", func(c *net.TCPConn) error {
		if err := c.SetLinger(0); err != nil {
			return err
		}
		return c.Close()
	}, syscall.ECONNRESET},
}

// TestAPeerThatHangsUpOnAParkedConnection: a connection is not read while its message waits for a
// placement. When the peer ends it, whether the payload has arrived or not, the arrival is
// withdrawn, the connection closes, and a later placement fails.
func TestAPeerThatHangsUpOnAParkedConnection(t *testing.T) {
	const size = 5000
	whole := protocol.V3.Overhead() + size
	for _, h := range hangUps {
		for _, sent := range []int{whole, whole - 1, whole - size} {
			t.Run(fmt.Sprintf("%s after %d bytes", h.name, sent), func(t *testing.T) {
				n := start(t, func(c *Config) { c.SockTimeout = 400 * time.Millisecond }) // the reaper runs every 50 ms
				held := n.hold(size)
				p := newPuppet(n)
				w := p.connect(protocol.Control)
				w.send(w.message(pattern(size), nil)[:sent])
				late := await(t, held, "arrival")
				if err := h.do(w.Conn.(*net.TCPConn)); err != nil {
					t.Fatal(err)
				}
				if m := await(t, n.withdrawn, "Withdrawn"); m != late.rx {
					t.Error("another arrival was withdrawn")
				}
				d := await(t, n.down, "PeerDown")
				if got := lnd.StatusOf(d.Err); got != lnd.StatusRemoteDropped {
					t.Errorf("PeerDown with status %q, want %q: %v", got, lnd.StatusRemoteDropped, d.Err)
				}
				if got := n.counter("connections"); got != 0 {
					t.Errorf("%d connections", got)
				}
				late.place(memory.Of(make([]byte, size)))
				if a := await(t, n.arrived, "arrival"); lnd.StatusOf(a.err) != lnd.StatusRemoteError {
					t.Errorf("arrival with %v, want a remote error", a.err)
				}
				n.stop()
				if len(n.withdrawn) > 0 || len(n.arrived) > 0 {
					t.Error("told twice")
				}
			})
		}
	}
}

// TestAParkedConnectionDies checks the other ways in which such a connection ends: another one of
// its set closes, Disconnect, or Close.
func TestAParkedConnectionDies(t *testing.T) {
	for name, end := range map[string]func(n *node, p *puppet, sibling *wire){
		"sibling closed": func(_ *node, _ *puppet, sibling *wire) { _ = sibling.Close() },
		"disconnect":     func(n *node, p *puppet, _ *wire) { n.Disconnect(p.nid()) },
		"close":          func(n *node, _ *puppet, _ *wire) { n.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, nil)
			held := n.hold(33)
			p := newPuppet(n)
			control, bulkIn, _ := p.callUs()
			control.put(33)
			late := await(t, held, "arrival")
			end(n, p, bulkIn)
			if m := await(t, n.withdrawn, "Withdrawn"); m != late.rx {
				t.Error("another arrival was withdrawn")
			}
			late.drop()
			n.stop()
			if len(n.withdrawn) > 0 || len(n.arrived) > 0 {
				t.Error("told twice")
			}
		})
	}
}

// TestWhatIsPlacedIsNotWithdrawn checks connections that end while the payload of a placed message
// arrives. It is placed in the upcall or later.
func TestWhatIsPlacedIsNotWithdrawn(t *testing.T) {
	for _, later := range []bool{false, true} {
		n := start(t, nil)
		p := newPuppet(n)
		w := p.connect(protocol.Control)
		var held <-chan *arrival
		if later {
			held = n.hold(5000)
		}
		w.send(w.message(pattern(5000), nil)[:1000])
		if later {
			await(t, held, "arrival").place(memory.Of(make([]byte, 5000)))
		}
		_ = w.Close()
		if a := await(t, n.arrived, "arrival"); a.err == nil {
			t.Error("half a payload has arrived")
		}
		n.stop()
		if len(n.withdrawn) > 0 {
			t.Errorf("placed later %t: withdrawn", later)
		}
	}
}

// TestAPeerThatStaysIsNotTakenForGone checks that a connection with a message that waits for its
// placement stays open while its peer does, although unread bytes arrive.
func TestAPeerThatStaysIsNotTakenForGone(t *testing.T) {
	const timeout = 200 * time.Millisecond
	n := start(t, func(c *Config) { c.SockTimeout = timeout })
	held := n.hold(33)
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	w.put(33)
	late := await(t, held, "arrival")
	w.put(44)
	n.passes(2 * timeout)
	if len(n.withdrawn) > 0 {
		t.Error("withdrawn")
	}
	late.place(memory.Of(make([]byte, 33)))
	for _, size := range []int{33, 44} {
		if a := n.arrival(); !bytes.Equal(a.payload, pattern(size)) {
			t.Errorf("%d bytes came, want %d", len(a.payload), size)
		}
	}
}

func TestEndedOfAHostStream(t *testing.T) {
	for _, h := range hangUps {
		t.Run(h.name, func(t *testing.T) {
			s, peer := hostPair(t)
			if err := s.Ended(); err != nil {
				t.Errorf("of an idle stream: %v", err)
			}
			if _, err := peer.Write([]byte("unread")); err != nil {
				t.Fatal(err)
			}
			if err := s.Ended(); err != nil {
				t.Errorf("of one with bytes to read: %v", err)
			}
			if err := h.do(peer); err != nil {
				t.Fatal(err)
			}
			// On the loopback device the end of the stream is visible when the call returns.
			if err := s.Ended(); !errors.Is(err, h.want) {
				t.Errorf("after the end: %v, want %v", err, h.want)
			}
			if err := s.Ended(); err == nil {
				t.Error("the second look finds the stream alive")
			}
			_ = s.Close()
			if err := s.Ended(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("after Close: %v, want %v", err, net.ErrClosed)
			}
		})
	}
}

// hostPair returns both ends of a connection on the loopback device.
func hostPair(t *testing.T) (Stream, *net.TCPConn) {
	t.Helper()
	l, err := HostNetwork().Listen(netip.AddrPortFrom(newAddress(), 0), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	peer, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(l.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, peer
}
