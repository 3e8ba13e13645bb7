package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// topology is a snapshot of the NIs but 0@lo, by net in the order in which the
// nets came, and by NI within a net. It never changes: a new one replaces it.
type topology struct {
	nis []*ni
}

// find returns the NI with this NID, or nil.
func (t *topology) find(nid lnet.NID) *ni {
	for _, i := range t.nis {
		if i.nid == nid {
			return i
		}
	}
	return nil
}

// first returns the first NI on a net, or nil.
func (t *topology) first(net lnet.Net) *ni {
	for _, i := range t.nis {
		if i.net == net {
			return i
		}
	}
	return nil
}

// other tells whether there is an NI besides i.
func (t *topology) other(i *ni) bool {
	return slices.ContainsFunc(t.nis, func(o *ni) bool { return o != i })
}

// with returns a topology that has i too, behind the others of its net.
func (t *topology) with(i *ni) *topology {
	at := len(t.nis)
	for k, o := range t.nis {
		if o.net == i.net {
			at = k + 1
		}
	}
	return &topology{nis: slices.Insert(slices.Clone(t.nis), at, i)}
}

// without returns a topology that lacks i.
func (t *topology) without(i *ni) *topology {
	return &topology{nis: slices.DeleteFunc(slices.Clone(t.nis), func(o *ni) bool { return o == i })}
}

// AddNI brings an interface up and adds it; the first on a net makes the net.
// Further ones take over the net's tunables. c.Upper is the node's, and
// c.Logger too if it is nil. AddNI blocks until the driver has opened the
// interface or ctx is done. ErrExists: the NID, or on this net the device, is
// in use; ErrTooMany; ErrInvalid; ErrClosed; or the driver's error.
func (n *Node) AddNI(ctx context.Context, d lnd.Driver, c lnd.Config) (NIInfo, error) {
	i, err := n.addNI(ctx, d, c)
	if err != nil {
		return NIInfo{}, fmt.Errorf("add interface on %s: %w", c.Net, err)
	}
	return i.info(), nil
}

func (n *Node) addNI(ctx context.Context, d lnd.Driver, c lnd.Config) (*ni, error) {
	ctx, done, err := n.configure(ctx)
	if err != nil {
		return nil, err
	}
	defer done()

	if c.Net.Type() == lnet.TypeLO || c.Net.Type() != d.Type() {
		return nil, fmt.Errorf("driver for %s: net %s: %w", d.Type(), c.Net, ErrInvalid)
	}
	if !c.NID.IsZero() && c.NID.Net() != c.Net {
		return nil, fmt.Errorf("nid %s: not on %s: %w", c.NID, c.Net, ErrInvalid)
	}
	t := n.topology.Load()
	if len(t.nis) >= n.interfacesMax-1 {
		return nil, fmt.Errorf("%d interfaces: %w", len(t.nis), ErrTooMany)
	}
	if err := t.vacant(c.Net, c.NID, c.Device); err != nil {
		return nil, err
	}
	if first := t.first(c.Net); first != nil {
		if c.Tunables != (lnd.Tunables{}) && c.Tunables != first.tunables {
			n.log.Warn("the tunables of the net hold", "net", c.Net, "tunables", first.tunables)
		}
		c.Tunables = first.tunables
	}
	i := newNI(n, c.Net)
	c.Upper = i
	if c.Logger == nil {
		c.Logger = n.log
	}
	iface, err := d.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	i.adopt(iface)
	err = i.admissible(c.Net)
	if err == nil {
		err = t.vacant(c.Net, i.nid, iface.Device())
	}
	if err != nil {
		n.infoMu.Lock()
		n.leaving = append(n.leaving, i)
		n.infoMu.Unlock()
		i.closing.Store(true)
		i.setOpen()
		i.close()
		_ = i.awaitClose(ctx) // the error that counts is the other one
		return nil, err
	}

	n.infoMu.Lock()
	n.topology.Store(n.topology.Load().with(i))
	n.rebuildInfo()
	n.infoMu.Unlock()
	n.renewCredits(c.Net, i.tunables.PeerCredits)
	i.setOpen()
	return i, nil
}

// adopt takes over an interface that a driver has opened.
func (i *ni) adopt(iface lnd.Interface) {
	i.iface = iface
	i.nid = iface.NID()
	i.tunables = iface.Tunables()
	i.tunables.PeerCredits = min(i.tunables.PeerCredits, i.tunables.Credits)
	i.lndTimeout = iface.Limits().Timeout
	i.link.CompareAndSwap(linkUnknown, uint32(iface.Link())) // an upcall knows better
	i.credits.init(i.tunables.Credits, heldBoth)
}

// admissible checks what the driver made of the configuration.
func (i *ni) admissible(net lnet.Net) error {
	if i.nid.Net() != net {
		return fmt.Errorf("driver opened %s, not on %s: %w", i.nid, net, ErrInvalid)
	}
	if i.tunables.PeerCredits < 1 {
		return fmt.Errorf("peer_credits %d, credits %d: %w", i.tunables.PeerCredits, i.tunables.Credits, ErrInvalid)
	}
	return nil
}

// vacant says whether a NID and a device may join a net.
func (t *topology) vacant(net lnet.Net, nid lnet.NID, device string) error {
	for _, i := range t.nis {
		if i.nid == nid {
			return fmt.Errorf("nid %s: %w", nid, ErrExists)
		}
		if i.net == net && device != "" && i.iface.Device() == device {
			return fmt.Errorf("device %s: %w", device, ErrExists)
		}
	}
	return nil
}

// RemoveNI takes an interface away and closes it: messages on it end with an
// error. It blocks until the driver is done with it or ctx is. ErrNotFound:
// there is no such NI; ErrInvalid: it is 0@lo. After another error the NI is
// gone, but the driver may still be busy with it. A handler must not call it.
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
	n.infoMu.Lock()
	n.topology.Store(n.topology.Load().without(i))
	n.leaving = append(n.leaving, i)
	n.rebuildInfo()
	n.infoMu.Unlock()
	i.closing.Store(true)
	n.dropWaiting(func(m *message) bool { return m.ni == i })
	i.close()
	return i.awaitClose(ctx)
}

// close has the driver close the interface, once, in a goroutine that Node.Close
// waits for.
func (i *ni) close() {
	i.closeOnce.Do(func() {
		go func() {
			i.closeErr = i.iface.Close(context.Background())
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
	var c Counters
	i.stats.addTo(&c)
	n.retired.add(&c)
	n.leaving = slices.DeleteFunc(n.leaving, func(o *ni) bool { return o == i })
}

// renewCredits gives the peer NIs on a net as many credits as its NIs say.
func (n *Node) renewCredits(net lnet.Net, limit int) {
	var others []*peerNI
	n.peers.each(func(p *peerNI) {
		if p.nid.Net() == net && int(p.credits.limit.Load()) != limit {
			others = append(others, p)
		}
	})
	for _, p := range others {
		n.giveCredits(p, limit)
	}
}

// NIs lists the NIs: 0@lo, then the others by net in the order in which the
// nets came.
func (n *Node) NIs() []NIInfo {
	t := n.topology.Load()
	infos := make([]NIInfo, 0, 1+len(t.nis))
	infos = append(infos, n.lo.info())
	for _, i := range t.nis {
		infos = append(infos, i.info())
	}
	return infos
}
