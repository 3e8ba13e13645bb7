package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// fakeNetwork is a host without a wire: no peer connects or answers.
type fakeNetwork struct {
	devices []socklnd.Device
	// events holds devices, each of which an event makes visible to watchers.
	events []socklnd.Device
	// taken and forbidden decide what Listen returns for a port.
	taken, forbidden func(netip.AddrPort) bool
}

func host(devices ...socklnd.Device) *fakeNetwork { return &fakeNetwork{devices: devices} }

func device(name string, addrs ...string) socklnd.Device {
	d := socklnd.Device{Name: name, Up: true}
	for _, addr := range addrs {
		d.Addrs = append(d.Addrs, netip.MustParsePrefix(addr))
	}
	d.Loopback = d.Addrs[0].Addr().IsLoopback()
	return d
}

func (n *fakeNetwork) Device(name string, nid lnet.NID) (socklnd.Device, error) {
	for _, d := range n.devices {
		switch {
		case name != "" && d.Name == name,
			name == "" && !nid.IsZero() && d.Has(nid.IP()),
			name == "" && nid.IsZero() && !d.Loopback:
			return d, nil
		}
	}
	return socklnd.Device{}, fmt.Errorf("no such network device: %w", syscall.ENODEV)
}

func (n *fakeNetwork) Watch(ctx context.Context, changed func()) error {
	changed()
	for _, d := range n.events {
		n.devices = append(n.devices, d)
		changed()
	}
	<-ctx.Done()
	return nil
}

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
