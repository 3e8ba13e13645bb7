package simlnd

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/simlnd/network"
	"github.com/lnetd/lnetd/lnd/socklnd"
)

// Host is a host on a fabric. It implements socklnd.Network.
type Host struct {
	fabric  *Fabric
	net     *network.Host
	changes hostnet.Changes

	// Guarded by Fabric.mu.
	devices   []*Device
	listeners map[netip.AddrPort]*listener
	inUse     map[tuple]*stream // a stream is nil while it is being connected
	lastPort  uint16            // last ephemeral port that was used
}

var _ socklnd.Network = (*Host)(nil)

// tuple contains the addresses and ports of a stream (its 4-tuple), which identify it on its host.
type tuple struct{ local, remote netip.AddrPort }

// Place is what a fault applies to: all addresses of a *Host or of a *Device.
type Place interface {
	addresses() []netip.Addr // Fabric.mu is held
}

// Device is a network device of a host.
type Device struct {
	host  *Host
	name  string
	port  *network.Port
	speed int
}

// Name returns the host's name.
func (h *Host) Name() string { return h.net.Name }

// AddDevice adds a device with the given addresses to the host.
func (h *Host) AddDevice(name string, addrs ...string) *Device {
	h.fabric.mu.Lock()
	defer h.fabric.mu.Unlock()
	d := h.addDevice(name, addrs...)
	h.changes.Notify()
	return d
}

func (h *Host) addDevice(name string, addrs ...string) *Device {
	if name == "" {
		name = fmt.Sprintf("eth%d", len(h.devices))
	}
	d := &Device{host: h, name: name}
	d.port = h.fabric.net.AddPort(h.net, d)
	h.devices = append(h.devices, d)
	d.assign(addrs)
	return d
}

// assign adds addresses to the device.
func (d *Device) assign(addrs []string) {
	for _, a := range addrs {
		d.host.fabric.net.Assign(d.port, a)
	}
}

// Interface returns the device with the given name, or nil.
func (h *Host) Interface(name string) *Device {
	h.fabric.mu.Lock()
	defer h.fabric.mu.Unlock()
	return h.find(func(d *Device) bool { return d.name == name })
}

// Name returns the device's name.
func (d *Device) Name() string { return d.name }

// SetUp takes the device up or down. While it is down, it neither sends nor receives. Its streams wait for it
// until they time out.
func (d *Device) SetUp(up bool) {
	f := d.host.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.net.SetDown(d.port, !up) {
		f.refresh()
		d.host.changes.Notify()
	}
}

// SetAddrs replaces the device's addresses.
func (d *Device) SetAddrs(addrs ...string) {
	f := d.host.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	f.net.Unassign(d.port)
	d.assign(addrs)
	f.refresh()
	d.host.changes.Notify()
}

// SetSpeed sets the link speed of the device in Mbit/s. 0 means unknown.
func (d *Device) SetSpeed(mbps int) {
	d.host.fabric.mu.Lock()
	defer d.host.fabric.mu.Unlock()
	d.speed = mbps
	d.host.changes.Notify()
}

func (h *Host) addresses() []netip.Addr   { return h.net.Addresses() }
func (d *Device) addresses() []netip.Addr { return d.port.Addresses() }

// Devices implements hostnet.Host. Simulated hosts have no loopback device.
func (h *Host) Devices() ([]hostnet.Device, error) {
	h.fabric.mu.Lock()
	defer h.fabric.mu.Unlock()
	all := make([]hostnet.Device, len(h.devices))
	for k, d := range h.devices {
		all[k] = hostnet.Device{Name: d.name, Addrs: slices.Clone(d.port.Prefixes()), Up: !d.port.Down}
	}
	return all, nil
}

// Watch implements hostnet.Host.
func (h *Host) Watch(ctx context.Context, changed func()) error { return h.changes.Watch(ctx, changed) }

// Speed implements socklnd.Network.
func (h *Host) Speed(device string) int {
	h.fabric.mu.Lock()
	defer h.fabric.mu.Unlock()
	if d := h.find(func(d *Device) bool { return d.name == device }); d != nil {
		return d.speed
	}
	return 0
}

func (h *Host) find(match func(*Device) bool) *Device {
	if i := slices.IndexFunc(h.devices, match); i >= 0 {
		return h.devices[i]
	}
	return nil
}

// Crash simulates a power failure of the host. Its streams and listeners disappear, and peers are not notified.
// A peer that then sends is answered by a reset. Programs on the host get ECONNABORTED and must close their
// streams. The host can be used again immediately.
func (h *Host) Crash() {
	h.fabric.mu.Lock()
	defer h.fabric.mu.Unlock()
	h.fabric.faults.crashes.Add(1)
	h.closeListeners()
	for t, s := range h.inUse {
		if s != nil {
			s.c.mu.Lock()
			s.fail(syscall.ECONNABORTED)
			s.c.mu.Unlock()
			delete(h.inUse, t)
		}
	}
}

// unuse makes the addresses and ports of a closed stream available again. Fabric.mu is held.
func (h *Host) unuse(s *stream) {
	t := tuple{s.local, s.remote}
	if h.inUse[t] == s {
		delete(h.inUse, t)
	}
}

// Listen implements socklnd.Network. Port 0 selects a free port.
func (h *Host) Listen(at netip.AddrPort, backlog int) (socklnd.Listener, error) {
	f := h.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, net.ErrClosed
	}
	if d := f.device(at.Addr()); d == nil || d.host != h {
		return nil, fmt.Errorf("simlnd: %s: listen on %s: %w", h.net.Name, at, syscall.EADDRNOTAVAIL)
	}
	for at.Port() == 0 || h.listeners[at] != nil {
		if at.Port() != 0 && at.Port() != h.lastPort {
			return nil, fmt.Errorf("simlnd: %s: listen on %s: %w", h.net.Name, at, syscall.EADDRINUSE)
		}
		at = netip.AddrPortFrom(at.Addr(), h.nextPort())
	}
	l := &listener{h: h, at: at, backlog: max(backlog, 1), ready: sync.Cond{L: &f.mu}}
	h.listeners[at] = l
	return l, nil
}

// nextPort returns the next ephemeral port.
func (h *Host) nextPort() uint16 {
	const first = 32768
	if h.lastPort++; h.lastPort < first {
		h.lastPort = first
	}
	return h.lastPort
}

func (h *Host) closeListeners() {
	for at, l := range h.listeners {
		l.closed = true
		l.ready.Broadcast()
		delete(h.listeners, at)
	}
}
