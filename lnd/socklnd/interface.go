package socklnd

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// Interface is socklnd's side of one NI. It implements lnd.Interface.
type Interface struct {
	driver   *Driver
	nid      lnet.NID
	address  netip.Addr
	upper    lnd.Upper
	tunables lnd.Tunables
	log      *boundedlog.Log
	// incarnation identifies this incarnation of the NI. All its connections carry the same value
	// (socklnd 6).
	incarnation uint64
	listening   []netip.AddrPort // guarded by Driver.mu
	options     atomic.Pointer[Config]

	counters counters
	ledger   ledger
	link     *hostnet.Link
	out      peering.Outbox[event]
	calls    calls

	ctx    context.Context
	cancel context.CancelFunc
	// group counts goroutines, and writers that were active when their connection died.
	group sync.WaitGroup

	doubts  chan struct{} // holds one token while doubted is not empty
	mu      sync.RWMutex  // guards the fields below
	doubted []*peer       // to be probed
	closing bool
	peers   map[lnet.ProcessID]*peer
	// departed are peers that have left the table.
	departed  peering.Departed[struct{}]
	admission peering.Admission
}

var (
	_ lnd.Interface = (*Interface)(nil)
	_ lnd.Caller    = (*Interface)(nil)
	_ lnd.Tuner     = (*Interface)(nil)
)

func (i *Interface) start() {
	i.group.Add(1)
	go i.reap()
	i.group.Go(func() { i.link.Watch(i.ctx, i.link.Check) }) // connections stay open while the link is down
}

// NID implements lnd.Interface.
func (i *Interface) NID() lnet.NID { return i.nid }

// Device implements lnd.Interface.
func (i *Interface) Device() string { return i.link.Device() }

// LargeNIDs implements lnd.Interface.
func (i *Interface) LargeNIDs() bool { return true }

// Timeout implements lnd.Interface: T (socklnd 14).
func (i *Interface) Timeout() time.Duration {
	if t := i.options.Load().SockTimeout; t > 0 {
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

// Send implements lnd.Interface. A message to a peer without a connection waits for one, for at most
// the LND timeout.
func (i *Interface) Send(m *lnd.Tx) {
	m.Replied = false
	for {
		p, err := i.peerFor(m.To)
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
func (i *Interface) peerFor(id lnet.ProcessID) (*peer, error) {
	i.mu.RLock()
	p := i.peers[id]
	i.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if p := i.peers[id]; p != nil {
		return p, nil
	}
	if i.closing {
		return nil, messageError("send", id.NID, lnd.StatusRemoteDropped, errClosing)
	}
	if !i.canCall(id) {
		return nil, messageError("send", id.NID, lnd.StatusRemoteError, errNoWay)
	}
	p = newPeer(i, id)
	p.callable()
	i.peers[id] = p
	return p, nil
}

// canCall reports whether this node can connect to a peer: its NID is an address of our address family
// and belongs to a node that listens. An unprivileged peer is reached only over the connections that it
// opened (socklnd 12.4).
func (i *Interface) canCall(id lnet.ProcessID) bool {
	ip := id.NID.IP()
	return id.PID&lnet.PIDUserFlag == 0 && ip.IsValid() && ip.Is4() == i.address.Is4()
}

// Receive implements lnd.Interface.
func (i *Interface) Receive(m *lnd.Rx, p lnd.Placement) {
	m.Driver.(*conn).receive(p)
}

// Disconnect implements lnd.Interface.
func (i *Interface) Disconnect(nid lnet.NID) {
	for _, p := range i.peersOf(nid) {
		p.disconnect()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.departed.EndPauses(nid)
}

// peersOf returns the peers with the NID, with any PID. A zero NID selects all peers.
func (i *Interface) peersOf(nid lnet.NID) []*peer {
	i.mu.RLock()
	defer i.mu.RUnlock()
	var found []*peer
	for id, p := range i.peers {
		if nid.IsZero() || id.NID == nid {
			found = append(found, p)
		}
	}
	return found
}

// forget removes p from the table if it is idle.
func (i *Interface) forget(p *peer) {
	i.mu.Lock()
	p.mu.Lock()
	if !p.gone && p.idle() {
		p.gone = true
		delete(i.peers, p.id)
		i.departed.Keep(p.id, p.record, p.backoff)
	}
	p.mu.Unlock()
	i.mu.Unlock()
}

// Refusals implements lnd.Interface.
func (i *Interface) Refusals() lnd.RefusalCounts { return i.counters.refused.Counts() }

// CallFailures implements lnd.Caller.
func (i *Interface) CallFailures() lnd.CallFailureCounts { return i.counters.callFailures.Counts() }

// Counters implements lnd.Interface.
func (i *Interface) Counters() []lnd.Counter {
	live := liveCounts{waitingCalls: uint64(i.calls.Waiting())}
	for _, p := range i.peersOf(lnet.NID{}) {
		p.mu.Lock()
		live.peers++
		live.pending += uint64(p.waiting.Len())
		p.mu.Unlock()
	}
	live.conns, live.moved = i.ledger.sum()
	return i.counters.list(live)
}

// Close implements lnd.Interface. Messages that wait for a connection fail with StatusRemoteDropped.
// Messages on connections fail as if their connection had failed.
func (i *Interface) Close(ctx context.Context) error {
	i.mu.Lock()
	if i.closing {
		i.mu.Unlock()
		return lnd.ErrClosed
	}
	i.closing = true
	i.group.Add(1)
	i.mu.Unlock()

	i.driver.leave(i)
	i.cancel()
	for _, p := range i.peersOf(lnet.NID{}) {
		p.abandon(errClosing)
	}
	i.group.Done()

	done := make(chan struct{})
	go func() {
		i.group.Wait()
		i.out.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("socklnd: close "+i.nid.String()+": goroutines are still running"), ctx.Err())
	}
}

// hello returns the HELLO to send for a connection of type t.
func (i *Interface) hello(v protocol.Version, to lnet.NID, t protocol.ConnType) protocol.Hello {
	return protocol.Hello{
		Version:        v,
		Src:            i.nid,
		Dst:            to,
		SrcPID:         lnet.PIDLustre,
		SrcIncarnation: i.incarnation,
		Type:           t,
	}
}

// releaseSource ends what callerFor has counted for a source.
func (i *Interface) releaseSource(a netip.Addr) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.admission.Leave(a)
}
