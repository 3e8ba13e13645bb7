package socklnd

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// pulled is the host's network with a device that changes as the test says.
type pulled struct {
	disguised
	mu     sync.Mutex
	device Device
	err    error
	events chan struct{}
	// at are devices by index, with which the network is Indexed.
	at map[int]Device
	// lost is the error for an index without a device.
	lost error
}

// indexedPulled is pulled with devices that have indexes.
type indexedPulled struct{ *pulled }

func (p indexedPulled) Device(name string, _ lnet.NID) (Device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.at {
		if d.Name == name {
			return d, nil
		}
	}
	return Device{}, errNoDevice
}

func (p indexedPulled) DeviceAt(index int) (Device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d, ok := p.at[index]; ok {
		return d, nil
	}
	return Device{}, p.lost
}

func (p indexedPulled) changeAll(lost error, devices ...Device) {
	p.mu.Lock()
	p.at, p.lost = map[int]Device{}, lost
	for _, d := range devices {
		p.at[d.Index] = d
	}
	p.mu.Unlock()
	p.events <- struct{}{}
	p.events <- struct{}{} // the change has been looked at
}

func (p *pulled) Device(string, lnet.NID) (Device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.device, p.err
}

func (p *pulled) Watch(ctx context.Context, changed func()) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.events:
			changed()
		}
	}
}

func (p *pulled) change(d Device, err error) {
	p.mu.Lock()
	p.device, p.err = d, err
	p.mu.Unlock()
	p.events <- struct{}{}
}

// linked also records link states.
type linked struct {
	*node
	states chan lnd.LinkState
}

func (l *linked) LinkChanged(s lnd.LinkState) { l.states <- s }

// TestLinkStates shows which devices are fatal (socklnd 17), that each change is
// told once, and that connections stay.
//
// socklnd 17 (4)
func TestLinkStates(t *testing.T) {
	address, other := newAddress(), newAddress()
	has := func(up bool, a netip.Addr) Device {
		return Device{Name: "eth7", Up: up, Addrs: []netip.Prefix{netip.PrefixFrom(a, 32)}}
	}
	network := &pulled{disguised: disguised{HostNetwork()}, device: has(true, address), events: make(chan struct{})}
	c := DefaultConfig()
	c.Network, c.AcceptPort, c.AcceptPortBulk = network, testPort, testPort
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l := &linked{&node{t: t, driver: d, arrived: make(chan *arrival, 10), down: make(chan lnd.PeerDown, 10)}, make(chan lnd.LinkState, 10)}
	i, err := d.Open(context.Background(), lnd.Config{Net: tcp, Device: "eth7", Upper: l})
	if err != nil {
		t.Fatal(err)
	}
	l.Interface = i.(*Interface)
	l.Counters() // takes a lock, after which whoever is admitted sees the line above
	t.Cleanup(l.stop)
	if l.Link() != lnd.LinkUp {
		t.Error("the link is down from the beginning")
	}
	w := newPuppet(l.node).connect(protocol.Control)

	for _, test := range []struct {
		name   string
		device Device
		err    error
		want   lnd.LinkState
	}{
		{"no carrier", has(false, address), nil, lnd.LinkDown},
		{"back", has(true, address), nil, lnd.LinkUp},
		{"address lost", has(true, other), nil, lnd.LinkDown},
		{"device gone", Device{}, errors.New("no such device"), lnd.LinkDown},
		{"nothing changed", has(true, address), nil, lnd.LinkUp},
		{"still up", has(true, address), nil, lnd.LinkUp},
		{"down again", has(false, address), nil, lnd.LinkDown},
	} {
		before := l.Link()
		network.change(test.device, test.err)
		if test.want != before {
			if got := await(t, l.states, "change of the link: "+test.name); got != test.want {
				t.Errorf("%s: told %s, want %s", test.name, got, test.want)
			}
		}
	}
	network.events <- struct{}{} // the last change has been looked at
	if len(l.states) != 0 || l.Link() != lnd.LinkDown {
		t.Errorf("%d more states, link %s", len(l.states), l.Link())
	}
	w.put(10)
	l.arrival()
}

// TestLinkCauses shows each cause of a link that is down, with what helps, and that an
// interface follows its device to another name, and its name to another device if that has
// the address.
//
// decisions 98
func TestLinkCauses(t *testing.T) {
	address, other := newAddress(), newAddress()
	dev := func(index int, name string, up bool, a netip.Addr) Device {
		return Device{Name: name, Index: index, Up: up, Addrs: []netip.Prefix{netip.PrefixFrom(a, 32)}}
	}
	off, noCarrier := dev(7, "eth7", false, address), dev(7, "eth7", false, address)
	off.Off, noCarrier.NoCarrier = true, true
	network := indexedPulled{&pulled{disguised: disguised{HostNetwork()}, events: make(chan struct{}),
		at: map[int]Device{7: dev(7, "eth7", true, address)}}}
	c := DefaultConfig()
	c.Network, c.AcceptPort, c.AcceptPortBulk = network, testPort, testPort
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l := &linked{&node{t: t, driver: d, arrived: make(chan *arrival, 10), down: make(chan lnd.PeerDown, 10)}, make(chan lnd.LinkState, 100)}
	i, err := d.Open(context.Background(), lnd.Config{Net: tcp, Device: "eth7", Upper: l})
	if err != nil {
		t.Fatal(err)
	}
	l.Interface = i.(*Interface)
	l.Counters()
	t.Cleanup(l.stop)
	for _, test := range []struct {
		name    string
		devices []Device
		lost    error
		device  string // as it is called then
		want    string // in the cause; empty: up
	}{
		{"as it was", []Device{dev(7, "eth7", true, address)}, nil, "eth7", ""},
		{"switched off", []Device{off}, nil, "eth7", "eth7 is switched off: ip link set eth7 up"},
		{"no carrier", []Device{noCarrier}, nil, "eth7", "eth7 has no carrier: check its cable"},
		{"not operational", []Device{dev(7, "eth7", false, address)}, nil, "eth7", "eth7 is not operational"},
		{"address lost", []Device{dev(7, "eth7", true, other)}, nil, "eth7", "eth7 has lost the address " + address.String()},
		{"removed", nil, errNoDevice, "eth7", "eth7 was removed: restore it"},
		{"moved", nil, ErrDeviceMoved, "eth7", "eth7 was moved to another network namespace: move it back"},
		{"another device with the name", []Device{dev(9, "eth7", true, other)}, errNoDevice, "eth7", "eth7 was removed"},
		{"back with another index", []Device{dev(9, "eth7", true, address)}, errNoDevice, "eth7", ""},
		{"renamed", []Device{dev(9, "uplink0", true, address)}, errNoDevice, "uplink0", ""},
		{"renamed and switched off", []Device{{Name: "uplink1", Index: 9, Off: true, Addrs: dev(9, "", false, address).Addrs}}, nil, "uplink0", "uplink1 is switched off"},
		{"switched on", []Device{dev(9, "uplink1", true, address)}, nil, "uplink1", ""},
		{"the old name is another device's", []Device{dev(9, "uplink1", true, address), dev(10, "uplink0", true, other)}, nil, "uplink1", ""},
		{"names exchanged", []Device{dev(9, "uplink0", true, address), dev(10, "uplink1", true, other)}, nil, "uplink0", ""},
		{"the address went to another device", []Device{dev(9, "uplink0", true, other), dev(10, "uplink1", true, address)}, nil, "uplink0", "uplink0 has lost the address"},
	} {
		network.changeAll(test.lost, test.devices...)
		got := l.LinkCause()
		if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") || l.Device() != test.device {
			t.Errorf("%s: cause %q, device %s; want %q, %s", test.name, got, l.Device(), test.want, test.device)
		}
		if up := l.Link() == lnd.LinkUp; up != (test.want == "") {
			t.Errorf("%s: link %s", test.name, l.Link())
		}
	}
}

// failing is a network whose first accepts fail, as without descriptors.
type failing struct{ disguised }

func (f failing) Listen(at netip.AddrPort, backlog int) (Listener, error) {
	l, err := f.disguised.Listen(at, backlog)
	return &failingListener{Listener: l, left: 3}, err
}

type failingListener struct {
	Listener
	left int
}

func (l *failingListener) Accept() (Stream, error) {
	if l.left > 0 {
		l.left--
		return nil, syscall.EMFILE
	}
	return l.Listener.Accept()
}

func TestTheAcceptorOutlivesFailures(t *testing.T) {
	n := start(t, func(c *Config) { c.Network = failing{disguised{HostNetwork()}} })
	newPuppet(n).connect(protocol.Control).put(10)
	n.arrival()
}
