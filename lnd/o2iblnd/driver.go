package o2iblnd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// Driver is the o2iblnd driver. It owns the event channel, the devices with the memory and queues on them, and
// the listeners, each of which serves all interfaces with its address.
type Driver struct {
	config  Config
	log     *boundedlog.Log
	workers int // number of processors: a device needs no more completion queues, unless they are full

	// group counts the goroutines of the channel, of devices and of completion queues.
	group sync.WaitGroup

	// binding serializes changes of the channel and the listeners.
	binding  sync.Mutex
	channel  verbs.Channel // nil while no interface is open
	owning   sync.Mutex    // held from the creation of an ID until its owner is set
	opening  sync.Mutex    // held while a device is opened or closed
	lastTime uint64        // incarnation of the interface that was opened last

	interfaces peering.Interfaces[*Interface]
	halfOpen   *peering.HalfOpen[*conn] // inbound connections that are not established

	mu        sync.Mutex // guards the fields below
	listeners map[netip.AddrPort]*listener
	devices   map[verbs.Device]*device
	lost      []error // a description of the memory that was in use when its device was closed
}

// New validates the configuration and returns a driver without interfaces.
func New(c Config) (*Driver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Provider == nil {
		return nil, errors.New("o2iblnd: Config.Provider is not set")
	}
	if c.Host == nil {
		c.Host = &hostnet.Kernel{}
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	return &Driver{
		config:    c,
		log:       boundedlog.New(c.Logger),
		workers:   runtime.GOMAXPROCS(0),
		listeners: make(map[netip.AddrPort]*listener),
		devices:   make(map[verbs.Device]*device),
		halfOpen:  peering.NewHalfOpen[*conn](c.MaxHalfOpen, c.MaxHalfOpenPerSource),
	}, nil
}

// Type returns lnet.TypeO2IB.
func (d *Driver) Type() lnet.NetType { return lnet.TypeO2IB }

// Open brings up an interface. It finds the address and the RDMA device that it belongs to, and listens
// there unless another interface already does. Open returns a *lnd.ListenError if it cannot listen on the
// service, and lnd.ErrExists if the NID is in use.
func (d *Driver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	i, err := d.interfaces.Open(ctx, c, &peering.Opening[*Interface]{
		Driver: "o2iblnd", Type: lnet.TypeO2IB, Host: d.config.Host, Log: d.log, New: d.newInterface, Listen: d.bind, Leave: d.leave,
	})
	if err != nil {
		return nil, err
	}
	i.start()
	return i, nil
}

// newInterface creates an interface from its resolved configuration. It starts no goroutine.
func (d *Driver) newInterface(c *lnd.Config, place *peering.Place) (*Interface, error) {
	if !place.Address.Is4() {
		return nil, fmt.Errorf("device %s, address %s: o2ib nets only support IPv4 addresses (o2iblnd 2.1)", place.Device.Name, place.Address)
	}
	o, err := d.tuned(c.Options)
	if err != nil {
		return nil, err
	}
	i := &Interface{
		driver: d,
		stamp:  d.stamp(),
		regs:   make(map[*registration]struct{}),
		kept:   make(chan struct{}),
	}
	i.keeper.wake = make(chan struct{}, 1)
	i.options.Store(o)
	i.Init(peering.Setup[*peer]{
		Place: place, Driver: "o2iblnd", Flow: resolveTunables(c.Tunables, d.config.Tunables), PerSource: maxConnsPerSource,
		MinPause: d.config.RedialPause, MaxPause: d.config.RedialPause,
		New: i.newPeer, Reachable: i.reachable, Doubted: func() { i.keeper.do(task{kind: taskDoubts}) }, Make: i.make,
	})
	return i, nil
}

// stamp returns the incarnation for a new interface. No other interface of the driver has the same one.
func (d *Driver) stamp() uint64 {
	d.binding.Lock()
	defer d.binding.Unlock()
	d.lastTime = protocol.NewStamp(d.config.Wall(), d.lastTime)
	return d.lastTime
}

// resolveTunables replaces unset fields of t by the driver's defaults def. It limits PeerCredits to the
// permitted range, and makes Credits at least as large.
func resolveTunables(t, def lnd.Tunables) lnd.Tunables {
	t = t.Or(def)
	t.PeerCredits = min(max(t.PeerCredits, minPeerCredits), protocol.MaxDepth)
	t.Credits = max(t.Credits, t.PeerCredits)
	return t
}

// minPeerCredits is the minimum of peer_credits (o2iblnd 15).
const minPeerCredits = 8

// leave removes i from the driver. If no interface remains, it closes the event channel.
func (d *Driver) leave(i *Interface) {
	d.unbind(i)
	d.interfaces.Leave(i.Self)
	d.binding.Lock()
	defer d.binding.Unlock()
	if d.interfaces.Len() == 0 && d.channel != nil {
		if err := d.channel.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
			d.log.Warn("cannot close the event channel of the RDMA connection manager", "cause", err)
			return
		}
		d.channel = nil
	}
}

// interfacesOn returns the interfaces that are bound to a listener on the device.
func (d *Driver) interfacesOn(dev *device) (list []*Interface) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.listeners {
		if l.dev == dev {
			list = append(list, l.users...)
		}
	}
	return list
}

// connOf returns the connection that has the queue pair with the given number on the device, or nil.
func (d *Driver) connOf(dev *device, qpn uint32) *conn {
	d.mu.Lock()
	queues := slices.Clone(dev.queues)
	d.mu.Unlock()
	for _, q := range queues {
		if c := q.byNumber(qpn); c != nil {
			return c
		}
	}
	return nil
}

// byNumber returns the connection in q that has the queue pair with the given number, or nil.
func (q *queue) byNumber(qpn uint32) *conn {
	q.mu.RLock()
	defer q.mu.RUnlock()
	for _, p := range q.conns {
		if p.c != nil && p.c.id.QPN() == qpn {
			return p.c
		}
	}
	return nil
}

// Close waits until the goroutines of devices and of the channel have ended. All interfaces must have been
// closed before; otherwise it returns an error. It also returns an error if memory of the driver's pools was
// never returned, which is a bug in this package.
func (d *Driver) Close() error {
	if err := d.interfaces.Close(); err != nil {
		return fmt.Errorf("o2iblnd: close: %w", err)
	}
	d.group.Wait()
	d.log.End()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := errors.Join(d.lost...); err != nil {
		return fmt.Errorf("o2iblnd: close: %w", err)
	}
	return nil
}
