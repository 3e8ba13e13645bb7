package hostnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Device is the state of a network device at one moment.
type Device struct {
	Name string
	// Index is the device's index, which does not change when the device is renamed. It is 0 if it is unknown.
	Index int
	// Addrs are the device's addresses with their subnets, in the host's order.
	Addrs []netip.Prefix
	// Off means that the device is switched off. Up is then not set.
	Off bool
	// NoCarrier means that the device is switched on and has no carrier. Up is then not set.
	NoCarrier bool
	// Up means that the device is switched on, operational, and has a carrier.
	Up bool
	// Loopback means that this is the host's loopback device.
	Loopback bool
	// Moved means that the device has left the network namespace while it was watched. Only Index is set
	// besides.
	Moved bool
}

// Has reports whether a is an address of the device. A loopback device has all addresses of its IPv4
// subnet.
func (d *Device) Has(a netip.Addr) bool {
	return slices.ContainsFunc(d.Addrs, func(p netip.Prefix) bool {
		return p.Addr() == a || d.Loopback && a.Is4() && p.Contains(a)
	})
}

// IsAlias reports whether this is an alias of a device, such as "eth0:1".
func (d *Device) IsAlias() bool { return isAlias(d.Name) }

func isAlias(name string) bool { return strings.Contains(name, ":") }

// WaitsForLink reports whether the device is switched on and its link is not up. It returns false for the
// loopback device, which has no link.
func (d *Device) WaitsForLink() bool { return !d.Off && !d.Up && !d.Loopback && !d.Moved }

// usable reports whether the device can be chosen for an NI whose configuration names no device.
func (d *Device) usable() bool { return d.Up && !d.Loopback && slices.ContainsFunc(d.Addrs, global) }

// global reports whether an address is not link-local.
func global(p netip.Prefix) bool { return !p.Addr().IsLinkLocalUnicast() }

// addresses returns the device's addresses as text.
func (d *Device) addresses() string {
	if len(d.Addrs) == 0 {
		return "none"
	}
	all := make([]string, len(d.Addrs))
	for k, p := range d.Addrs {
		all[k] = p.Addr().String()
	}
	return strings.Join(all, ", ")
}

// downCause returns why an NI with the given address is down on the device, and how to fix it. It returns "" if
// the device is up and has the address.
func (d *Device) downCause(address netip.Addr) string {
	switch {
	case d.Off:
		return fmt.Sprintf("%s is switched off: ip link set %s up", d.Name, d.Name)
	case d.NoCarrier:
		return fmt.Sprintf("%s has no carrier: check its cable and the port at the other end", d.Name)
	case !d.Up:
		return fmt.Sprintf("%s is not operational: see ip -d link show %s", d.Name, d.Name)
	case !d.Has(address):
		return fmt.Sprintf("%s has lost the address %s: add it again (ip address add), or delete the NI", d.Name, address)
	}
	return ""
}
