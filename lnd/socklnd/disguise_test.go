package socklnd

import (
	"context"
	"net/netip"
)

// disguised is the host's network for tests without root's rights: streams go
// out from any port, and come in as if from a privileged one.
type disguised struct{ Network }

func (d disguised) Dial(ctx context.Context, from, to netip.AddrPort) (Stream, error) {
	return d.Network.Dial(ctx, netip.AddrPortFrom(from.Addr(), 0), to)
}

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
	return disguisedStream{s}, nil
}

type disguisedStream struct{ Stream }

func (s disguisedStream) RemoteAddr() netip.AddrPort {
	return netip.AddrPortFrom(s.Stream.RemoteAddr().Addr(), 512+s.Stream.RemoteAddr().Port()%512)
}
