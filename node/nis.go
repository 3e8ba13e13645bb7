package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// AddNI opens an interface with the driver d and adds it to the node. If c.Net is zero,
// the net of c.NID is used. The first interface on a net creates the net; further
// interfaces on it use the tunables of the first one. AddNI sets c.Upper, and c.Logger if
// it is nil. It blocks until the driver has opened the interface or ctx is done.
//
// It returns ErrExists if the NID is in use, or the device on this net; ErrRouted if
// routes lead to the net; ErrTooMany; ErrInvalid; ErrClosed; ErrInHandler; or the driver's
// error.
func (n *Node) AddNI(ctx context.Context, d lnd.Driver, c lnd.Config) (NIInfo, error) {
	i, err := n.addNI(ctx, d, &c)
	if err != nil {
		return NIInfo{}, fmt.Errorf("add interface on %s: %w", c.Net, err)
	}
	return i.info(), nil
}

func (n *Node) addNI(ctx context.Context, d lnd.Driver, c *lnd.Config) (*ni, error) {
	ctx, done, err := n.configure(ctx)
	if err != nil {
		return nil, err
	}
	defer done()

	if d == nil {
		return nil, fmt.Errorf("no driver is given: %w", ErrInvalid)
	}
	if err := c.Resolve(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrInvalid)
	}
	if c.Net.Type() == lnet.TypeLO || c.Net.Type() != d.Type() {
		return nil, fmt.Errorf("the driver is for nets of type %s: %w", d.Type(), ErrInvalid)
	}
	t := n.topology.Load()
	if len(t.view.Routing.To(c.Net)) > 0 {
		return nil, fmt.Errorf("net %s: %w", c.Net, ErrRouted)
	}
	if len(t.nis) >= n.parameters.Load().InterfacesMax-1 {
		return nil, fmt.Errorf("the node already has %d: %w", len(t.nis), ErrTooMany)
	}
	if err := t.hasNoNI(c.Net, c.NID, c.Device); err != nil {
		return nil, err
	}
	if first := t.first(c.Net); first != nil {
		if contradicts(c.Tunables, first.tunables) {
			n.log.Warn("NI uses the tunables of its net instead of its configured ones", "net", c.Net, "tunables", first.tunables)
		}
		c.Tunables = first.tunables
	}
	i := newNI(n, c.Net)
	c.Upper = i
	if c.Logger == nil {
		c.Logger = n.log.Logger
	}
	iface, err := d.Open(ctx, *c)
	if err != nil {
		return nil, err
	}
	i.adopt(iface)
	err = i.admissible(c.Net)
	if err == nil {
		err = t.hasNoNI(c.Net, i.NID, iface.Device())
	}
	if err != nil {
		n.closeRejected(ctx, i)
		return nil, err
	}

	n.regions.attachNI(i)
	if err := n.joinNet(ctx, i); err != nil {
		n.closeRejected(ctx, i)
		return nil, err
	}
	i.setOpen()
	return i, nil
}

// contradicts reports whether want sets a tunable to a value other than that in have.
func contradicts(want, have lnd.Tunables) bool {
	return want.PeerTimeout > 0 && want.PeerTimeout != have.PeerTimeout ||
		want.PeerCredits > 0 && want.PeerCredits != have.PeerCredits ||
		want.PeerBufferCredits > 0 && want.PeerBufferCredits != have.PeerBufferCredits ||
		want.Credits > 0 && want.Credits != have.Credits
}

// joinNet adds an NI to the topology. Policies are applied before the first message can
// use the NI. If the credits for peer NIs on its net grow, messages that wait for them
// continue.
func (n *Node) joinNet(ctx context.Context, i *ni) error {
	i.lastPing.Store(n.second.Load())
	var sends, forwards messageQueue
	err := n.discoverer.callErr(ctx, func(*discovery.Machine, time.Duration) error {
		n.infoMu.Lock()
		defer n.infoMu.Unlock()
		t := n.topology.Load()
		if len(t.view.Routing.To(i.net)) > 0 { // added while the driver was opening the interface
			return fmt.Errorf("net %s: %w", i.net, ErrRouted)
		}
		next := t.with(i)
		n.discoverer.compile(next)
		n.topology.Store(next)
		n.rebuildInfo()
		sends, forwards = n.peerCreditsChanged(next.first(i.net))
		return nil
	})
	n.transmitAll(&sends)
	n.forwardGranted(&forwards)
	return err
}

// closeRejected closes an interface that was opened but cannot be added to the node.
func (n *Node) closeRejected(ctx context.Context, i *ni) {
	n.infoMu.Lock()
	n.leaving = append(n.leaving, i)
	n.infoMu.Unlock()
	i.closing.Store(true)
	i.setOpen()
	i.close()
	_ = i.awaitClose(ctx) // the caller returns another error
}

// adopt initializes the NI with iface, which the driver has opened.
func (i *ni) adopt(iface lnd.Interface) {
	i.iface = iface
	i.Init(iface.NID(), i.node.numa.OfDevice(iface.Device()), i)
	i.tunables = iface.Tunables()
	i.tunables.PeerCredits = min(i.tunables.PeerCredits, i.tunables.Credits)
	if link := iface.Link(); i.link.CompareAndSwap(linkUnknown, uint32(link)) { // unless an upcall has reported a newer state
		i.Fatal.Store(fatal(link))
	}
	i.tx.init(&i.Credits, i.tunables.Credits)
}

// admissible returns an error if the interface that the driver has opened does not fit the
// configuration.
func (i *ni) admissible(net lnet.Net) error {
	if i.NID.Net() != net {
		return fmt.Errorf("the driver opened %s, which is not on this net: %w", i.NID, ErrInvalid)
	}
	if i.NID.IsLarge() && !i.iface.LargeNIDs() {
		return fmt.Errorf("the driver opened %s: %w: %w", i.NID, lnd.ErrLargeNID, ErrInvalid)
	}
	if i.tunables.PeerCredits < 1 {
		return fmt.Errorf("the driver has %d peer_credits and %d credits: both must be at least 1: %w", i.tunables.PeerCredits, i.tunables.Credits, ErrInvalid)
	}
	return nil
}

// hasNoNI returns an error if an NI has this NID, or if an NI on this net has this device.
func (t *topology) hasNoNI(net lnet.Net, nid lnet.NID, device string) error {
	for _, i := range t.nis {
		if i.NID == nid {
			return fmt.Errorf("nid %s: %w", nid, ErrExists)
		}
		if i.net == net && device != "" && i.iface.Device() == device {
			return fmt.Errorf("device %s: %w", device, ErrExists)
		}
	}
	return nil
}

// TuneNI changes driver options of the NI with this NID while it runs, as described at
// lnd.Tuner. It returns ErrNotFound if no NI has nid, errors.ErrUnsupported if the driver
// does not implement lnd.Tuner, or the driver's error. Handlers may call it.
func (a *Admin) TuneNI(nid lnet.NID, options lnd.Values) error {
	n := a.n
	if err := n.checkOpen(); err != nil {
		return fmt.Errorf("tune interface %s: %w", nid, err)
	}
	i := n.topology.Load().find(nid)
	if i == nil {
		return fmt.Errorf("tune interface %s: %w", nid, ErrNotFound)
	}
	t, ok := i.iface.(lnd.Tuner)
	if !ok {
		return fmt.Errorf("tune interface %s: its driver cannot change options at run time: %w", nid, errors.ErrUnsupported)
	}
	return t.Tune(options)
}

// RemoveNI removes the interface with this NID from the node and closes it. Messages on it
// end with an error. If it is the last interface on its net, RemoveNI also removes the
// routes whose gateways are on that net, and the peers that can no longer be reached
// (discovery 8.3). It blocks until the driver has closed the interface or ctx is done.
//
// RemoveNI returns ErrNotFound if no NI has nid, ErrInvalid for 0@lo, ErrInHandler if a
// handler calls it, or ctx's error or ErrClosed if ctx ended or the node was closed before
// the removal began. In these cases nothing has changed. After any other error the
// interface is removed, but the driver may still be closing it.
func (n *Node) RemoveNI(ctx context.Context, nid lnet.NID) error {
	if err := n.removeNI(ctx, nid); err != nil {
		return fmt.Errorf("remove interface %s: %w", nid, err)
	}
	return nil
}

func (n *Node) removeNI(ctx context.Context, nid lnet.NID) error {
	if nid.IsLoopback() {
		return fmt.Errorf("the loopback interface cannot be removed: %w", ErrInvalid)
	}
	ctx, done, err := n.configure(ctx)
	if err != nil {
		return err
	}
	defer done()
	i := n.topology.Load().find(nid)
	if i == nil {
		return ErrNotFound
	}
	if err := n.leaveNet(ctx, i); err != nil {
		return err
	}
	n.dropWaiting(DropClosing, func(m *message) bool { return m.ni == i })
	i.close()
	return i.awaitClose(ctx)
}

// leaveNet removes an NI from the topology. If it is the last NI on its net, leaveNet also
// removes the routes whose gateways are on that net.
func (n *Node) leaveNet(ctx context.Context, i *ni) error {
	return n.discoverer.call(ctx, func(m *discovery.Machine) {
		last := n.topology.Load().lastOn(i)
		if last {
			n.discoverer.dropRoutes(func(r *selection.Route) bool { return r.Gateway.Peer().Net(i.net) != nil })
		}
		n.infoMu.Lock()
		next := n.topology.Load().without(i)
		n.discoverer.compile(next)
		n.topology.Store(next)
		n.leaving = append(n.leaving, i)
		n.rebuildInfo()
		n.infoMu.Unlock()
		i.closing.Store(true)
		if last {
			m.RemoveNet(n.machineNow(), i.net, next.nets())
		}
	})
}

// ArrangeNIs sorts the NIs in the order of nids. The NIs of one net stay together, at the
// place of the one that is listed first. NIs that are not listed follow in their current
// order; NIDs without an NI are ignored. The first NI determines the node's primary NID,
// so peers are notified. Messages under way are not affected. It returns ErrClosed,
// ErrInHandler or ctx's error.
func (a *Admin) ArrangeNIs(ctx context.Context, nids []lnet.NID) error {
	n := a.n
	ctx, done, err := n.configure(ctx)
	if err != nil {
		return fmt.Errorf("arrange interfaces: %w", err)
	}
	defer done()
	err = n.discoverer.call(ctx, func(*discovery.Machine) {
		n.infoMu.Lock()
		defer n.infoMu.Unlock()
		t := n.topology.Load()
		nis := t.arranged(nids)
		if slices.Equal(nis, t.nis) {
			return
		}
		next := t.withNIs(nis)
		n.discoverer.compile(next)
		n.topology.Store(next)
		n.rebuildInfo()
	})
	if err != nil {
		return fmt.Errorf("arrange interfaces: %w", err)
	}
	return nil
}

// close starts a goroutine in which the driver closes the interface. Only the first call
// has an effect. Node.Close waits for that goroutine.
func (i *ni) close() {
	i.closeOnce.Do(func() {
		go func() {
			i.closeErr = i.iface.Close(context.Background())
			i.node.regions.detachNI(i.iface)
			i.node.retireNI(i)
			close(i.closed)
		}()
	})
}

// awaitClose waits until the driver has closed the interface, and returns the driver's
// error, or ctx's error if ctx is done first.
func (i *ni) awaitClose(ctx context.Context) error {
	select {
	case <-i.closed:
		return i.closeErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retireNI adds the totals of i, whose driver has closed it, to those of removed NIs, and
// removes i from n.leaving.
func (n *Node) retireNI(i *ni) {
	n.infoMu.Lock()
	defer n.infoMu.Unlock()
	if !slices.Contains(n.leaving, i) {
		return // the node is closing; i is still in the topology
	}
	n.forgetStalls(i)
	var c Counters
	i.stats.addTo(&c)
	n.retired.add(&c)
	for r, of := range i.iface.Refusals() {
		n.retiredRefusals[r] += of
	}
	n.leaving = slices.DeleteFunc(n.leaving, func(o *ni) bool { return o == i })
}

// NID returns the primary NID of this node: that of the first NI other than 0@lo, in the
// order of NIs. It returns 0@lo if there is no other.
func (n *Node) NID() lnet.NID {
	if !n.isMade() {
		return lnet.NID{}
	}
	if nis := n.topology.Load().nis; len(nis) > 0 {
		return nis[0].NID
	}
	return n.lo.NID
}

// NIs lists the NIs: first 0@lo, then the others, grouped by net. Nets, and the NIs of
// each net, are in the order in which they were added, unless ArrangeNIs has changed it.
func (n *Node) NIs() []NIInfo {
	if !n.isMade() {
		return nil
	}
	t := n.topology.Load()
	infos := make([]NIInfo, 0, 1+len(t.nis))
	infos = append(infos, n.lo.info())
	for _, i := range t.nis {
		infos = append(infos, i.info())
	}
	return infos
}
