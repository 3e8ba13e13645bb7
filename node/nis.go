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

// AddNI brings an interface up and adds it; the first on a net makes the net, which
// c.NID tells if c.Net does not.
// Further ones take over the net's tunables. c.Upper is the node's, and
// c.Logger too if it is nil. AddNI blocks until the driver has opened the
// interface or ctx is done. ErrExists: the NID, or on this net the device, is
// in use; ErrRouted: there are routes to the net; ErrTooMany; ErrInvalid;
// ErrClosed; ErrInHandler; or the driver's error.
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
		return nil, fmt.Errorf("no driver: %w", ErrInvalid)
	}
	if err := c.Resolve(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrInvalid)
	}
	if c.Net.Type() == lnet.TypeLO || c.Net.Type() != d.Type() {
		return nil, fmt.Errorf("driver for %s: net %s: %w", d.Type(), c.Net, ErrInvalid)
	}
	t := n.topology.Load()
	if len(t.view.Routing.To(c.Net)) > 0 {
		return nil, fmt.Errorf("net %s: %w", c.Net, ErrRouted)
	}
	if len(t.nis) >= n.parameters.Load().InterfacesMax-1 {
		return nil, fmt.Errorf("%d interfaces: %w", len(t.nis), ErrTooMany)
	}
	if err := t.vacant(c.Net, c.NID, c.Device); err != nil {
		return nil, err
	}
	if first := t.first(c.Net); first != nil {
		if contradicts(c.Tunables, first.tunables) {
			n.log.Warn("the NI has the tunables of its net, not its own", "net", c.Net, "tunables", first.tunables)
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
		err = t.vacant(c.Net, i.NID, iface.Device())
	}
	if err != nil {
		n.turnAway(ctx, i)
		return nil, err
	}

	n.regions.joins(i)
	if err := n.joinNet(ctx, i); err != nil {
		n.turnAway(ctx, i)
		return nil, err
	}
	i.setOpen()
	return i, nil
}

// contradicts tells whether tunables that somebody wants, where they say
// something, are not those that there are.
func contradicts(want, have lnd.Tunables) bool {
	return want.PeerTimeout > 0 && want.PeerTimeout != have.PeerTimeout ||
		want.PeerCredits > 0 && want.PeerCredits != have.PeerCredits ||
		want.PeerBufferCredits > 0 && want.PeerBufferCredits != have.PeerBufferCredits ||
		want.Credits > 0 && want.Credits != have.Credits
}

// joinNet puts an NI into the topology. When the first message may use it, it has
// what policies give it. Messages that have waited for credits of peer NIs go on.
func (n *Node) joinNet(ctx context.Context, i *ni) error {
	i.lastPing.Store(n.second.Load())
	var sends, forwards messageQueue
	err := n.discoverer.try(ctx, func(*discovery.Machine, time.Duration) error {
		n.infoMu.Lock()
		defer n.infoMu.Unlock()
		t := n.topology.Load()
		if len(t.view.Routing.To(i.net)) > 0 { // they came while the driver was at work
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

// turnAway closes an interface that does not become an NI.
func (n *Node) turnAway(ctx context.Context, i *ni) {
	n.infoMu.Lock()
	n.leaving = append(n.leaving, i)
	n.infoMu.Unlock()
	i.closing.Store(true)
	i.setOpen()
	i.close()
	_ = i.awaitClose(ctx) // the error that counts is another one
}

// adopt takes over an interface that a driver has opened.
func (i *ni) adopt(iface lnd.Interface) {
	i.iface = iface
	i.Init(iface.NID(), i.node.numa.OfDevice(iface.Device()), i)
	i.tunables = iface.Tunables()
	i.tunables.PeerCredits = min(i.tunables.PeerCredits, i.tunables.Credits)
	if link := iface.Link(); i.link.CompareAndSwap(linkUnknown, uint32(link)) { // an upcall knows better
		i.Fatal.Store(fatal(link))
	}
	i.tx.init(&i.Credits, i.tunables.Credits)
}

// admissible checks what the driver made of the configuration.
func (i *ni) admissible(net lnet.Net) error {
	if i.NID.Net() != net {
		return fmt.Errorf("driver opened %s, not on %s: %w", i.NID, net, ErrInvalid)
	}
	if i.NID.IsLarge() && !i.iface.LargeNIDs() {
		return fmt.Errorf("driver opened %s: %w: %w", i.NID, lnd.ErrLargeNID, ErrInvalid)
	}
	if i.tunables.PeerCredits < 1 {
		return fmt.Errorf("peer_credits %d, credits %d: %w", i.tunables.PeerCredits, i.tunables.Credits, ErrInvalid)
	}
	return nil
}

// vacant says whether a NID and a device may join a net.
func (t *topology) vacant(net lnet.Net, nid lnet.NID, device string) error {
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

// TuneNI has options of the driver's hold on an NI from now on, as lnd.Tuner has it.
// ErrNotFound: there is no such NI; errors.ErrUnsupported: its driver cannot; or the
// driver's error. It may be called from anywhere.
func (n *Node) TuneNI(nid lnet.NID, options any) error {
	if err := n.takes(); err != nil {
		return fmt.Errorf("tune interface %s: %w", nid, err)
	}
	i := n.topology.Load().find(nid)
	if i == nil {
		return fmt.Errorf("tune interface %s: %w", nid, ErrNotFound)
	}
	t, ok := i.iface.(lnd.Tuner)
	if !ok {
		return fmt.Errorf("tune interface %s: %w", nid, errors.ErrUnsupported)
	}
	return t.Tune(options)
}

// RemoveNI takes an interface away and closes it: messages on it end with an
// error. With the last one on a net go the routes through gateways there, and
// peers that cannot be reached any more (discovery 8.3). It blocks until the driver
// is done with it or ctx is. ErrNotFound: there is no such NI; ErrInvalid: it is 0@lo;
// ErrInHandler: a handler has called it. After another error, unless ctx had ended
// before, the NI is gone, but the driver may still be busy with it.
func (n *Node) RemoveNI(ctx context.Context, nid lnet.NID) error {
	if err := n.removeNI(ctx, nid); err != nil {
		return fmt.Errorf("remove interface %s: %w", nid, err)
	}
	return nil
}

func (n *Node) removeNI(ctx context.Context, nid lnet.NID) error {
	if nid.IsLoopback() {
		return ErrInvalid
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

// leaveNet takes an NI out of the topology, and with the last one on a net the
// routes through gateways there.
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

// ArrangeNIs puts the NIs in the order of these NIDs, those of a net together where the
// first of them stands. Those that are not named come last, as they are; NIDs of no NI count
// for nothing. The first NI gives the node its primary NID, so peers are told; no message is
// disturbed. ErrClosed; ErrInHandler; or ctx's error.
func (n *Node) ArrangeNIs(ctx context.Context, nids []lnet.NID) error {
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
		next := t.having(nis)
		n.discoverer.compile(next)
		n.topology.Store(next)
		n.rebuildInfo()
	})
	if err != nil {
		return fmt.Errorf("arrange interfaces: %w", err)
	}
	return nil
}

// close has the driver close the interface, once, in a goroutine that Node.Close
// waits for.
func (i *ni) close() {
	i.closeOnce.Do(func() {
		go func() {
			i.closeErr = i.iface.Close(context.Background())
			i.node.regions.leaves(i.iface)
			i.node.retire(i)
			close(i.closed)
		}()
	})
}

// awaitClose waits until the driver is done with the interface or ctx is.
func (i *ni) awaitClose(ctx context.Context) error {
	select {
	case <-i.closed:
		return i.closeErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retire forgets an NI that was leaving, but for its totals.
func (n *Node) retire(i *ni) {
	n.infoMu.Lock()
	defer n.infoMu.Unlock()
	if !slices.Contains(n.leaving, i) {
		return // the node closes, and keeps it
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

// NIs lists the NIs: 0@lo, then the others by net in the order in which the
// nets came.
func (n *Node) NIs() []NIInfo {
	t := n.made().topology.Load()
	infos := make([]NIInfo, 0, 1+len(t.nis))
	infos = append(infos, n.lo.info())
	for _, i := range t.nis {
		infos = append(infos, i.info())
	}
	return infos
}
