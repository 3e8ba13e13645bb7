package socklnd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// plainly configures the host's network, without a disguise.
func plainly(accept Accept) func(*Config) {
	return func(c *Config) {
		c.Network = HostNetwork()
		c.Accept = accept
	}
}

// lnet-wire 5.4 (1)
func TestSecureRefusesUnprivilegedPortsWithoutAByte(t *testing.T) {
	n := start(t, plainly(AcceptSecure))
	p := newPuppet(n)
	w := p.dial()
	// The node may close the connection before it reads this. The result is the same.
	h := p.hello(protocol.Control)
	b, err := h.Append(p.request(), p.order)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(b)
	w.ends()
	if got := n.counter("accepts_total"); got != 0 {
		t.Errorf("%d were heard", got)
	}
	if got := n.Refusals(); got != (lnd.RefusalCounts{lnd.RefusedPort: 1}) {
		t.Errorf("refusals %v", got)
	}
}

// callingAt configures a node that accepts all callers and calls others at port.
func callingAt(port int) func(*Config) {
	return func(c *Config) {
		plainly(AcceptAll)(c)
		c.ConnectPort = port
	}
}

// TestAnUnprivilegedPeerIsKnownByItsPort: with accept=all, and a privileged port to connect to, the
// HELLO of a caller from an unprivileged port does not identify it (socklnd 5.2).
//
// socklnd 1 (2), 5.2 (1), 15.4 (2)
// lnet-wire 2.6 (1), 5.4 (1)
func TestAnUnprivilegedPeerIsKnownByItsPort(t *testing.T) {
	n := start(t, callingAt(kernelPort))
	p := newPuppet(n)
	other := newPuppet(n)
	w := p.dial()
	h := p.hello(protocol.Control)
	h.Src, h.SrcPID = other.nid(), 77
	w.send(p.request())
	w.say(h)
	if h := w.hello(); h.Type != protocol.Control || h.Dst != p.nid() {
		t.Fatalf("answer %+v", h)
	}
	port := w.LocalAddr().(*net.TCPAddr).AddrPort().Port()
	want := lnet.ProcessID{NID: p.nid(), PID: lnet.PIDUserFlag | lnet.PID(port)}

	w.send(w.message(pattern(10), func(_ *protocol.Frame, h *lnet.Header) { h.Src, h.SrcPID = other.nid(), 88 }))
	a := n.arrival()
	if a.from != want || a.header.Src != want.NID || a.header.SrcPID != want.PID {
		t.Errorf("from %s, src_nid %s, src_pid %s; want %s", a.from, a.header.Src, a.header.SrcPID, want)
	}
	// A message to the peer uses the connection that it opened.
	s := n.put(want, 10)
	w.receive()
	s.done()
	// A second connection from another port is another process.
	w2 := p.connect(protocol.Control)
	w2.put(1)
	if a := n.arrival(); a.from == want || a.from.NID != want.NID {
		t.Errorf("from %s", a.from)
	}
	// After the connection closes, the node does not call the peer, and does not report it as down.
	_ = w.Close()
	n.awaitGone(want)
	n.put(want, 10).fails(lnd.StatusRemoteError)
	select {
	case d := <-n.down:
		t.Errorf("%+v", d)
	default:
	}
}

// TestWhoAnUnprivilegedPeerIs: if the port to connect to is unprivileged, a caller that calls from
// the address of its NID is identified by its HELLO. As it may be a router, it may also forward
// messages of other sources.
func TestWhoAnUnprivilegedPeerIs(t *testing.T) {
	for _, c := range []struct {
		name   string
		port   int  // the port at which the node calls others; 0 for its own
		liar   bool // the HELLO names another address
		pid    lnet.PID
		madeUp bool
	}{
		{"as it says", 0, false, lnet.PIDLustre, false},
		{"another process", 0, false, 77, false},
		{"another address", 0, true, lnet.PIDLustre, true},
		{"a made-up process", 0, false, lnet.PIDUserFlag | 7, true},
		{"nodes are privileged", kernelPort, false, lnet.PIDLustre, true},
		{"the last privileged port", lastPrivilegedPort, false, lnet.PIDLustre, true},
		{"the first unprivileged port", lastPrivilegedPort + 1, false, lnet.PIDLustre, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := start(t, callingAt(c.port))
			p := newPuppet(n)
			w := p.dial()
			h := p.hello(protocol.Control)
			h.SrcPID = c.pid
			if c.liar {
				h.Src = newPuppet(n).nid()
			}
			w.send(p.request())
			w.say(h)
			if h := w.hello(); h.Type != protocol.Control || h.Dst != p.nid() {
				t.Fatalf("answer %+v", h)
			}
			who := lnet.ProcessID{NID: p.nid(), PID: c.pid}
			if c.madeUp {
				who.PID = lnet.PIDUserFlag | lnet.PID(w.LocalAddr().(*net.TCPAddr).Port)
			}
			behind := lnet.ProcessID{NID: lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 7), p.addr), PID: 88}
			w.send(w.message(pattern(10), func(_ *protocol.Frame, h *lnet.Header) { h.Src, h.SrcPID = behind.NID, behind.PID }))
			source := behind
			if c.madeUp {
				source = who
			}
			a := n.arrival()
			if got := (lnet.ProcessID{NID: a.header.Src, PID: a.header.SrcPID}); a.from != who || got != source {
				t.Errorf("from %s, source %s; want %s, %s", a.from, got, who, source)
			}
			// The node reaches the peer over the connection that the peer opened.
			s := n.put(who, 10)
			w.receive()
			s.done()
		})
	}
}

// TestUnprivilegedConfig checks that nodes of unprivileged users reach each other, and are
// identified by their HELLOs.
//
// lnet-wire 5.4 (1)
func TestUnprivilegedConfig(t *testing.T) {
	anybody := func(c *Config) {
		*c = UnprivilegedConfig(testPort)
		c.SourcePorts = SourceAny // as for a user other than root
	}
	from, to := start(t, anybody), start(t, anybody)
	for _, n := range []*node{from, to} { // onArrival also synchronizes with the readers, for the race detector
		n.onArrival(func(a *arrival) error {
			a.place(memory.Of(make([]byte, a.header.PayloadLength)))
			return nil
		})
	}
	from.put(to.id(), 10).done()
	if a := to.arrival(); a.from != from.id() || len(a.payload) != 10 {
		t.Errorf("%d bytes from %s, want 10 from %s", len(a.payload), a.from, from.id())
	}
	to.put(from.id(), 10).done()
	from.arrival()
}

// awaitGone waits until a peer has left the table.
func (n *node) awaitGone(id lnet.ProcessID) {
	n.t.Helper()
	n.awaitTable("the end of "+id.String(), func() bool { return n.Find(id) == nil })
}

// lnet-wire 5.4 (1)
func TestAcceptNoneHasNoAcceptor(t *testing.T) {
	n := start(t, plainly(AcceptNone))
	_, err := net.Dial("tcp", netip.AddrPortFrom(n.Address, testPort).String())
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %v, want a refused connection", err)
	}
}

// TestPrivilegedSourcePorts checks the source ports of a set. For each peer they count down from
// 1023, whatever ports are used for other peers.
//
// socklnd 16 (2)
// lnet-wire 5.3 (1)
func TestPrivilegedSourcePorts(t *testing.T) {
	testenv.NeedRoot(t)
	n := start(t, func(c *Config) {
		plainly(AcceptSecure)(c)
		c.ConnsPerPeer = 4
		c.SourcePorts = SourcePrivileged
	})
	for range 2 {
		p := newPuppet(n).listen()
		s := n.put(p.id(), 10)
		types := []protocol.ConnType{
			protocol.Control,
			protocol.BulkIn, protocol.BulkOut, protocol.BulkIn, protocol.BulkOut,
			protocol.BulkIn, protocol.BulkOut, protocol.BulkIn, protocol.BulkOut,
		}
		for k, c := range types {
			w := p.take()
			from := w.RemoteAddr().(*net.TCPAddr).AddrPort()
			if w.typ.Invert() != c || from.Port() != uint16(1023-k) || from.Addr() != n.Address {
				t.Errorf("connection %d is %s from %s, want %s from port %d", k, w.typ.Invert(), from, c, 1023-k)
			}
		}
		s.done()
	}
}

// socklnd 16 (2)
// lnet-wire 5.3 (1)
func TestAPortInUseIsPassedOver(t *testing.T) {
	testenv.NeedRoot(t)
	n := start(t, func(c *Config) { plainly(AcceptSecure)(c); c.SourcePorts = SourcePrivileged })
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: n.Address.AsSlice(), Port: 1023})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	p := newPuppet(n).listen()
	s := n.put(p.id(), 10)
	w := p.take()
	if port := w.RemoteAddr().(*net.TCPAddr).Port; port != 1022 {
		t.Errorf("from port %d, want 1022", port)
	}
	w.receive()
	s.done()
}

// socklnd 5.2 (2)
func TestSecureTakesPrivilegedPorts(t *testing.T) {
	testenv.NeedRoot(t)
	n := start(t, plainly(AcceptSecure))
	p := newPuppet(n)
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: p.addr.AsSlice(), Port: 700}}
	c, err := d.Dial("tcp", netip.AddrPortFrom(n.Address, testPort).String())
	if err != nil {
		t.Fatal(err)
	}
	w := p.wire(c)
	w.send(p.request())
	w.say(p.hello(protocol.Control))
	if h := w.hello(); h.Type != protocol.Control {
		t.Errorf("answer %+v", h)
	}
	w.put(10)
	if a := n.arrival(); a.from != p.id() || !bytes.Equal(a.payload, pattern(10)) {
		t.Errorf("%d bytes from %s", len(a.payload), a.from)
	}
}

// refusingPorts is a network on which the process must not bind privileged ports.
type refusingPorts struct{ disguised }

func (n refusingPorts) Dial(ctx context.Context, from, to netip.AddrPort) (Stream, error) {
	if p := from.Port(); p != 0 && p <= lastPrivilegedPort {
		return nil, os.NewSyscallError("bind", syscall.EACCES)
	}
	return n.disguised.Dial(ctx, from, to)
}

// TestWithoutPrivilegesAnyPortWillDo: a node that cannot bind a privileged port calls from another
// one. It opens CONTROL only, because the peer takes each connection for another process.
func TestWithoutPrivilegesAnyPortWillDo(t *testing.T) {
	n := start(t, func(c *Config) { c.Network = refusingPorts{disguised{HostNetwork()}} })
	p := newPuppet(n).listen()
	s := n.put(p.id(), 10)
	w := p.take()
	w.receive()
	s.done()
	n.awaitSettled(p.id())
	s = n.put(p.id(), 5000)
	w.receive()
	s.done()
	if got := n.counter("connections"); got != 1 {
		t.Errorf("%d connections, want CONTROL alone", got)
	}
}

func TestWithoutPrivilegesAndWithoutLeave(t *testing.T) {
	n := start(t, func(c *Config) {
		c.Network = refusingPorts{disguised{HostNetwork()}}
		c.SourcePorts = SourcePrivileged
	})
	p := newPuppet(n).listen()
	if err := n.put(p.id(), 10).fails(lnd.StatusLocalError); !errors.Is(err, syscall.EACCES) {
		t.Errorf("error %v, want EACCES", err)
	}
}

// lnet-wire 5.3 (2)
func TestBulkConnectionsGoToTheirOwnPort(t *testing.T) {
	n := start(t, func(c *Config) { c.AcceptPortBulk = testPort + 1 })
	p := newPuppet(n).listen()
	bulk, err := net.Listen("tcp", netip.AddrPortFrom(p.addr, testPort+1).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bulk.Close() }()
	s := n.put(p.id(), 10)
	w := p.take()
	w.receive()
	s.done()
	c, err := bulk.Accept()
	if err != nil {
		t.Fatal(err)
	}
	first := p.wire(c).read(16)
	if _, _, err := lnet.DecodeAcceptorRequest(first); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	// The node listens on both ports.
	for _, port := range []uint16{testPort, testPort + 1} {
		c, err := net.Dial("tcp", netip.AddrPortFrom(n.Address, port).String())
		if err != nil {
			t.Fatal(err)
		}
		w := p.wire(c)
		w.send([]byte("nonsense"))
		if _, err := w.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	}
}
