package o2iblnd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Interface is o2iblnd's side of one NI. It implements lnd.Interface.
type Interface struct {
	driver   *Driver
	nid      lnet.NID
	address  netip.Addr
	upper    lnd.Upper
	tunables lnd.Tunables
	log      *boundedlog.Log
	stamp    uint64 // the incarnation (o2iblnd 2.2)
	options  atomic.Pointer[Config]

	counters counters
	link     *hostnet.Link
	ended    atomic.Bool   // closing, for code that holds other locks
	numbers  atomic.Uint32 // counter for connection numbers
	out      peering.Outbox[event]
	keeper   keeper
	kept     chan struct{} // closed when the keeper has ended
	calls    peering.Calls[*peer]
	absent   bool      // the host has no device for the address; used by the keeper only
	nextBind time.Time // used by the keeper only
	ticked   time.Time // the keeper's last tick
	resumed  time.Time // the last late tick (this machine was busy); used by the keeper only

	ctx    context.Context
	cancel context.CancelFunc
	// group counts connections whose memory has not been freed, and the link watcher.
	group sync.WaitGroup

	mu        sync.RWMutex // guards the fields below
	closing   bool
	bound     *listener // nil while there is no device
	peers     map[lnet.NID]*peer
	departed  peering.Departed[protocol.Peering]
	admission peering.Admission
	hungry    []hungry
	regs      map[*registration]struct{}
}

var (
	_ lnd.Interface     = (*Interface)(nil)
	_ lnd.Caller        = (*Interface)(nil)
	_ lnd.Tuner         = (*Interface)(nil)
	_ lnd.LinkExplainer = (*Interface)(nil)
	_ memory.Registrar  = (*Interface)(nil)
)

// start starts the goroutines of an interface that is bound to a listener.
func (i *Interface) start(dev *hostnet.Device) {
	i.link = hostnet.NewLink(i.driver.config.Host, dev, i.nid, i.upper, i.log, i.rdmaCause)
	i.link.OnBack(func() { i.LinkBack(lnet.NID{}) }) // timeouts that began while the link was down start over
	go i.keep()
	i.group.Go(func() { i.link.Watch(i.ctx, i.checkLink) })
}

// NID implements lnd.Interface.
func (i *Interface) NID() lnet.NID { return i.nid }

// Device implements lnd.Interface.
func (i *Interface) Device() string { return i.link.Device() }

// LargeNIDs implements lnd.Interface. The protocol does not support them (o2iblnd 2.1).
func (i *Interface) LargeNIDs() bool { return false }

// Timeout implements lnd.Interface (o2iblnd 13.2).
func (i *Interface) Timeout() time.Duration {
	if t := i.options.Load().Timeout; t > 0 {
		return t
	}
	if t := i.upper.LNDTimeout(); t > 0 {
		return t
	}
	return defaultTimeout
}

// Tunables implements lnd.Interface.
func (i *Interface) Tunables() lnd.Tunables { return i.tunables }

// Link implements lnd.Interface.
func (i *Interface) Link() lnd.LinkState { return i.link.State() }

// LinkCause implements lnd.LinkExplainer.
func (i *Interface) LinkCause() string { return i.link.Cause() }

// depth returns the queue depth to offer, which is also the maximum to accept.
func (i *Interface) depth() int { return i.tunables.PeerCredits }

// self returns the parameters that the interface announces to peers.
func (i *Interface) self() protocol.Self {
	return protocol.Self{NID: i.nid, Stamp: i.stamp, Depth: i.depth(), Fragments: protocol.MaxFragments}
}

// Send implements lnd.Interface. A message to a peer without a connection waits for one (o2iblnd 13.2).
func (i *Interface) Send(m *lnd.Tx) {
	m.Replied, m.ReplyLength = false, 0
	if err := checkHeader(&m.Header); err != nil {
		i.out.Add(event{m: m, err: messageError("send", m.To.NID, lnd.StatusLocalError, err)})
		return
	}
	i.resend(m)
}

func (i *Interface) resend(m *lnd.Tx) {
	for {
		p, err := i.peerFor(m.To.NID)
		if err != nil {
			i.out.Add(event{m: m, err: err})
			return
		}
		if p.send(m) {
			return
		}
	}
}

// peerFor returns the peer, and creates it if needed.
func (i *Interface) peerFor(nid lnet.NID) (*peer, error) {
	i.mu.RLock()
	p, closing := i.peers[nid], i.closing
	i.mu.RUnlock()
	if p != nil && !closing {
		return p, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.closing:
		return nil, messageError("send", nid, lnd.StatusRemoteDropped, errClosing)
	case i.peers[nid] != nil:
		return i.peers[nid], nil
	case nid.Net() != i.nid.Net() || !nid.IP().Is4():
		return nil, messageError("send", nid, lnd.StatusRemoteError, errNoWay)
	}
	p = newPeer(i, nid)
	i.peers[nid] = p
	i.keeper.do(task{kind: taskTick})
	return p, nil
}

func (i *Interface) closed() bool { return i.ended.Load() }

// find returns the peer, or nil if it does not exist.
func (i *Interface) find(nid lnet.NID) *peer {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.peers[nid]
}

// everybody returns all peers.
func (i *Interface) everybody() []*peer {
	i.mu.RLock()
	defer i.mu.RUnlock()
	list := make([]*peer, 0, len(i.peers))
	for _, p := range i.peers {
		list = append(list, p)
	}
	return list
}

// peersOf returns the peer with the NID, or all peers for the zero NID.
func (i *Interface) peersOf(nid lnet.NID) []*peer {
	if nid.IsZero() {
		return i.everybody()
	}
	if p := i.find(nid); p != nil {
		return []*peer{p}
	}
	return nil
}

// forget removes p from the table if it is idle.
func (i *Interface) forget(p *peer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone && p.idle() {
		p.gone = true
		delete(i.peers, p.nid)
		i.departed.Keep(p.id(), p.record, p.backoff)
	}
}

// Receive implements lnd.Interface.
func (i *Interface) Receive(m *lnd.Rx, p lnd.Placement) { m.Driver.(*rx).place(p) }

// Disconnect implements lnd.Interface.
func (i *Interface) Disconnect(nid lnet.NID) {
	for _, p := range i.peersOf(nid) {
		p.disconnect(errDisconnect)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.departed.EndPauses(nid)
}

// Refusals implements lnd.Interface.
func (i *Interface) Refusals() lnd.RefusalCounts { return i.counters.refused.Counts() }

// CallFailures implements lnd.Caller.
func (i *Interface) CallFailures() lnd.CallFailureCounts { return i.counters.callFailures.Counts() }

// Close implements lnd.Interface.
func (i *Interface) Close(ctx context.Context) error {
	i.mu.Lock()
	if i.closing {
		i.mu.Unlock()
		return lnd.ErrClosed
	}
	i.closing = true
	i.ended.Store(true)
	i.mu.Unlock()
	i.driver.unbind(i)
	i.cancel()
	for _, p := range i.everybody() {
		p.disconnect(errClosing)
	}
	i.keeper.do(task{kind: taskFeed})

	done := make(chan struct{})
	go func() {
		defer close(done)
		i.group.Wait()
		i.keeper.do(task{kind: taskStop})
		<-i.kept
		i.feed(time.Now())
		i.out.Wait()
		i.releaseAll()
		i.driver.leave(i)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("o2iblnd: close "+i.nid.String()+": goroutines are still running"), ctx.Err())
	}
}

// countLost counts and logs the end of a connection.
func (i *Interface) countLost(c *conn, up bool, final error) {
	f := c.failure
	switch {
	case up && f.Errno == syscall.EPROTO:
		peering.SayClosed(i.log, c.p.nid, 1, fmt.Errorf("%w: %w", lnd.ErrProtocol, f))
	case up:
		peering.SayClosed(i.log, c.p.nid, 1, f)
	case !c.ours:
		i.counters.refused.Refused(i.driver.log, c.source, refused(f))
	case final != nil:
		i.counters.callFailures.Failed(i.log, c.p.nid, callError(f, final))
	}
}
