package socklnd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// Driver is the socklnd driver. It owns the acceptors, each of which serves all interfaces with its address,
// and limits the number of inbound connections that have not completed their HELLO.
type Driver struct {
	config Config
	log    *boundedlog.Log

	// group counts the goroutines of the acceptors and of handshakes.
	group sync.WaitGroup
	// handshakes limits the number of goroutines that run a handshake. It has room for all half-open
	// connections, and for as many evicted ones whose goroutine has not noticed the eviction yet.
	handshakes chan struct{}

	interfaces peering.Interfaces[*Interface]
	halfOpen   *peering.HalfOpen[newcomer]

	mu        sync.Mutex // guards the fields below
	listeners map[netip.AddrPort]*acceptor
	random    *rand.Rand
}

// New validates the configuration and returns a driver without interfaces.
func New(c Config) (*Driver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Network == nil {
		c.Network = HostNetwork()
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	return &Driver{
		config:     c,
		log:        boundedlog.New(c.Logger),
		listeners:  make(map[netip.AddrPort]*acceptor),
		handshakes: make(chan struct{}, 2*c.MaxHalfOpen),
		halfOpen:   peering.NewHalfOpen[newcomer](c.MaxHalfOpen, c.MaxHalfOpenPerSource),
		random:     rand.New(rand.NewPCG(c.Seed, c.Seed)),
	}, nil
}

// Type returns lnet.TypeTCP.
func (d *Driver) Type() lnet.NetType { return lnet.TypeTCP }

// Open brings up an interface. It finds the device and the address, starts acceptors unless another interface
// already has them on that address, and watches the link. Open returns a *lnd.ListenError if it cannot listen
// on a port, and lnd.ErrExists if the NID is in use.
func (d *Driver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	i, err := d.interfaces.Open(ctx, c, &peering.Opening[*Interface]{
		Driver: "socklnd", Type: lnet.TypeTCP, Host: d.config.Network, Log: d.log, New: d.newInterface, Listen: d.listen, Leave: d.leave,
	})
	if err != nil {
		return nil, err
	}
	i.start()
	return i, nil
}

// leave removes the interface i from the driver, and closes the acceptors that no other interface uses.
func (d *Driver) leave(i *Interface) {
	d.interfaces.Leave(i.Self)
	d.mu.Lock()
	var idle []*acceptor
	for _, at := range i.listening {
		a := d.listeners[at]
		if a == nil {
			continue
		}
		a.users = slices.DeleteFunc(a.users, func(o *Interface) bool { return o == i })
		if len(a.users) == 0 {
			delete(d.listeners, at)
			idle = append(idle, a)
		}
	}
	i.listening = nil
	d.mu.Unlock()
	for _, a := range idle {
		a.close()
	}
}

// jitter returns a random number in [0, 1).
func (d *Driver) jitter() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.Float64()
}

// newInterface creates an interface from its resolved configuration. It starts no goroutine.
func (d *Driver) newInterface(c *lnd.Config, place *peering.Place) (*Interface, error) {
	o, err := d.tuned(c.Options, place.Device.Name)
	if err != nil {
		return nil, err
	}
	i := &Interface{
		driver:      d,
		incarnation: uint64(d.config.Wall().UnixNano()),
		doubts:      make(chan struct{}, 1),
	}
	i.options.Store(o)
	i.Init(peering.Setup[*peer]{
		Place: place, Driver: "socklnd", Flow: resolveTunables(c.Tunables, d.config.Tunables), PerSource: maxConnsPerSource,
		MinPause: d.config.MinReconnect, MaxPause: d.config.MaxReconnect,
		New: i.newPeer, Reachable: i.canCall, Doubted: i.wakeReaper,
	})
	i.OpenLink(nil)
	return i, nil
}

// resolveTunables replaces unset fields of t by the driver's defaults def, and limits PeerCredits to Credits.
func resolveTunables(t, def lnd.Tunables) lnd.Tunables {
	t = t.Or(def)
	t.PeerCredits = min(t.PeerCredits, t.Credits)
	return t
}

// Close waits for the acceptors' goroutines to end. All interfaces must have been closed before, for
// example by Node.Close; otherwise Close returns an error. Calling Close is optional: the goroutines of
// a driver without interfaces end on their own.
func (d *Driver) Close() error {
	if err := d.interfaces.Close(); err != nil {
		return fmt.Errorf("socklnd: close: %w", err)
	}
	d.group.Wait()
	d.log.End()
	return nil
}
