package simlnd

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// Host is a host on a fabric. It implements socklnd.Network.
type Host struct {
	fabric *Fabric
	name   string

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
	addrs []netip.Prefix
	up    bool
	speed int
}

// Name returns the host's name.
func (h *Host) Name() string { return h.name }

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
	d := &Device{host: h, name: name, up: true}
	h.devices = append(h.devices, d)
	d.assign(addrs)
	return d
}

// assign sets the device's addresses.
func (d *Device) assign(addrs []string) {
	for _, a := range addrs {
		p := parsePrefix(a)
		if o := d.host.fabric.owners[p.Addr()]; o != nil {
			panic(fmt.Sprintf("simlnd: %s of %s: address %s belongs to %s", d.name, d.host.name, p.Addr(), o.host.name))
		}
		d.host.fabric.owners[p.Addr()] = d
		d.addrs = append(d.addrs, p)
	}
}

func parsePrefix(s string) netip.Prefix {
	if strings.Contains(s, "/") {
		return netip.MustParsePrefix(s)
	}
	a := netip.MustParseAddr(s)
	if a.Is4() {
		return netip.PrefixFrom(a, 24)
	}
	return netip.PrefixFrom(a, 64)
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
	if d.up == up {
		return
	}
	d.up = up
	if !up {
		f.faults.devicesDown.Add(1)
	}
	f.refresh()
	d.host.changed()
}

// SetAddrs replaces the device's addresses.
func (d *Device) SetAddrs(addrs ...string) {
	f := d.host.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range d.addrs {
		delete(f.owners, p.Addr())
	}
	d.addrs = nil
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

func (h *Host) addresses() []netip.Addr {
	var all []netip.Addr
	for _, d := range h.devices {
		all = append(all, d.addresses()...)
	}
	return all
}

func (d *Device) addresses() []netip.Addr {
	all := make([]netip.Addr, len(d.addrs))
	for i, p := range d.addrs {
		all[i] = p.Addr()
	}
	return all
}

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
		return d.up && len(d.addrs) > 0
	})
	if d == nil {
		return socklnd.Device{}, fmt.Errorf("simlnd: %s: device %q, nid %q: %w", h.name, name, nid, syscall.ENODEV)
	}
	return socklnd.Device{Name: d.name, Addrs: slices.Clone(d.addrs), Up: d.up, SpeedMbps: d.speed}, nil
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
	if d := f.owners[at.Addr()]; d == nil || d.host != h {
		return nil, fmt.Errorf("simlnd: %s: listen on %s: %w", h.name, at, syscall.EADDRNOTAVAIL)
	}
	for at.Port() == 0 || h.listeners[at] != nil {
		if at.Port() != 0 && at.Port() != h.lastPort {
			return nil, fmt.Errorf("simlnd: %s: listen on %s: %w", h.name, at, syscall.EADDRINUSE)
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
