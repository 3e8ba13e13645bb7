package socklnd

import (
	"context"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd/hostnet"
)

// HostNetwork returns the host's network: streams are TCP sockets, and devices are those of the kernel
// (hostnet.Kernel).
func HostNetwork() Network { return &hostNetwork{} }

type hostNetwork struct{ hostnet.Kernel }

// Listen implements Network.
func (*hostNetwork) Listen(at netip.AddrPort, backlog int) (Listener, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	raw, err := l.SyscallConn()
	if err == nil {
		// Package net uses the system's maximum backlog. A second listen sets ours.
		err = control(raw, func(fd int) error { return os.NewSyscallError("listen", unix.Listen(fd, backlog)) })
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return &hostListener{l}, nil
}

// Dial implements Network.
func (*hostNetwork) Dial(ctx context.Context, from, to netip.AddrPort) (Stream, error) {
	d := net.Dialer{
		LocalAddr: net.TCPAddrFromAddrPort(from),
		KeepAlive: -1, // package net must not set it; Configure does
		Control: func(_, _ string, raw syscall.RawConn) error {
			// These options let one source port serve connections to many peers.
			return control(raw, func(fd int) error {
				if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
					return err
				}
				return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
			})
		},
	}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	return newHostStream(c.(*net.TCPConn))
}

type hostListener struct{ l *net.TCPListener }

func (h *hostListener) Accept() (Stream, error) {
	c, err := h.l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return newHostStream(c)
}

func (h *hostListener) Addr() netip.AddrPort {
	return h.l.Addr().(*net.TCPAddr).AddrPort()
}

func (h *hostListener) Close() error { return h.l.Close() }

// control calls f with the descriptor, and returns the error of f, or the error if the descriptor is closed.
func control(raw syscall.RawConn, f func(fd int) error) error {
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
