package simlnd

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/lnd/simlnd/network"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// Host is a host on a fabric. It implements socklnd.Network.
type Host struct {
	fabric *Fabric
	net    *network.Host

	// Guarded by Fabric.mu.
	devices   []*Device
	listeners map[netip.AddrPort]*listener
	inUse     map[tuple]*stream // nil while being connected
	lastPort  uint16
	pokes     []chan struct{}
}

var _ socklnd.Network = (*Host)(nil)

// tuple identifies a stream on a host.
type tuple struct{ local, remote netip.AddrPort }

// Place is a *Host, which stands for all its addresses, or a *Device.
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
	h.changed()
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

// SetUp takes the device up or down. While it is down it neither sends nor receives. Streams wait until
// they time out.
func (d *Device) SetUp(up bool) {
	f := d.host.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.net.SetDown(d.port, !up) {
		f.refresh()
		d.host.changed()
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
	d.host.changed()
}

// SetSpeed sets the link speed of the device in Mbit/s. 0 means unknown.
func (d *Device) SetSpeed(mbps int) {
	d.host.fabric.mu.Lock()
	defer d.host.fabric.mu.Unlock()
	d.speed = mbps
	d.host.changed()
}

func (h *Host) addresses() []netip.Addr   { return h.net.Addresses() }
func (d *Device) addresses() []netip.Addr { return d.port.Addresses() }

// Device implements socklnd.Network. Simulated hosts have no loopback device.
func (h *Host) Device(name string, nid lnet.NID) (socklnd.Device, error) {
	h.fabric.mu.Lock()
	defer h.fabric.mu.Unlock()
	d := h.find(func(d *Device) bool {
		switch {
		case name != "":
			return d.name == name
		case !nid.IsZero():
			return slices.Contains(d.addresses(), nid.IP())
		}
		return !d.port.Down && len(d.port.Prefixes()) > 0
	})
	if d == nil {
		return socklnd.Device{}, fmt.Errorf("simlnd: %s: device %q, nid %q: %w", h.net.Name, name, nid, syscall.ENODEV)
	}
	return socklnd.Device{Name: d.name, Addrs: slices.Clone(d.port.Prefixes()), Up: !d.port.Down, SpeedMbps: d.speed}, nil
}

func (h *Host) find(match func(*Device) bool) *Device {
	if i := slices.IndexFunc(h.devices, match); i >= 0 {
		return h.devices[i]
	}
	return nil
}

// Watch implements socklnd.Network.
func (h *Host) Watch(ctx context.Context, changed func()) error {
	poke := make(chan struct{}, 1)
	h.fabric.mu.Lock()
	h.pokes = append(h.pokes, poke)
	h.fabric.mu.Unlock()
	defer func() {
		h.fabric.mu.Lock()
		defer h.fabric.mu.Unlock()
		i := slices.Index(h.pokes, poke)
		h.pokes = slices.Delete(h.pokes, i, i+1)
	}()
	changed() // changes before this call
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.fabric.done:
			return net.ErrClosed
		case <-poke:
			changed()
		}
	}
}

// changed notifies the watchers of a device change. Fabric.mu is held.
func (h *Host) changed() {
	for _, poke := range h.pokes {
		select {
		case poke <- struct{}{}:
		default: // a notification is pending already
		}
	}
}

// Crash simulates a power failure of the host. Its streams and listeners are gone without notice to
// peers. A peer that sends is answered with a reset. Programs on the host get ECONNABORTED and must be
// closed. After that the host can be used again.
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

// unuse frees the addresses of a stream. Fabric.mu is held.
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
