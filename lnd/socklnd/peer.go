package socklnd

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// peer is one remote process to which an interface has, wants or recently had connections (socklnd 1). The
// lock of the embedded peering.Peer is "the lock of the peer".
type peer struct {
	peering.Peer
	i *Interface

	// set is a snapshot of conns. Senders use it without the lock of the peer.
	set  atomic.Pointer[connSet]
	turn atomic.Uint64 // counts how often a connection was selected for a message (conn.lastUse)

	corks corks

	// lastReceiver is the connection that last received something, among the connections that can be shared.
	// Poll reads this one.
	lastReceiver atomic.Pointer[conn]

	// The lock of the peer guards the fields below, except linkUps and probed.

	peering protocol.Peering
	conns   []*conn
	// sets is the number of connection sets so far. Each CONTROL connection begins a set, to which the
	// connections belong that are registered after it.
	sets uint64
	// wanted is the set of connections that this node has to open to the peer. Together with Backoff it is
	// the specification's connect-control block. It is nil if the peer has connected to us: this node does
	// not connect to it while those connections exist.
	wanted     *protocol.Wanted
	opening    bool // an opener exists: it is in an attempt, waits for its turn, or pauses after a failure
	connecting bool // the opener is in an attempt
	stopOpener context.CancelFunc
	lastPing   time.Time // when the last keepalive was sent
	// linkUps counts how often a link of the peer or of the interface came back up.
	linkUps atomic.Uint32
	probed  probed // only the reaper uses it
}

var emptySet = &connSet{missing: true}

// newPeer creates a peer. The engine's lock is held.
func (i *Interface) newPeer() *peer {
	p := &peer{i: i}
	p.set.Store(emptySet)
	return p
}

// enableCalls creates the set of connections that this node has to open to the peer, with the current
// conns_per_peer (socklnd 2.2).
func (p *peer) enableCalls() {
	p.wanted = &protocol.Wanted{PerType: p.i.options.Load().ConnsPerPeer}
}

// Send implements peering.Member.
func (p *peer) Send(m *lnd.Tx) bool {
	s := p.set.Load()
	if !s.missing {
		size := s.version.Overhead() + m.Payload.Length
		if c := s.forMessage(size, p.i.driver.config.MinBulk); c != nil && c.enqueue(m) {
			return true
		}
	}
	return p.sendSlowly(m)
}

// sendSlowly is the part of Send for a peer whose connections are missing, or none of which can carry m
// (socklnd 12.4). It starts an opener if that is useful. The message uses an existing connection, waits for
// one, or fails.
func (p *peer) sendSlowly(m *lnd.Tx) bool {
	for {
		p.Lock()
		if p.Gone {
			p.Unlock()
			return false
		}
		now := time.Now()
		p.mayCallBack()
		if m.Reconnect && !p.opening {
			p.Backoff.Skip()
		}
		p.call(now)
		s := p.set.Load()
		c := s.forMessage(s.version.Overhead()+m.Payload.Length, p.i.driver.config.MinBulk)
		if c != nil {
			p.Unlock()
			if c.enqueue(m) {
				return true
			}
			continue // c has died, and p.set no longer contains it
		}
		if p.expecting() {
			p.Waiting.Add(m, now)
			p.Unlock()
			return true
		}
		err := p.noConnectionError()
		p.Unlock()
		p.i.Out.Add(peering.Failed(m, err))
		return true
	}
}

// expecting reports whether an attempt of either side is in progress, or a connection is being set up, that
// could provide a connection for waiting messages. p is locked.
func (p *peer) expecting() bool {
	return p.opening || p.Accepting > 0 || slices.ContainsFunc(p.conns, func(c *conn) bool { return c.reserved && takes(c.version, c.typ) })
}

// noConnectionError returns the error for a message that no existing or expected connection can carry. p is
// locked.
func (p *peer) noConnectionError() error {
	switch {
	case p.i.Closed():
		return p.i.Error("send", p.ID.NID, lnd.StatusRemoteDropped, peering.ErrClosing)
	case p.Backoff.Cause != nil:
		return p.i.Error("send", p.ID.NID, lnd.StatusRemoteError, p.Backoff.Cause)
	}
	return p.i.Error("send", p.ID.NID, lnd.StatusRemoteError, peering.ErrNoWay)
}

// mayCallBack makes this node able to connect to a peer that has connected to us, if the connections of the
// peer have ended or its attempt has failed. Before that, this node leaves connecting to the peer. p is
// locked.
func (p *peer) mayCallBack() {
	if p.wanted == nil && len(p.conns) == 0 && p.Accepting == 0 && p.i.canCall(p.ID) {
		p.enableCalls()
	}
}

// call starts an opener if connections are missing, no opener exists and the back-off pause is over. p is
// locked.
func (p *peer) call(now time.Time) {
	if p.wanted == nil || p.opening || !p.Backoff.Ready(now) {
		return
	}
	if _, missing := p.wanted.Next(); !missing || p.Gone || p.i.Closed() {
		return
	}
	var ctx context.Context
	ctx, p.stopOpener = context.WithCancel(p.i.Context)
	p.opening = true
	p.i.Group.Add(1)
	go p.open(ctx)
	p.publish()
}

// publish updates the snapshot for senders. p is locked.
func (p *peer) publish() {
	missing := true
	if len(p.conns) > 0 {
		missing = false
		if p.wanted != nil && !p.opening {
			_, missing = p.wanted.Next()
		}
	}
	p.set.Store(newConnSet(p.peering.Version, p.conns, missing))
}

// connsBetween returns the number of the peer's connections of type t between two addresses. p is locked.
func (p *peer) connsBetween(local, remote netip.Addr, t protocol.ConnType) int {
	n := 0
	for _, c := range p.conns {
		if c.typ == t && c.local.Addr() == local && c.remote.Addr() == remote {
			n++
		}
	}
	return n
}

// reserve registers c as a connection of the peer. c carries no messages until establish is called. p is
// locked.
func (p *peer) reserve(c *conn) {
	if c.typ == protocol.Control {
		p.sets++
	}
	c.reserved, c.set = true, p.sets
	p.Loss = nil
	p.conns = append(p.conns, c)
	p.i.ledger.enter(c)
	if c.remote.Addr() == p.ID.NID.IP() {
		if p.wanted != nil {
			p.wanted.Add(c.typ)
		}
		p.Backoff.Reset()
	}
	c.recovers, p.Record.Troubled = p.Record.Troubled, false
}

// establish lets a reserved connection carry messages, first those that have waited for a connection. If a
// restart of the peer is still to be reported to the node, this happens when the report has been made.
func (p *peer) establish(c *conn) {
	p.Lock()
	c.ready = true
	p.Unlock()
	p.Restarted()
	if c.recovers {
		p.i.LogRecovered(p, peering.TextConnected)
	}
}

// Restarted implements peering.Member. It lets the connections that are set up carry messages, unless another
// restart is still to be reported.
func (p *peer) Restarted() {
	for c := p.nextReady(); c != nil; c = p.nextReady() {
		go c.read()
		c.flushQueued()
	}
}

// nextReady lets one connection that is set up carry messages, and returns it. It returns nil if there is no
// such connection, or if a restart of the peer is still to be reported to the node.
func (p *peer) nextReady() *conn {
	p.Lock()
	defer p.Unlock()
	k := slices.IndexFunc(p.conns, func(c *conn) bool { return c.reserved && c.ready })
	if k < 0 || p.Unreported() {
		return nil
	}
	c := p.conns[k]
	c.reserved = false
	p.LastAlive = time.Now()
	if takes(c.version, c.typ) {
		for _, w := range p.Waiting.Take().List {
			c.queue(w.M)
		}
	}
	p.publish()
	p.i.Group.Add(1)
	return c
}

// fail closes c because of an error on it, and with it all connections of the same or an earlier set to c's
// remote address, because the peer closes all of them on its side too (socklnd 15.1). A kernel also closes
// those of later sets. We do not: if the end of an old connection is noticed late, a peer that has already
// reconnected would lose its new connections.
func (p *peer) fail(c *conn, cause error) {
	p.Lock()
	if !slices.Contains(p.conns, c) {
		p.Unlock()
		return
	}
	p.i.Group.Add(1) // Close must wait for this call, which may run in a sender's goroutine
	defer p.i.Group.Done()
	cause = p.resolve(cause)
	victims := p.detach(func(o *conn) bool {
		return o.remote.Addr() == c.remote.Addr() && o.set <= c.set
	})
	if len(p.conns) == 0 {
		p.Loss = p.i.Error("connect", p.ID.NID, connectStatus(cause), cause)
		p.settle(p.i.Error("send", p.ID.NID, connectStatus(cause), cause))
	}
	p.Unlock()

	p.i.LogClosed(p, len(victims), cause)
	killAll(victims, cause)
	p.i.Out.Run()
	p.i.Forget(p)
}

// accepted ends the admission of a caller that Engine.Caller began. If messages still wait for a connection,
// because the caller got none or one that carries no messages, accepted starts an opener for them. If it
// cannot, they fail.
func (p *peer) accepted() {
	p.Lock()
	p.Accepting--
	if p.Waiting.Len() > 0 {
		p.mayCallBack()
		p.call(time.Now())
	}
	if len(p.conns) == 0 {
		p.settle(p.i.Error("send", p.ID.NID, lnd.StatusRemoteDropped, peering.ErrNoWay))
	}
	p.Unlock()
	p.i.Out.Run()
	p.i.Forget(p)
}

// settle is called when a connection, or an attempt to make one, has ended. It does nothing if another
// connection is expected. Otherwise it queues the report that the peer is lost if it has no connections, and
// the failure of the waiting messages with err. The report comes first, because LNet would otherwise resend
// the failed messages to this peer. p is locked. The caller then runs the outbox.
func (p *peer) settle(err error) {
	if p.expecting() {
		return
	}
	if len(p.conns) == 0 {
		p.i.PutDown(p)
	}
	p.i.Put(p.Waiting.Cancel(), err)
}

// detach removes the connections for which match returns true from the peer, and returns them. The caller
// closes them with killAll. p is locked.
func (p *peer) detach(match func(*conn) bool) []*conn {
	var out []*conn
	p.conns = slices.DeleteFunc(p.conns, func(c *conn) bool {
		if !match(c) {
			return false
		}
		out = append(out, c)
		if p.wanted != nil && c.remote.Addr() == p.ID.NID.IP() {
			p.wanted.Remove(c.typ)
		}
		return true
	})
	if len(p.conns) == 0 {
		// The record still contains the incarnation, so that a restart is noticed at the next contact.
		p.peering.Version = 0
		p.Doubt.End()
	}
	p.publish()
	return out
}

// Detach implements peering.Member. If an opener is running, messages that are sent from now on wait until it
// has ended (openCanceled). So the peer sees the end of the old connections before the first new one.
func (p *peer) Detach(cause error) (closeAll func()) {
	victims := p.detach(func(*conn) bool { return true })
	if p.opening {
		p.stopOpener()
	}
	return func() { killAll(victims, cause) }
}

// Connected implements peering.Member.
func (p *peer) Connected() bool { return len(p.conns) > 0 }

// Busy implements peering.Member.
func (p *peer) Busy() bool { return len(p.conns) > 0 || p.opening || p.Accepting > 0 }

// acknowledge sends the cookie of a zero-copy request back to the peer (socklnd 10). It uses the connection
// for non-blocking NOOPs if nonblk_zcack is set, or if routed reports that the message came through a router.
func (p *peer) acknowledge(cookie uint64, routed bool) error {
	s := p.set.Load()
	c := s.forNoop(routed || p.i.driver.config.NonblockingZCAck)
	if c == nil {
		return syscall.ENOTCONN
	}
	p.i.counters.acknowledgements.Add(1)
	return c.acknowledge(cookie)
}
