package socklnd

import (
	"context"
	"net/netip"
)

// disguised is the host's network for tests without root's rights: streams that
// should go out from a privileged port go out from any, and all come in as if
// from a privileged one.
type disguised struct{ Network }

func (d disguised) Dial(ctx context.Context, from, to netip.AddrPort) (Stream, error) {
	s, err := d.Network.Dial(ctx, netip.AddrPortFrom(from.Addr(), 0), to)
	if err != nil || from.Port() == 0 {
		return s, err
	}
	return disguisedCall{s.(hostly), from}, nil
}

// hostly is a stream of the host's.
type hostly interface {
	Stream
	Pollable
}

// disguisedCall is a stream that seems to come from where it should.
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
