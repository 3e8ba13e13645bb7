package fabric

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/simlnd/network"
)

// Host is a machine on a fabric. It implements hostnet.Host: each of its addresses belongs to a network device,
// which is always up.
type Host struct {
	fabric  *Fabric
	net     *network.Host
	changes hostnet.Changes

	// Guarded by Fabric.mu.
	devices   []*Device
	processes []*Process
	listeners map[netip.AddrPort]*id
	lastPort  uint16 // last local port that was chosen for a connection
}

// Place is what a fault applies to: all addresses of a *Host, of a *Device or of a *Port.
type Place interface {
	addresses() []netip.Addr // Fabric.mu is held
}

// Device is an RDMA device of a host.
type Device struct {
	host    *Host
	name    string
	ports   []*Port
	removed bool
	refusal error // error of Register, set by FailRegister
	inline  int   // largest number of bytes that queue pairs copy when they are posted
}

// maxInline is the largest number of inline bytes of a queue pair, as long as LimitInline is not called.
const maxInline = 512

// Port is a port of a device. It may have several addresses.
type Port struct {
	device *Device
	number int // from 1
	net    *network.Port
}

// Host returns the host with the given name, and creates it if it does not exist. For each address it adds a
// device with one port. The devices are named "rxe0" and so on. Host panics if an address is malformed or in
// use.
func (f *Fabric) Host(name string, addrs ...string) *Host {
	f.lock()
	defer f.unlock()
	n, created := f.net.Host(name)
	if created {
		n.Owner = &Host{fabric: f, net: n, listeners: make(map[netip.AddrPort]*id)}
	}
	h := n.Owner.(*Host)
	for _, a := range addrs {
		h.addDevice(a)
	}
	return h
}

// Name returns the host's name.
func (h *Host) Name() string { return h.net.Name }

// Devices implements hostnet.Host.
func (h *Host) Devices() ([]hostnet.Device, error) {
	h.fabric.lock()
	defer h.fabric.unlock()
	var all []hostnet.Device
	for _, a := range h.addresses() {
		addrs := []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
		// An address that moves to another RDMA device keeps its network device.
		if !slices.ContainsFunc(all, func(d hostnet.Device) bool { return d.Addrs[0] == addrs[0] }) {
			all = append(all, hostnet.Device{Name: fmt.Sprint("ib", len(all)), Index: len(all) + 1, Up: true, Addrs: addrs})
		}
	}
	return all, nil
}

// Watch implements hostnet.Host.
func (h *Host) Watch(ctx context.Context, changed func()) error { return h.changes.Watch(ctx, changed) }

// AddDevice adds a device to the host, with one port for each address.
func (h *Host) AddDevice(addrs ...string) *Device {
	h.fabric.lock()
	defer h.fabric.unlock()
	return h.addDevice(addrs...)
}

func (h *Host) addDevice(addrs ...string) *Device {
	d := &Device{host: h, name: fmt.Sprint("rxe", len(h.devices)), inline: maxInline}
	h.devices = append(h.devices, d)
	for k, a := range addrs {
		p := &Port{device: d, number: k + 1}
		p.net = h.fabric.net.AddPort(h.net, p)
		d.ports = append(d.ports, p)
		h.fabric.net.Assign(p.net, a)
	}
	h.changes.Notify()
	return d
}

// Device returns the k-th device of the host, from 0.
func (h *Host) Device(k int) *Device {
	h.fabric.lock()
	defer h.fabric.unlock()
	return h.devices[k]
}

// Port returns the n-th port of the device, from 1.
func (d *Device) Port(n int) *Port { return d.ports[n-1] }

// Name returns the device's name, which is unique on the host.
func (d *Device) Name() string { return d.name }

// AddAddress adds an address to the port.
func (p *Port) AddAddress(addr string) {
	p.device.host.fabric.lock()
	defer p.device.host.fabric.unlock()
	p.device.host.fabric.net.Assign(p.net, addr)
	p.device.host.changes.Notify()
}

// SetUp takes the port up or down. Processes get the event verbs.AsyncPortActive or AsyncPortError. Connections
// stay, but their messages do not arrive while the port is down.
func (p *Port) SetUp(up bool) {
	f := p.device.host.fabric
	f.lock()
	defer f.unlock()
	if !f.net.SetDown(p.net, !up) {
		return
	}
	kind := verbs.AsyncPortActive
	if !up {
		kind = verbs.AsyncPortError
	}
	p.device.notify(verbs.AsyncEvent{Kind: kind, Port: uint32(p.number)})
}

// Inject delivers a device event to all processes that have opened the device.
func (d *Device) Inject(e verbs.AsyncEvent) {
	d.host.fabric.lock()
	defer d.host.fabric.unlock()
	d.notify(e)
}

func (d *Device) notify(e verbs.AsyncEvent) {
	for _, p := range d.host.processes {
		if o := p.devices[d]; o != nil {
			o.push(e)
		}
	}
}

// ChangeAddress delivers verbs.EventAddrChange to the IDs on the port, as when a bond fails over to another
// port.
func (p *Port) ChangeAddress() {
	f := p.device.host.fabric
	f.lock()
	defer f.unlock()
	for _, proc := range p.device.host.processes {
		for _, i := range proc.sortedIDs() {
			if i.port == p {
				i.push(verbs.Event{Kind: verbs.EventAddrChange})
			}
		}
	}
}

// Remove removes the device. Its IDs get verbs.EventDeviceRemoval, and processes that have opened it
// verbs.AsyncDeviceFatal. Its queue pairs fail without completions, and peers are not notified. Its addresses
// have no device until they are added to another one.
func (d *Device) Remove() {
	f := d.host.fabric
	f.lock()
	defer f.unlock()
	if d.removed {
		return
	}
	d.removed = true
	d.host.changes.Notify()
	for _, p := range d.ports {
		p.net.Removed = true
	}
	f.faults.removals.Add(1)
	for _, p := range d.host.processes {
		for _, i := range p.sortedIDs() {
			if i.port == nil || i.port.device != d {
				continue
			}
			if i.qp != nil {
				i.qp.lose()
			}
			i.push(verbs.Event{Kind: verbs.EventDeviceRemoval})
		}
	}
	d.notify(verbs.AsyncEvent{Kind: verbs.AsyncDeviceFatal})
}

// Released reports whether processes have released the removed device: no process has it open, or has IDs on
// it. A kernel waits for this before it removes a device.
func (d *Device) Released() bool {
	d.host.fabric.lock()
	defer d.host.fabric.unlock()
	for _, p := range d.host.processes {
		if p.devices[d] != nil || slices.ContainsFunc(p.sortedIDs(), func(i *id) bool { return i.port != nil && i.port.device == d }) {
			return false
		}
	}
	return true
}

// Crash ends the host's processes without notifying their peers, as a power failure does. The host is off until
// the next call of Open.
func (h *Host) Crash() {
	h.fabric.lock()
	defer h.fabric.unlock()
	h.fabric.faults.crashes.Add(1)
	h.net.Off = true
	h.crash()
}

// crash ends the host's processes without notifying their peers. The lock is held.
func (h *Host) crash() {
	for _, p := range slices.Clone(h.processes) {
		p.end(func(i *id) { i.vanish() })
	}
}

func (p *Port) addresses() []netip.Addr { return p.net.Addresses() }
func (h *Host) addresses() []netip.Addr { return h.net.Addresses() }

func (d *Device) addresses() (addrs []netip.Addr) {
	for _, p := range d.ports {
		addrs = append(addrs, p.addresses()...)
	}
	return addrs
}
