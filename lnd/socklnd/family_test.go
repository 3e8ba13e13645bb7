package socklnd

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/hostnet/hostnettest"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// six is the host's network, with the IPv4 loopback address a.b.c.d appearing as fd00::a.b.c.d.
type six struct{ disguised }

func toSix(a netip.Addr) netip.Addr {
	b := [16]byte{0: 0xfd}
	four := a.As4()
	copy(b[12:], four[:])
	return netip.AddrFrom16(b)
}

func fromSix(a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

func (six) Devices() ([]hostnet.Device, error) {
	return []hostnet.Device{{Name: "six0", Up: true, Addrs: []netip.Prefix{
		netip.MustParsePrefix("fe80::1/64"), netip.PrefixFrom(toSix(sixAddress), 64),
	}}}, nil
}

var sixAddress = newAddress()

func (s six) Dial(ctx context.Context, from, to netip.AddrPort) (Stream, error) {
	stream, err := s.disguised.Dial(ctx, netip.AddrPortFrom(fromSix(from.Addr()), 0), netip.AddrPortFrom(fromSix(to.Addr()), to.Port()))
	if err != nil {
		return nil, err
	}
	return sixStream{stream}, nil
}

func (s six) Listen(at netip.AddrPort, backlog int) (Listener, error) {
	l, err := s.disguised.Listen(netip.AddrPortFrom(fromSix(at.Addr()), at.Port()), backlog)
	return sixListener{l}, err
}

type sixListener struct{ Listener }

func (l sixListener) Accept() (Stream, error) {
	s, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return sixStream{s}, nil
}

type sixStream struct{ Stream }

func (s sixStream) LocalAddr() netip.AddrPort {
	return netip.AddrPortFrom(toSix(s.Stream.LocalAddr().Addr()), s.Stream.LocalAddr().Port())
}

func (s sixStream) RemoteAddr() netip.AddrPort {
	return netip.AddrPortFrom(toSix(s.Stream.RemoteAddr().Addr()), s.Stream.RemoteAddr().Port())
}

func (s sixStream) Configure(StreamOptions) error { return nil } // the socket is an IPv4 socket

// TestIPv6SpeaksV4 checks the defaults for IPv6: the NID is the first address that is not
// link-local, acceptor requests have version 2, and HELLOs are V4.
//
// socklnd 4.5 (1), 5.1 (3), 17 (1)
// lnet-wire 4.9, 5.2 (2)
func TestIPv6SpeaksV4(t *testing.T) {
	c := DefaultConfig()
	c.Network = six{disguised{HostNetwork()}}
	c.AcceptPort, c.AcceptPortBulk, c.ConnsPerPeer = testPort, testPort, 1
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, driver: d, arrived: make(chan *arrival, 10), down: make(chan lnd.PeerDown, 10)}
	i, err := d.Open(context.Background(), lnd.Config{Net: tcp, Upper: n})
	if err != nil {
		t.Fatal(err)
	}
	n.Interface = i.(*Interface)
	t.Cleanup(n.stop)
	if want := lnet.NIDFromIP(tcp, toSix(sixAddress)); n.NID() != want || n.Device() != "six0" {
		t.Fatalf("NID %s on %s, want %s", n.NID(), n.Device(), want)
	}

	four := newAddress()
	nid := lnet.NIDFromIP(tcp, toSix(four))
	id := lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}
	l, err := net.Listen("tcp", netip.AddrPortFrom(four, testPort).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s := n.put(id, 10)
	stream, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	p := &puppet{t: t, node: n, addr: four, life: 5, version: protocol.V4, order: binary.LittleEndian}
	w := p.wire(stream)
	r, _, err := lnet.DecodeAcceptorRequest(w.read(28))
	if err != nil || r.NID != nid || r.Version != 2 {
		t.Errorf("request %+v, error %v", r, err)
	}
	h := w.hello()
	if h.Version != protocol.V4 || h.Src != n.NID() || h.Dst != nid || h.Type != protocol.Control {
		t.Errorf("HELLO %+v", h)
	}
	w.say(protocol.Hello{Version: protocol.V4, Src: nid, SrcPID: lnet.PIDLustre, SrcIncarnation: 5, Type: protocol.Control})
	_, header, _ := w.receive()
	if header.Dest != nid || header.Src != n.NID() {
		t.Errorf("message from %s to %s", header.Src, header.Dest)
	}
	s.done()

	// The refusal of an unknown version names V4.
	w = p.wire(mustDial(t, netip.AddrPortFrom(sixAddress, testPort)))
	w.send(lnet.AcceptorRequest{NID: n.NID()}.Append(nil, binary.LittleEndian))
	w.send(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, lnet.MagicProto), 9))
	if h := w.hello(); h.Version != protocol.V4 || h.Src != n.NID() || h.Dst != n.NID() || h.Type != protocol.None {
		t.Errorf("answer %+v", h)
	}
	w.ends()
}

func mustDial(t *testing.T, to netip.AddrPort) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestWhichAddressBecomesTheNID checks the order: the requested address, then the first IPv4
// address, then the first IPv6 address that is not link-local.
//
// socklnd 17 (1)
func TestWhichAddressBecomesTheNID(t *testing.T) {
	one, other := newAddress(), newAddress()
	local, far := netip.MustParseAddr("fe80::5"), netip.MustParseAddr("2001:db8::5")
	for _, c := range []struct {
		name  string
		has   []netip.Addr
		asked netip.Addr
		want  netip.Addr // invalid if Open fails
	}{
		{"IPv4 first, whatever stands before", []netip.Addr{local, far, one, other}, netip.Addr{}, one},
		{"no IPv4", []netip.Addr{local, far}, netip.Addr{}, far},
		{"link-local only", []netip.Addr{local}, netip.Addr{}, netip.Addr{}},
		{"asked for", []netip.Addr{far, one, other}, other, other},
		{"IPv6 asked for", []netip.Addr{one, far}, far, far},
		{"asked for what is not there", []netip.Addr{one}, other, netip.Addr{}},
	} {
		dev := hostnet.Device{Name: "eth7", Up: true}
		for _, a := range c.has {
			dev.Addrs = append(dev.Addrs, netip.PrefixFrom(a, a.BitLen()))
		}
		d, err := New(Config{
			Network: &pulled{disguised{HostNetwork()}, hostnettest.New(dev)}, Accept: AcceptNone,
			AcceptPort: 988, AcceptTimeout: 1, MaxHalfOpen: 1, MaxHalfOpenPerSource: 1, SockTimeout: 1, MinReconnect: 1,
			MaxReconnect: 1, TypedConns: true, Tunables: lnd.Tunables{Credits: 1, PeerCredits: 1}, TOS: -1, AcceptBacklog: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		var asked lnet.NID
		if c.asked.IsValid() {
			asked = lnet.NIDFromIP(tcp, c.asked)
		}
		i, err := d.Open(t.Context(), lnd.Config{Net: tcp, Device: "eth7", NID: asked, Upper: &node{t: t}})
		switch {
		case err == nil && (!c.want.IsValid() || i.NID() != lnet.NIDFromIP(tcp, c.want)):
			t.Errorf("%s: %s, want %v", c.name, i.NID(), c.want)
		case err != nil && c.want.IsValid():
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			if err := i.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
