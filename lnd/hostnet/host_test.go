package hostnet_test

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/hostnet/hostnettest"
	"github.com/lnetd/lnetd/lnet"
)

// A device is found by its name, by an address, or as the first usable one. An address becomes the NID as
// follows: what is asked for, else the first IPv4 address, else the first IPv6 address that is not
// link-local.
//
// socklnd 17 (1)
func TestChoose(t *testing.T) {
	local, far := netip.MustParseAddr("fe80::5"), netip.MustParseAddr("2001:db8::5")
	lo := device(1, "lo", netip.MustParseAddr("127.0.0.1"))
	lo.Loopback, lo.Addrs[0] = true, netip.MustParsePrefix("127.0.0.1/8")
	down := device(2, "down0", netip.MustParseAddr("10.0.0.9"))
	down.Up, down.NoCarrier = false, true
	off := device(3, "off0", netip.MustParseAddr("10.0.0.8"))
	off.Up, off.Off = false, true
	host := hostnettest.New(lo, down, off, device(4, "six0", local), device(5, "six1", local, far),
		device(6, "eth0", local, far, own, other), device(6, "eth0:1", other), device(7, "bare0"), hostnet.Device{Index: 8, Moved: true})
	for _, c := range []struct {
		device, address string
		want            string // device and address, or the error
		usable          syscall.Errno
	}{
		{"eth0", "", "eth0 10.0.0.1", 0},
		{"eth0", "10.0.0.2", "eth0 10.0.0.2", 0},
		{"eth0", "2001:db8::5", "eth0 2001:db8::5", 0},
		{"eth0:1", "", "eth0:1 10.0.0.2", 0},
		{"", "10.0.0.2", "eth0 10.0.0.2", 0},
		{"", "127.9.9.9", "lo 127.9.9.9", 0},
		{"", "", "six1 2001:db8::5", 0},
		{"down0", "", "down0 10.0.0.9", 0},
		{"off0", "", "off0 10.0.0.8", syscall.ENETDOWN},
		{"eth0", "10.0.0.3", "device eth0 has no address 10.0.0.3; its addresses: fe80::5, 2001:db8::5, 10.0.0.1, 10.0.0.2", syscall.EADDRNOTAVAIL},
		{"bare0", "10.0.0.3", "device bare0 has no address 10.0.0.3; its addresses: none", syscall.EADDRNOTAVAIL},
		{"bare0", "", "device bare0 has no usable address", syscall.EADDRNOTAVAIL},
		{"six0", "", "device six0 has no usable address", syscall.EADDRNOTAVAIL},
		{"eth9", "", `"eth9": no such network device`, syscall.ENODEV},
		{"eth0:9", "", `"eth0:9": no such network device`, syscall.ENODEV},
		{"", "10.9.9.9", "address 10.9.9.9: no such network device", syscall.ENODEV},
	} {
		var asked lnet.NID
		if c.address != "" {
			asked = lnet.NIDFromIP(nid.Net(), netip.MustParseAddr(c.address))
		}
		dev, address, err := hostnet.Choose(host, c.device, asked)
		got := dev.Name + " " + address.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, %q: %s, want %s", c.device, c.address, got, c.want)
		}
		id, name, err := hostnet.Usable(host, nid.Net(), c.device, asked)
		switch {
		case c.usable == 0 && (err != nil || id != lnet.NIDFromIP(nid.Net(), address) || name != dev.Name):
			t.Errorf("%q, %q is usable as %s on %s, %v", c.device, c.address, id, name, err)
		case c.usable != 0 && !errors.Is(err, c.usable):
			t.Errorf("%q, %q: %v, want %v", c.device, c.address, err, c.usable)
		}
		if e, ok := errors.AsType[syscall.Errno](err); c.usable != 0 && (!ok || e != c.usable) {
			t.Errorf("%q, %q: errno %v, want %v", c.device, c.address, e, c.usable)
		}
	}
	host.Set(lo, down)
	if _, err := hostnet.Find(host, "", netip.Addr{}); err == nil || !strings.HasPrefix(err.Error(), "first usable device: no such") {
		t.Errorf("nothing is usable: %v", err)
	}
	host.Fail(syscall.ENOMEM)
	if _, _, err := hostnet.Choose(host, "eth0", lnet.NID{}); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("without devices: %v", err)
	}
}

// A device waits for its link if it is switched on and not up. The loopback device never waits.
func TestWaitsForLink(t *testing.T) {
	for _, c := range []struct {
		dev  hostnet.Device
		want bool
	}{
		{hostnet.Device{Off: true}, false},
		{hostnet.Device{NoCarrier: true}, true},
		{hostnet.Device{}, true},
		{hostnet.Device{Up: true}, false},
		{hostnet.Device{Loopback: true}, false},
		{hostnet.Device{Moved: true}, false},
	} {
		if got := c.dev.WaitsForLink(); got != c.want {
			t.Errorf("%+v: %t", c.dev, got)
		}
	}
}
