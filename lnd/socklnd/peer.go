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

// peer is one remote process to which an interface has, wants or recently had connections (socklnd 1).
type peer struct {
	peering.Peer
	i *Interface

	// set is a snapshot of conns for senders.
	set  atomic.Pointer[connSet]
	turn atomic.Uint64 // counts selections of a connection

	// corks counts readers that are processing a batch of arrivals. Meanwhile, messages to the peer are
	// queued, up to maxCorked of them, and dirty is set; the reader writes them at the end of its
	// batch. Senders set dirty before they check corks. Readers check dirty after they have decremented
	// corks. So no message is left behind.
	corks atomic.Int32
	dirty atomic.Bool

	// lastReceiver is the connection that received the last message, among those that can be shared.
	lastReceiver atomic.Pointer[conn]

	// The lock of Peer guards the fields below, except those of the reaper.

	peering protocol.Peering
	conns   []*conn
	// sets counts the connection sets so far. Each set starts with a CONTROL connection.
	sets uint64
	// wanted is the connect-control block, together with Backoff. It is nil for a peer that connected to us:
	// while its connections exist, we do not connect back.
	wanted     *protocol.Wanted
	opening    bool // an opener runs, waits for its turn or backs off
	connecting bool // the opener is in an attempt
	stopOpener context.CancelFunc
	lastPing   time.Time // keepalive
	// linkUps counts how often a link of the peer or of the interface came back up.
	linkUps atomic.Uint32
	probed  probed // used by the reaper only
}

var emptySet = &connSet{missing: true}

// newPeer creates a peer. The engine's lock is held.
func (i *Interface) newPeer() *peer {
	p := &peer{i: i}
	p.set.Store(emptySet)
	return p
}

// enableCalls creates the peer's connect-control block with the current conns_per_peer (socklnd 2.2).
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

// sendSlowly is the slow path of Send, used if connections are missing (socklnd 12.4).
func (p *peer) sendSlowly(m *lnd.Tx) bool {
	for {
		p.Lock()
		if p.Gone {
			p.Unlock()
			return false
		}
		now := time.Now()
		p.mayCallBack()
		p.call(now)
		s := p.set.Load()
		c := s.forMessage(s.version.Overhead()+m.Payload.Length, p.i.driver.config.MinBulk)
		if c != nil {
			p.Unlock()
			if c.enqueue(m) {
				return true
			}
			continue // c died and has left the set
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

// expecting reports whether a connection may come that could carry messages. p is locked.
func (p *peer) expecting() bool {
	return p.opening || p.Accepting > 0 || slices.ContainsFunc(p.conns, func(c *conn) bool { return c.reserved && takes(c.version, c.typ) })
}

// noConnectionError returns the error for a message that no existing or expected connection can carry. p.mu is
// held.
func (p *peer) noConnectionError() error {
	switch {
	case p.i.Closed():
		return p.i.Error("send", p.ID.NID, lnd.StatusRemoteDropped, peering.ErrClosing)
	case p.Backoff.Cause != nil:
		return p.i.Error("send", p.ID.NID, lnd.StatusRemoteError, p.Backoff.Cause)
	}
	return p.i.Error("send", p.ID.NID, lnd.StatusRemoteError, peering.ErrNoWay)
}

// mayCallBack allows connecting to a peer that connected to us, once its connections have ended or its
// attempt has failed. p is locked.
func (p *peer) mayCallBack() {
	if p.wanted == nil && len(p.conns) == 0 && p.Accepting == 0 && p.i.canCall(p.ID) {
		p.enableCalls()
	}
}

// call starts an opener if connections are missing, no opener is running and the back-off time has
// passed. p is locked.
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

// connsBetween returns the number of connections of type t between two addresses. p is locked.
func (p *peer) connsBetween(local, remote netip.Addr, t protocol.ConnType) int {
	n := 0
	for _, c := range p.conns {
		if c.typ == t && c.local.Addr() == local && c.remote.Addr() == remote {
			n++
		}
	}
	return n
}

// reserve registers c as a connection of the peer before it carries messages. p is locked.
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
}

// establish makes a reserved connection carry messages, starting with those that waited for it, as soon as no
// restart of the peer is still to be reported.
func (p *peer) establish(c *conn) {
	p.Lock()
	c.ready = true
	p.Unlock()
	p.Restarted()
}

// Restarted implements peering.Member.
func (p *peer) Restarted() {
	for c := p.nextReady(); c != nil; c = p.nextReady() {
		go c.read()
		c.flushQueued()
	}
}

// nextReady makes the next connection that is ready carry messages, and returns it. It returns nil if there is
// none, or if it has to wait for the report of a restart.
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

// fail closes all connections of c's set to c's remote address because of an error on c (socklnd 15.1):
// the peer closes all of them on its side too. A kernel also closes those of later sets. We do not: if
// the end of an old connection is noticed late, a peer that has reconnected would lose its new
// connections.
func (p *peer) fail(c *conn, cause error) {
	p.Lock()
	if !slices.Contains(p.conns, c) {
		p.Unlock()
		return
	}
	p.i.Group.Add(1) // may be called from a sender: Close must wait
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

// accepted ends what Engine.Caller started. If no connection resulted, or one that carries no messages,
// messages may be waiting for it; they get a new attempt or fail.
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

// settle is called when a connection or an attempt to make one has ended. If no other attempt is in
// progress, it reports a peer without connections as lost, and fails the messages that wait with err.
// The report comes first, because failed messages would be resent to this peer. p is locked. The caller
// then runs the outbox.
func (p *peer) settle(err error) {
	if p.expecting() {
		return
	}
	if len(p.conns) == 0 {
		p.i.PutDown(p)
	}
	p.i.Put(p.Waiting.Cancel(), err)
}

// detach removes the connections for which match returns true from the peer. p is locked.
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
		// The incarnation stays on record until the next contact.
		p.peering.Version = 0
		p.Doubt.End()
	}
	p.publish()
	return out
}

// Detach implements peering.Member. Messages sent from now on wait until the opener has ended (openCanceled), so
// that the peer first sees the end of the old connections.
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

// acknowledge sends the cookie of a zero-copy request back to the peer (socklnd 10). With nonblk_zcack,
// or for a message that came through a router, it uses the connection for non-blocking NOOPs.
func (p *peer) acknowledge(cookie uint64, routed bool) error {
	s := p.set.Load()
	c := s.forNoop(routed || p.i.driver.config.NonblockingZCAck)
	if c == nil {
		return syscall.ENOTCONN
	}
	p.i.counters.acknowledgements.Add(1)
	return c.acknowledge(cookie)
}

// cork holds back messages to the peer until uncork. A reader uses it while it processes a batch, so
// that the answers are sent as a batch too.
func (p *peer) cork() { p.corks.Add(1) }

func (p *peer) uncork() {
	p.corks.Add(-1)
	if !p.dirty.Load() || !p.dirty.Swap(false) {
		return
	}
	s := p.set.Load()
	for _, list := range [4][]*conn{s.control, s.bulkOut, s.bulkIn, s.untyped} {
		for _, c := range list {
			c.flushQueued()
		}
	}
}
