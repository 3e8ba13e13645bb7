package socklnd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// awaitRefusals waits until count callers have been refused for reason r, and fails if any have
// been refused for another one.
func (n *node) awaitRefusals(r lnd.Refusal, count uint64) {
	n.t.Helper()
	deadline := time.Now().Add(patience)
	for n.Refusals()[r] < count && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	for k, got := range n.Refusals() {
		want := uint64(0)
		if lnd.Refusal(k) == r {
			want = count
		}
		if got != want {
			n.t.Errorf("%d refused as %s, want %d", got, lnd.Refusal(k), want)
		}
	}
}

// refusalCases has one caller for each way of being refused.
var refusalCases = []struct {
	name   string
	reason lnd.Refusal
	edit   func(*Config)
	calls  func(p *puppet)
}{
	{"unprivileged port", lnd.RefusedPort, plainly(AcceptSecure), func(p *puppet) { p.dial().ends() }},
	{"no acceptor request", lnd.RefusedMagic, nil, func(p *puppet) { p.dial().send([]byte("SSH-2.0-x\r\n")) }},
	{"no HELLO", lnd.RefusedMagic, nil, func(p *puppet) { p.dial().send(append(p.request(), "GET / HTTP/1.1"...)) }},
	{"acceptor version 9", lnd.RefusedVersion, nil, func(p *puppet) {
		p.dial().send(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, lnet.MagicAcceptor), 9))
	}},
	{"question for versions", lnd.RefusedVersion, nil, func(p *puppet) {
		p.dial().send(binary.LittleEndian.AppendUint32(nil, lnet.MagicProto))
	}},
	{"HELLO version 5", lnd.RefusedVersion, nil, func(p *puppet) {
		b := binary.LittleEndian.AppendUint32(p.request(), lnet.MagicProto)
		p.dial().send(binary.LittleEndian.AppendUint32(b, 5))
	}},
	{"NID of somebody else", lnd.RefusedNID, nil, func(p *puppet) {
		p.dial().send(lnet.AcceptorRequest{NID: p.nid()}.Append(nil, binary.LittleEndian))
	}},
	{"HELLO of type NONE", lnd.RefusedHello, nil, func(p *puppet) { p.call(protocol.None).ends() }},
	{"HELLO of type 4", lnd.RefusedHello, nil, func(p *puppet) { p.call(4).ends() }},
	{"says nothing", lnd.RefusedSlow, func(c *Config) { c.AcceptTimeout = 20 * time.Millisecond }, func(p *puppet) { p.dial().ends() }},
	{"goes before it has said all", lnd.RefusedGone, nil, func(p *puppet) {
		w := p.dial()
		w.send(p.request()[:5])
		_ = w.Close()
	}},
	{"one too many that say nothing", lnd.RefusedMany, func(c *Config) { c.MaxHalfOpenPerSource = 1 }, func(p *puppet) {
		first := p.dial()
		p.node.driver.awaitHalfOpen(p.t, 1)
		p.dial()
		first.ends()
	}},
	{"one too many of an address", lnd.RefusedMany, nil, func(p *puppet) {
		p.node.Locked(func() {
			for range maxConnsPerSource {
				_ = p.node.Admission.Enter(p.addr, p.nid(), true, time.Now())
			}
		})
		p.call(protocol.Control).ends()
	}},
	{"by one NID too many", lnd.RefusedClaims, nil, func(p *puppet) {
		p.node.Locked(func() { p.node.Admission.Claims.Rate = limit.Rate{Every: time.Hour} })
		w := p.dial()
		h := p.hello(protocol.Control)
		h.Src = newPuppet(p.node).nid()
		w.send(p.request())
		w.say(h)
		w.ends()
	}},
	{"second CONTROL", lnd.RefusedDuplicate, nil, func(p *puppet) {
		p.connect(protocol.Control)
		p.refused(protocol.Control)
	}},
	{"is being called", lnd.RefusedRace, nil, func(p *puppet) {
		low := lowerPuppet(p.node).listen()
		p.node.put(low.id(), 10)
		low.accept()
		low.refused(protocol.Control)
	}},
	{"new life", lnd.RefusedStale, nil, func(p *puppet) {
		p.connect(protocol.Control)
		p.node.awaitSettled(p.id()) // until then the end of the old incarnation is another cause for a refusal
		p.life++
		p.refused(protocol.Control)
	}},
	{"is being answered when the interface closes", lnd.RefusedClosing, func(c *Config) { c.Network = newGate() }, closeDuringAnswer},
}

// TestEveryRefusalHasAReason checks that every refused connection is counted under one reason.
func TestEveryRefusalHasAReason(t *testing.T) {
	shown := map[lnd.Refusal]bool{}
	for _, c := range refusalCases {
		shown[c.reason] = true
		t.Run(c.name, func(t *testing.T) {
			n := start(t, c.edit)
			c.calls(newPuppet(n))
			n.awaitRefusals(c.reason, 1)
		})
	}
	for r := range lnd.Refusal(lnd.Refusals) {
		if !shown[r] {
			t.Errorf("nobody is refused as %s", r)
		}
	}
}

// safeBuffer is a buffer that several goroutines may log to.
type safeBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// TestJunkIsCountedAndHardlyLogged: given 400 callers from one address that send garbage, then 400
// are counted, and the log at info has one line.
func TestJunkIsCountedAndHardlyLogged(t *testing.T) {
	const callers = 400
	log := &safeBuffer{}
	n := start(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	p := newPuppet(n)
	for range callers {
		w := p.dial()
		w.send([]byte("GET / HTTP/1.1\r\n\r\n"))
		w.ends()
	}
	n.awaitRefusals(lnd.RefusedMagic, callers)
	if lines := strings.Count(log.String(), "caller refused"); lines != 1 {
		t.Errorf("%d lines, want one:\n%s", lines, log)
	}
}

// TestCallerThatLeavesIsNamed: the log names the address of a caller that ends its connection
// before it is accepted, whichever system call notices it. It does not count as a failed call of
// ours.
func TestCallerThatLeavesIsNamed(t *testing.T) {
	for _, c := range []struct {
		name, want string
		calls      func(p *puppet)
	}{
		{"closes in its request", "closed the connection before the hellos were exchanged: EOF", func(p *puppet) {
			w := p.dial()
			w.send(p.request()[:5])
			_ = w.Close()
		}},
		{"resets before its request", "reset the connection before the hellos were exchanged: readv: connection reset by peer", func(p *puppet) {
			w := p.dial()
			p.node.driver.awaitHalfOpen(p.t, 1)
			if err := w.Conn.(*net.TCPConn).SetLinger(0); err != nil {
				p.t.Fatal(err)
			}
			_ = w.Close()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := &safeBuffer{}
			n := start(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
			p := newPuppet(n)
			c.calls(p)
			n.awaitRefusals(lnd.RefusedGone, 1)
			n.stop() // which writes the line
			if got := log.String(); !strings.Contains(got, "the caller at "+p.addr.String()) || !strings.Contains(got, c.want) {
				t.Errorf("the log has no %q:\n%s", c.want, got)
			}
			if failures := n.CallFailures(); failures != (lnd.CallFailureCounts{}) {
				t.Errorf("calls failed: %v", failures)
			}
		})
	}
}

// TestLeft checks that a caller that does not read our HELLO counts as gone too, and that other
// errors stay as they are.
func TestLeft(t *testing.T) {
	s := newMemoryStream(nil, netip.MustParseAddrPort("10.0.0.1:988"), netip.MustParseAddrPort("10.0.0.2:1023"))
	for err, want := range map[error]string{
		io.EOF: "the caller at 10.0.0.2:1023 closed the connection before the hellos were exchanged: EOF",
		os.NewSyscallError("writev", syscall.EPIPE):      "the caller at 10.0.0.2:1023 reset the connection before the hellos were exchanged: writev: broken pipe",
		os.NewSyscallError("readv", syscall.ECONNRESET):  "the caller at 10.0.0.2:1023 reset the connection before the hellos were exchanged: readv: connection reset by peer",
		os.NewSyscallError("readv", syscall.ETIMEDOUT):   "readv: connection timed out",
		os.NewSyscallError("setsockopt", syscall.EINVAL): "setsockopt: invalid argument",
	} {
		got := closedRefusal(s, err)
		var refused *lnd.RefusedError
		if got.Error() != want || !errors.Is(got, err) || !errors.As(got, &refused) || refused.Reason != lnd.RefusedGone {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// TestDroppedCallers checks the reason for which a dropped caller is counted: it has gone, or the
// interface is closing.
func TestDroppedCallers(t *testing.T) {
	in := protocol.Inbound{Hello: protocol.Hello{Type: protocol.Control}}
	for _, tt := range []struct {
		ended error
		want  lnd.Refusal
	}{{nil, lnd.RefusedClosing}, {io.EOF, lnd.RefusedGone}} {
		if got := refusalFor(protocol.Drop, &in, tt.ended); got != tt.want {
			t.Errorf("stream ended with %v: %s, want %s", tt.ended, got, tt.want)
		}
	}
}
