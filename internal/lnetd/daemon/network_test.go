package daemon

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/hostnet/hostnettest"
	"github.com/lnetd/lnetd/lnd/socklnd"
)

// fakeNetwork is a host without a wire: no peer connects or answers.
type fakeNetwork struct {
	*hostnettest.Host
	// taken and forbidden decide what Listen returns for a port.
	taken, forbidden func(netip.AddrPort) bool
}

func host(devices ...hostnet.Device) *fakeNetwork {
	return &fakeNetwork{Host: hostnettest.New(devices...)}
}

// set changes the devices. It returns when everything waits again.
func (n *fakeNetwork) set(devices ...hostnet.Device) {
	n.Set(devices...)
	synctest.Wait()
}

func device(name string, addrs ...string) hostnet.Device {
	d := hostnet.Device{Name: name, Up: true}
	for _, addr := range addrs {
		d.Addrs = append(d.Addrs, netip.MustParsePrefix(addr))
	}
	d.Loopback = d.Addrs[0].Addr().IsLoopback()
	return d
}

func (n *fakeNetwork) Speed(string) int { return 0 }

func (n *fakeNetwork) Listen(at netip.AddrPort, _ int) (socklnd.Listener, error) {
	switch {
	case n.forbidden != nil && n.forbidden(at):
		return nil, os.NewSyscallError("bind", syscall.EACCES)
	case n.taken != nil && n.taken(at):
		return nil, os.NewSyscallError("bind", syscall.EADDRINUSE)
	}
	return &fakeListener{at: at, closed: make(chan struct{})}, nil
}

func (n *fakeNetwork) Dial(context.Context, netip.AddrPort, netip.AddrPort) (socklnd.Stream, error) {
	return nil, os.NewSyscallError("connect", syscall.EHOSTUNREACH)
}

type fakeListener struct {
	at     netip.AddrPort
	once   sync.Once
	closed chan struct{}
}

func (l *fakeListener) Accept() (socklnd.Stream, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l *fakeListener) Addr() netip.AddrPort { return l.at }

func (l *fakeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}
