package socklnd

import (
	"context"
	"net/netip"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/hostnet/hostnettest"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// pulled is the host's network with devices that the test sets.
type pulled struct {
	disguised
	*hostnettest.Host
}

// linked is a node that records link states.
type linked struct {
	*node
	states chan lnd.LinkState
}

func (l *linked) LinkChanged(s lnd.LinkState) { l.states <- s }

// TestLinkChanges checks that each change of the link is reported once, and that connections stay
// open.
//
// socklnd 17 (4)
func TestLinkChanges(t *testing.T) {
	address := newAddress()
	up := hostnet.Device{Name: "eth7", Up: true, Addrs: []netip.Prefix{netip.PrefixFrom(address, 32)}}
	down := up
	down.Up, down.NoCarrier = false, true
	network := &pulled{disguised{HostNetwork()}, hostnettest.New(up)}
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
	l.Counters() // takes the interface's lock, so that admitted callers see l.Interface
	t.Cleanup(l.stop)
	if l.Link() != lnd.LinkUp || l.LinkCause() != "" || l.Device() != "eth7" {
		t.Errorf("link %s at first, cause %q, on %s", l.Link(), l.LinkCause(), l.Device())
	}
	w := newPuppet(l.node).connect(protocol.Control)
	for _, dev := range []hostnet.Device{down, up, down} {
		want := lnd.LinkDown
		if dev.Up {
			want = lnd.LinkUp
		}
		network.Set(dev)
		if got := await(t, l.states, "change of the link"); got != want || l.Link() != want || (l.LinkCause() == "") != dev.Up {
			t.Errorf("%s was reported, and the link is %s, cause %q; want %s", got, l.Link(), l.LinkCause(), want)
		}
	}
	network.Set(down) // returns after the interface has examined it
	if len(l.states) != 0 {
		t.Errorf("%d more states", len(l.states))
	}
	w.put(10)
	l.arrival()
}

// failing is a network whose first three accepts fail with EMFILE.
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
