package socklnd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// Driver is the socklnd driver. It owns the acceptors, which interfaces with
// one address share, and the bound on connections that have not introduced
// themselves.
type Driver struct {
	config Config
	log    *boundedlog.Log

	// group counts the goroutines of the acceptors.
	group sync.WaitGroup
	// welcoming bounds the goroutines of newcomers: those that are half-open
	// and those that are on their way out.
	welcoming chan struct{}

	interfaces peering.Interfaces[*Interface]
	halfOpen   halfOpen

	mu        sync.Mutex // guards the rest
	listeners map[netip.AddrPort]*acceptor
	random    *rand.Rand
}

// New returns a driver with the given configuration, which it checks.
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
		config:    c,
		log:       boundedlog.New(c.Logger),
		listeners: make(map[netip.AddrPort]*acceptor),
		welcoming: make(chan struct{}, 2*c.MaxHalfOpen),
		halfOpen:  newHalfOpen(c.MaxHalfOpen, c.MaxHalfOpenPerSource),
		random:    rand.New(rand.NewPCG(c.Seed, c.Seed)),
	}, nil
}

// Type is tcp.
func (d *Driver) Type() lnet.NetType { return lnet.TypeTCP }

// Open brings up an interface: it finds the device and the address, starts an
// acceptor on the address unless another interface has one there already, and
// watches the link. Config.Options may be an Options value. A port that cannot
// be had is a *lnd.ListenError; a NID in use is lnd.ErrExists.
func (d *Driver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	i, err := d.open(ctx, &c)
	if err != nil {
		return nil, fmt.Errorf("socklnd: open %s on %q: %w", c.Net, c.Device, err)
	}
	return i, nil
}

func (d *Driver) open(ctx context.Context, c *lnd.Config) (*Interface, error) {
	if c.Upper == nil {
		return nil, errors.New("no upper")
	}
	if err := c.Resolve(); err != nil {
		return nil, err
	}
	if c.Net.Type() != lnet.TypeTCP {
		return nil, fmt.Errorf("net type %s: not tcp", c.Net.Type())
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dev, err := d.config.Network.Device(c.Device, c.NID)
	if err != nil {
		return nil, err
	}
	addr, err := chooseAddress(dev, c.NID)
	if err != nil {
		return nil, err
	}
	i, err := d.newInterface(*c, dev, addr)
	if err != nil {
		return nil, err
	}
	if err := d.interfaces.Enter(i.nid, i); err != nil {
		return nil, err
	}
	if err := d.listen(i); err != nil {
		d.leave(i)
		return nil, err
	}
	i.start()
	return i, nil
}

// Usable finds the NID that an interface on net with a device, a NID or both would have
// now on a network, nil being the host's, and its device. The error says why there can be
// none: the device is missing, switched off or without the address.
func Usable(n Network, net lnet.Net, device string, nid lnet.NID) (lnet.NID, string, error) {
	if n == nil {
		n = HostNetwork()
	}
	dev, err := n.Device(device, nid)
	if err != nil {
		return lnet.NID{}, "", err
	}
	if dev.Off {
		return lnet.NID{}, dev.Name, fmt.Errorf("device %s is down: %w", dev.Name, syscall.ENETDOWN)
	}
	addr, err := chooseAddress(dev, nid)
	if err != nil {
		return lnet.NID{}, dev.Name, fmt.Errorf("%w: %w", err, syscall.EADDRNOTAVAIL)
	}
	return lnet.NIDFromIP(net, addr), dev.Name, nil
}

// chooseAddress takes the NID's address if there is one, else the device's
// first IPv4 address, else its first IPv6 address (socklnd 17).
func chooseAddress(dev Device, nid lnet.NID) (netip.Addr, error) {
	if !nid.IsZero() {
		if want := nid.IP(); !dev.Has(want) {
			return netip.Addr{}, fmt.Errorf("device %s has no address %s, but %s", dev.Name, want, dev.addresses())
		}
		return nid.IP(), nil
	}
	for _, p := range dev.Addrs {
		if p.Addr().Is4() {
			return p.Addr(), nil
		}
	}
	for _, p := range dev.Addrs {
		if !p.Addr().IsLinkLocalUnicast() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("device %s has no usable address", dev.Name)
}

// leave takes i out, and the acceptors that nobody else uses.
func (d *Driver) leave(i *Interface) {
	d.interfaces.Leave(i.nid)
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

// jitter returns a number from [0, 1).
func (d *Driver) jitter() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.Float64()
}

// newInterface resolves an interface's configuration.
func (d *Driver) newInterface(c lnd.Config, dev Device, addr netip.Addr) (*Interface, error) {
	o, err := d.resolveOptions(c.Options, dev)
	if err != nil {
		return nil, err
	}
	i := &Interface{
		driver:      d,
		nid:         lnet.NIDFromIP(c.Net, addr),
		address:     addr,
		upper:       c.Upper,
		tunables:    resolveTunables(c.Tunables, d.config.Tunables),
		incarnation: uint64(d.config.Wall().UnixNano()),
		doubts:      make(chan struct{}, 1),
		peers:       make(map[lnet.ProcessID]*peer),
		sources:     make(map[netip.Addr]int),
		claims:      limit.Claims{Rate: limit.ClaimRate},
		hosts:       limit.Claims{Rate: hostRate},
	}
	i.index.Store(int64(dev.Index))
	i.options.Store(&o)
	log := d.log
	if c.Logger != nil {
		log = boundedlog.New(c.Logger)
	}
	i.log = log.With("nid", i.nid.String())
	i.device.Store(&dev.Name)
	cause := i.linkCause(dev, nil)
	i.downCause.Store(&cause)
	if cause != "" {
		i.link.Store(uint32(lnd.LinkDown))
	}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	return i, nil
}

// resolveTunables fills in defaults and keeps peer credits within credits.
func resolveTunables(t, def lnd.Tunables) lnd.Tunables {
	t = t.Or(def)
	t.PeerCredits = min(t.PeerCredits, t.Credits)
	return t
}

// Close closes what interfaces have left open and waits for the acceptors'
// goroutines. Interfaces are closed first, by whoever opened them: a node's by
// Node.Close. A driver without an interface has nothing but goroutines that are about
// to end; who need not see their end need not call Close.
func (d *Driver) Close() error {
	if err := d.interfaces.Close(); err != nil {
		return fmt.Errorf("socklnd: close: %w", err)
	}
	d.group.Wait()
	d.log.End()
	return nil
}
