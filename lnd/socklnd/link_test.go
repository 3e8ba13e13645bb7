package socklnd

import (
	"context"
	"errors"
	"net/netip"
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

// linked hears of link states too.
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
