package hostnet

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/lnetd/lnetd/lnet"
)

// Host is a host with network devices: this host (Kernel), or a host in memory. It is safe for concurrent use.
type Host interface {
	// Devices returns the devices in the host's order. An alias of a device, such as "eth0:1", is a separate
	// entry after the device. It has only the addresses of the alias.
	Devices() ([]Device, error)

	// Watch calls changed immediately, and again after each event that may have changed a device, an address or
	// an RDMA device. Only one call runs at a time. Events during a call lead to one more call. Watch returns
	// nil when ctx is done, and before that only if an error occurs.
	Watch(ctx context.Context, changed func()) error
}

// Find returns the host's device with the given name. If name is empty, it returns the device that has the
// address. If address is invalid too, it returns the first device that is usable: it is up, is not the loopback
// device, and has an address that is not link-local. If no such device exists, the error matches
// syscall.ENODEV.
func Find(h Host, name string, address netip.Addr) (Device, error) {
	all, err := h.Devices()
	if err != nil {
		return Device{}, err
	}
	at := slices.IndexFunc(all, func(d Device) bool {
		switch {
		case name != "":
			return d.Name == name
		case address.IsValid():
			return d.Has(address)
		}
		return d.usable()
	})
	switch {
	case at >= 0:
		return all[at], nil
	case name != "":
		return Device{}, fmt.Errorf("%q: %w", name, errNoDevice{})
	case address.IsValid():
		return Device{}, fmt.Errorf("address %s: %w", address, errNoDevice{})
	}
	return Device{}, fmt.Errorf("first usable device: %w", errNoDevice{})
}

// Choose returns the device and the address for an NI whose configuration contains a device, a NID or both. The
// address is the one in the NID. Without a NID it is the device's first IPv4 address or, if the device has only
// IPv6 addresses, the first that is not link-local (socklnd 17). The device may be down.
func Choose(h Host, device string, nid lnet.NID) (Device, netip.Addr, error) {
	dev, err := Find(h, device, nid.IP())
	if err != nil {
		return Device{}, netip.Addr{}, err
	}
	if want := nid.IP(); want.IsValid() {
		if !dev.Has(want) {
			return dev, netip.Addr{}, fmt.Errorf("device %s has no address %s; its addresses: %s", dev.Name, want, dev.addresses())
		}
		return dev, want, nil
	}
	at := slices.IndexFunc(dev.Addrs, func(p netip.Prefix) bool { return p.Addr().Is4() })
	if at < 0 {
		at = slices.IndexFunc(dev.Addrs, global)
	}
	if at < 0 {
		return dev, netip.Addr{}, fmt.Errorf("device %s has no usable address", dev.Name)
	}
	return dev, dev.Addrs[at].Addr(), nil
}

// Usable returns the NID and the device that an NI on net would have if it were opened now, as Choose
// determines them. It returns an error if the device does not exist, is switched off, or does not have the
// address.
func Usable(h Host, net lnet.Net, device string, nid lnet.NID) (lnet.NID, string, error) {
	dev, address, err := Choose(h, device, nid)
	switch {
	case dev.Off:
		return lnet.NID{}, dev.Name, fmt.Errorf("device %s is down: %w", dev.Name, syscall.ENETDOWN)
	case err != nil && dev.Name != "":
		return lnet.NID{}, dev.Name, fmt.Errorf("%w: %w", err, syscall.EADDRNOTAVAIL)
	case err != nil:
		return lnet.NID{}, "", err
	}
	return lnet.NIDFromIP(net, address), dev.Name, nil
}

// errNoDevice is an error that matches syscall.ENODEV and has a clearer text.
type errNoDevice struct{}

func (errNoDevice) Error() string { return "no such network device" }

// As makes errors.As find a syscall.Errno.
func (errNoDevice) As(target any) bool {
	e, ok := target.(*syscall.Errno)
	if ok {
		*e = syscall.ENODEV
	}
	return ok
}

// Is makes errors.Is find syscall.ENODEV.
func (errNoDevice) Is(target error) bool { return target == syscall.ENODEV }
