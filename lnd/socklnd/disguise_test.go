package socklnd

import (
	"context"
	"net/netip"
)

// disguised is the host's network for tests without root privileges. Outbound streams use any port
// where they should use a privileged one. Inbound streams all appear to come from privileged ports.
type disguised struct{ Network }

func (d disguised) Dial(ctx context.Context, from, to netip.AddrPort) (Stream, error) {
	s, err := d.Network.Dial(ctx, netip.AddrPortFrom(from.Addr(), 0), to)
	if err != nil || from.Port() == 0 {
		return s, err
	}
	return disguisedCall{s.(hostly), from}, nil
}

// hostly is a stream of the host's network.
type hostly interface {
	Stream
	Pollable
}

// disguisedCall is a stream that reports the local address that was asked for.
type disguisedCall struct {
	hostly
	from netip.AddrPort
}

func (s disguisedCall) LocalAddr() netip.AddrPort { return s.from }

func (d disguised) Listen(at netip.AddrPort, backlog int) (Listener, error) {
	l, err := d.Network.Listen(at, backlog)
	return disguisedListener{l}, err
}

type disguisedListener struct{ Listener }

func (l disguisedListener) Accept() (Stream, error) {
	s, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return disguisedStream{s.(hostly)}, nil
}

type disguisedStream struct{ hostly }

func (s disguisedStream) RemoteAddr() netip.AddrPort {
	return netip.AddrPortFrom(s.hostly.RemoteAddr().Addr(), 512+s.hostly.RemoteAddr().Port()%512)
}
