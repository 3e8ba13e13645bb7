package socklnd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// byteOrder is implemented by both byte orders of encoding/binary.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// puppet is a scripted peer: the test decides what it sends.
type puppet struct {
	t       testing.TB
	node    *node
	addr    netip.Addr
	life    uint64
	version protocol.Version
	order   byteOrder
	ln      puppetListener
	// window is the receive buffer of connections that the puppet dials, in bytes; 0 for the
	// system's default.
	window int
}

// puppetListener is a TCP listener or one of a memoryNetwork.
type puppetListener interface {
	Accept() (net.Conn, error)
	Close() error
	SetDeadline(at time.Time) error
}

func newPuppet(n *node) *puppet {
	return &puppet{t: n.t, node: n, addr: newAddress(), life: 1000, version: protocol.V3, order: binary.LittleEndian}
}

// lowerPuppet returns a puppet with a lower NID than the node; newPuppet's have higher ones.
func lowerPuppet(n *node) *puppet {
	p := newPuppet(n)
	a := p.addr.As4()
	a[1] -= 220
	p.addr = netip.AddrFrom4(a)
	return p
}

func (p *puppet) nid() lnet.NID      { return lnet.NIDFromIP(tcp, p.addr) }
func (p *puppet) id() lnet.ProcessID { return lnet.ProcessID{NID: p.nid(), PID: lnet.PIDLustre} }

// hello returns the puppet's HELLO for a connection of type c.
func (p *puppet) hello(c protocol.ConnType) protocol.Hello {
	return protocol.Hello{
		Version: p.version, Src: p.nid(), Dst: p.node.NID(), SrcPID: lnet.PIDLustre, SrcIncarnation: p.life, Type: c,
	}
}

// wire is the puppet's end of a connection.
type wire struct {
	net.Conn
	p       *puppet
	t       testing.TB
	version protocol.Version
	typ     protocol.ConnType
}

// memory returns the memory network of the node, or nil if it is on another network.
func (p *puppet) memory() *memoryNetwork {
	if w, ok := p.node.driver.config.Network.(interface{ memory() *memoryNetwork }); ok {
		return w.memory()
	}
	return nil
}

// dial connects and sends nothing.
func (p *puppet) dial() *wire {
	p.t.Helper()
	at := netip.AddrPortFrom(p.node.Address, testPort)
	if m := p.memory(); m != nil {
		s, err := m.dial(netip.AddrPortFrom(p.addr, 0), at)
		if err != nil {
			p.t.Fatal(err)
		}
		return p.wire(memoryEnd{s})
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: p.addr.AsSlice()}, Timeout: patience}
	if p.window > 0 {
		d.Control = func(_, _ string, raw syscall.RawConn) error {
			return control(raw, func(fd int) error {
				return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, p.window)
			})
		}
	}
	c, err := d.Dial("tcp", at.String())
	if err != nil {
		p.t.Fatal(err)
	}
	return p.wire(c)
}

func (p *puppet) wire(c net.Conn) *wire {
	w := &wire{Conn: c, p: p, t: p.t, version: p.version}
	p.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	return w
}

// request returns an acceptor request for the node.
func (p *puppet) request() []byte {
	return lnet.AcceptorRequest{NID: p.node.NID()}.Append(nil, p.order)
}

// call dials and sends the acceptor request and a HELLO.
func (p *puppet) call(c protocol.ConnType) *wire {
	p.t.Helper()
	w := p.dial()
	w.typ = c
	w.send(p.introduction(c))
	return w
}

// introduction returns what a caller sends first: acceptor request and HELLO.
func (p *puppet) introduction(c protocol.ConnType) []byte {
	p.t.Helper()
	h := p.hello(c)
	b, err := h.Append(p.request(), p.order)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// passes calls and closes the connection before the node can have read anything. The HELLO and the
// end of the stream arrive in one segment.
func (p *puppet) passes(c protocol.ConnType) {
	p.t.Helper()
	w := p.dial()
	w.sendLast(p.introduction(c))
}

// sendLast sends b and closes the connection, in one segment.
func (w *wire) sendLast(b []byte) {
	w.t.Helper()
	raw, err := w.Conn.(syscall.Conn).SyscallConn()
	if err == nil {
		err = control(raw, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 1) })
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(b)
	if err := w.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// connect opens a connection, which the node has to accept.
func (p *puppet) connect(c protocol.ConnType) *wire {
	p.t.Helper()
	w, err := p.tryToConnect(c)
	if err != nil {
		p.t.Fatal(err)
	}
	return w
}

// tryToConnect is like connect, but returns an error if the node closes the connection before it
// has answered.
func (p *puppet) tryToConnect(c protocol.ConnType) (*wire, error) {
	p.t.Helper()
	w := p.dial()
	w.typ = c
	_, err := w.Write(p.introduction(c))
	var h protocol.Hello
	if err == nil {
		h, err = w.greeting()
	}
	if err != nil {
		_ = w.Close()
		return nil, err
	}
	if h.Type != c.Invert() {
		p.t.Fatalf("answer of type %s to a HELLO of type %s", h.Type, c)
	}
	return w, nil
}

// refused calls, and checks that the node answers NONE and closes.
func (p *puppet) refused(c protocol.ConnType) protocol.Hello {
	p.t.Helper()
	w := p.call(c)
	h := w.hello()
	if h.Type != protocol.None {
		p.t.Fatalf("answer of type %s, want NONE", h.Type)
	}
	w.ends()
	return h
}

// listen makes the puppet listen for calls.
func (p *puppet) listen() *puppet {
	p.t.Helper()
	var l puppetListener
	var err error
	if m := p.memory(); m != nil {
		var in *memoryListener
		in, err = m.listen(netip.AddrPortFrom(p.addr, testPort))
		l = memoryDoor{in}
	} else {
		l, err = net.ListenTCP("tcp", &net.TCPAddr{IP: p.addr.AsSlice(), Port: testPort})
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = l.Close() })
	p.ln = l
	return p
}

// accept accepts a call and reads its acceptor request and HELLO.
func (p *puppet) accept() (*wire, protocol.Hello) {
	p.t.Helper()
	if err := p.ln.SetDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	c, err := p.ln.Accept()
	if err != nil {
		p.t.Fatalf("the node does not call: %v", err)
	}
	w := p.wire(c)
	request := w.read(16)
	if r, _, err := lnet.DecodeAcceptorRequest(request); err != nil || r.NID != p.nid() {
		p.t.Fatalf("request % x for %s (%v), want one for %s", request, r.NID, err, p.nid())
	}
	h := w.hello()
	w.typ = h.Type.Invert()
	return w, h
}

// answer sends the puppet's HELLO of type c.
func (w *wire) answer(c protocol.ConnType) {
	w.t.Helper()
	h := w.p.hello(c)
	w.say(h)
	w.version = h.Version
}

func (w *wire) say(h protocol.Hello) {
	w.t.Helper()
	b, err := h.Append(nil, w.p.order)
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(b)
}

// take accepts a call, and answers with the matching type.
func (p *puppet) take() *wire {
	p.t.Helper()
	w, h := p.accept()
	w.answer(h.Type.Invert())
	return w
}

// decline accepts a call and answers NONE.
func (p *puppet) decline() {
	p.t.Helper()
	w, _ := p.accept()
	w.answer(protocol.None)
	w.ends()
}

func (w *wire) send(b []byte) {
	w.t.Helper()
	if _, err := w.Write(b); err != nil {
		w.t.Fatalf("write: %v", err)
	}
}

func (w *wire) read(n int) []byte {
	w.t.Helper()
	b := make([]byte, n)
	if got, err := io.ReadFull(w, b); err != nil {
		w.t.Fatalf("read %d of %d bytes: %v", got, n, err)
	}
	return b
}

// hello reads the node's HELLO.
func (w *wire) hello() protocol.Hello {
	w.t.Helper()
	h, err := w.greeting()
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// greeting is like hello, but returns an error if there is no HELLO.
func (w *wire) greeting() (protocol.Hello, error) {
	w.t.Helper()
	var b []byte
	for {
		need, err := protocol.HelloNeed(b)
		if err != nil {
			return protocol.Hello{}, err
		}
		if need <= len(b) {
			break
		}
		have := len(b)
		b = append(b, make([]byte, need-have)...)
		if got, err := io.ReadFull(w, b[have:]); err != nil {
			return protocol.Hello{}, fmt.Errorf("read %d of %d bytes: %w", have+got, need, err)
		}
	}
	h, order, err := protocol.DecodeHello(b)
	if err != nil {
		return protocol.Hello{}, err
	}
	if order != binary.ByteOrder(binary.LittleEndian) {
		w.t.Errorf("HELLO in order %s", order)
	}
	return h, nil
}

// ends checks that the node closes the connection without sending anything.
func (w *wire) ends() {
	w.t.Helper()
	b := make([]byte, 1000)
	n, err := w.Read(b)
	if n > 0 {
		w.t.Fatalf("%d bytes came, want the end: % x", n, b[:n])
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Fatal("the connection stays open")
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		w.t.Fatal(err)
	}
}

// noop sends a NOOP.
func (w *wire) noop(c0, c1 uint64) {
	w.t.Helper()
	f := protocol.Frame{Type: protocol.FrameNoop, Request: c0, Ack: c1}
	w.send(f.Append(nil, w.p.order))
}

// message encodes a PUT to the node, which edit may change.
func (w *wire) message(payload []byte, edit func(*protocol.Frame, *lnet.Header)) []byte {
	w.t.Helper()
	f := protocol.Frame{Type: protocol.FrameLNet}
	h := putHeader(w.p.nid(), w.p.node.NID(), len(payload))
	if edit != nil {
		edit(&f, &h)
	}
	var b []byte
	if w.version.Framed() {
		b = f.Append(b, w.p.order)
	}
	b, err := w.version.AppendHeader(b, &h)
	if err != nil {
		w.t.Fatal(err)
	}
	return append(b, payload...)
}

// put sends a PUT with n bytes.
func (w *wire) put(n int) {
	w.t.Helper()
	w.send(w.message(pattern(n), nil))
}

// request sends a PUT with n bytes that asks for an acknowledgement.
func (w *wire) request(n int, cookie uint64) {
	w.t.Helper()
	w.send(w.message(pattern(n), func(f *protocol.Frame, _ *lnet.Header) { f.Request = cookie }))
}

// frame reads the framing header of a message of the node.
func (w *wire) frame() protocol.Frame {
	w.t.Helper()
	var f protocol.Frame
	if err := f.Decode(w.read(protocol.FrameSize), binary.LittleEndian); err != nil {
		w.t.Fatal(err)
	}
	return f
}

// receive reads a message of the node. On a busy machine keepalives may precede it.
func (w *wire) receive() (f protocol.Frame, h lnet.Header, payload []byte) {
	w.t.Helper()
	if w.version.Framed() {
		for f = w.frame(); f.Type == protocol.FrameNoop && f.Request == 0 && f.Ack == protocol.KeepaliveCookie; {
			f = w.frame()
		}
		if f.Type != protocol.FrameLNet {
			w.t.Fatalf("a NOOP (%d, %d), want a message", f.Request, f.Ack)
		}
	}
	if err := w.version.DecodeHeader(w.read(w.version.HeaderSize()), &h); err != nil {
		w.t.Fatal(err)
	}
	return f, h, w.read(int(h.PayloadLength))
}

// orderOpposite returns the other byte order.
func orderOpposite(o byteOrder) byteOrder {
	if o == byteOrder(binary.LittleEndian) {
		return binary.BigEndian
	}
	return binary.LittleEndian
}
