package socklnd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnet"
)

// HostNetwork returns the host's network: its TCP sockets, and its devices as reported by rtnetlink.
func HostNetwork() Network { return &hostNetwork{} }

type hostNetwork struct {
	mu    sync.Mutex   // guards moved
	moved map[int]bool // indexes of devices that have left the network namespace while it was watched
}

// errNoDevice is ENODEV with a clearer text.
var errNoDevice = lacking{"no such network device"}

type lacking struct{ text string }

func (l lacking) Error() string { return l.text }

// As implements errors.As for a syscall.Errno.
func (lacking) As(target any) bool {
	e, ok := target.(*syscall.Errno)
	if ok {
		*e = syscall.ENODEV
	}
	return ok
}

// Is implements errors.Is.
func (lacking) Is(target error) bool { return target == syscall.ENODEV }

// Device implements Network.
func (*hostNetwork) Device(name string, nid lnet.NID) (Device, error) {
	links, addresses, err := listDevices()
	if err != nil {
		return Device{}, err
	}
	// An alias such as "eth0:1" is the label of an address.
	base, _, alias := strings.Cut(name, ":")
	for k := range links {
		l := &links[k]
		if l.Attributes == nil || base != "" && l.Attributes.Name != base {
			continue
		}
		dev := describe(l)
		label := ""
		if alias {
			dev.Name, label = name, name
		}
		dev.Addrs = addressesOf(addresses, l.Index, label)
		if suitable(dev, name, nid) {
			return dev, nil
		}
	}
	return Device{}, noDevice(name, nid)
}

// DeviceAt implements Indexed.
func (h *hostNetwork) DeviceAt(index int) (Device, error) {
	links, addresses, err := listDevices()
	if err != nil {
		return Device{}, err
	}
	for k := range links {
		if l := &links[k]; l.Attributes != nil && int(l.Index) == index {
			dev := describe(l)
			dev.Addrs = addressesOf(addresses, l.Index, "")
			return dev, nil
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.moved[index] {
		return Device{}, fmt.Errorf("device %d: %w", index, ErrDeviceMoved)
	}
	return Device{}, fmt.Errorf("device %d: %w", index, errNoDevice)
}

// noteMoved records devices that have left the network namespace, and deletes those that have come
// back.
func (h *hostNetwork) noteMoved(messages []netlink.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := range messages {
		m := &messages[k]
		if len(m.Data) < unix.SizeofIfInfomsg {
			continue
		}
		index := int(int32(binary.NativeEndian.Uint32(m.Data[4:])))
		switch m.Header.Type {
		case unix.RTM_NEWLINK:
			delete(h.moved, index)
		case unix.RTM_DELLINK:
			if !hasAttribute(m.Data[unix.SizeofIfInfomsg:], unix.IFLA_NEW_NETNSID) {
				continue
			}
			if h.moved == nil {
				h.moved = map[int]bool{}
			}
			h.moved[index] = true
		}
	}
}

func hasAttribute(b []byte, typ uint16) bool {
	d, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return false
	}
	for d.Next() {
		if d.Type() == typ {
			return true
		}
	}
	return false
}

// listDevices lists the devices and their addresses.
func listDevices() ([]rtnetlink.LinkMessage, []rtnetlink.AddressMessage, error) {
	c, err := rtnetlink.Dial(nil)
	if err != nil {
		return nil, nil, fmt.Errorf("rtnetlink: %w", err)
	}
	defer func() { _ = c.Close() }()
	links, err := c.Link.List()
	if err != nil {
		return nil, nil, fmt.Errorf("rtnetlink: list links: %w", err)
	}
	addresses, err := c.Address.List()
	if err != nil {
		return nil, nil, fmt.Errorf("rtnetlink: list addresses: %w", err)
	}
	return links, addresses, nil
}

// suitable reports whether dev matches name and nid, as for Network.Device.
func suitable(dev Device, name string, nid lnet.NID) bool {
	switch {
	case name != "":
		return !strings.Contains(name, ":") || len(dev.Addrs) > 0
	case !nid.IsZero():
		return dev.Has(nid.IP())
	}
	return dev.Up && !dev.Loopback && slices.ContainsFunc(dev.Addrs, func(p netip.Prefix) bool {
		return !p.Addr().IsLinkLocalUnicast()
	})
}

func noDevice(name string, nid lnet.NID) error {
	switch {
	case name != "":
		return fmt.Errorf("%q: %w", name, errNoDevice)
	case !nid.IsZero():
		return fmt.Errorf("address %s: %w", nid.IP(), errNoDevice)
	}
	return fmt.Errorf("first usable: %w", errNoDevice)
}

func describe(l *rtnetlink.LinkMessage) Device {
	a := l.Attributes
	operational := a.OperationalState == rtnetlink.OperStateUp || a.OperationalState == rtnetlink.OperStateUnknown
	carrier := a.Carrier == nil || *a.Carrier != 0
	return Device{
		Name:      a.Name,
		Index:     int(l.Index),
		NoCarrier: l.Flags&unix.IFF_UP != 0 && !carrier,
		Up:        l.Flags&unix.IFF_UP != 0 && operational && carrier,
		Off:       l.Flags&unix.IFF_UP == 0,
		Loopback:  l.Flags&unix.IFF_LOOPBACK != 0,
		SpeedMbps: speed(a.Name),
	}
}

// speed returns the link speed in Mbit/s. It returns 0 for a virtual device.
func speed(device string) int {
	b, err := os.ReadFile("/sys/class/net/" + device + "/speed")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// addressesOf returns the addresses of the device with the index. If label is not empty, it returns
// only those with the label. Temporary IPv6 addresses are skipped.
func addressesOf(all []rtnetlink.AddressMessage, index uint32, label string) []netip.Prefix {
	var out []netip.Prefix
	for k := range all {
		m := &all[k]
		if m.Index != index || m.Attributes == nil || m.Family == unix.AF_INET6 && m.Flags&unix.IFA_F_TEMPORARY != 0 {
			continue
		}
		if label != "" && m.Attributes.Label != label {
			continue
		}
		ip := m.Attributes.Address
		if m.Attributes.Local != nil {
			ip = m.Attributes.Local
		}
		if a, ok := netip.AddrFromSlice(ip); ok {
			out = append(out, netip.PrefixFrom(a.Unmap(), int(m.PrefixLength)))
		}
	}
	return out
}

// Watch implements Network.
func (h *hostNetwork) Watch(ctx context.Context, changed func()) error {
	c, err := rtnetlink.Dial(&netlink.Config{
		Groups: unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR,
	})
	if err != nil {
		return fmt.Errorf("rtnetlink: %w", err)
	}
	defer func() { _ = c.Close() }()
	release := closeWith(ctx, c)
	defer release()
	// Catch changes between the first check and the subscription.
	changed()
	for {
		_, messages, err := c.Receive()
		h.noteMoved(messages)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if !errors.Is(err, unix.ENOBUFS) {
				return fmt.Errorf("rtnetlink: receive: %w", err)
			}
			// Events were lost; checking again makes up for them.
		}
		changed()
	}
}

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
		KeepAlive: -1, // Configure sets it
		Control: func(_, _ string, raw syscall.RawConn) error {
			// One source port serves connections to many peers.
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

// control calls f with the descriptor.
func control(raw syscall.RawConn, f func(fd int) error) error {
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
