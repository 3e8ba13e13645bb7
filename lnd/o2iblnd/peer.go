package o2iblnd

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
)

// peer is a NID to which an interface has, wants or recently had connections. The lock of the embedded
// peering.Peer is "the lock of the peer".
type peer struct {
	peering.Peer
	i *Interface

	// set is a snapshot of the connections that Send uses one after the other. turn counts these uses.
	set       atomic.Pointer[[]*conn]
	turn      atomic.Uint32
	sent      atomic.Uint64       // number of SENDs posted
	allocated [roles]atomic.Int64 // bytes of each pool that transfers with this peer use

	// The lock of the peer guards the fields below.

	spread     protocol.Spread        // counts connections and attempts
	conns      []*conn                // connections that carry messages, oldest first
	ready      []*conn                // established connections that carry messages when no restart is still to be reported
	making     []*conn                // connections that are being established, by either side; Accepting counts the peer's
	calls      []*peering.Call[*peer] // queued attempts to connect
	redials    []time.Time            // when attempts are to be repeated
	activating bool                   // a goroutine in activate is processing ready[0]
}

// newPeer creates a peer. The engine's lock is held.
func (i *Interface) newPeer() *peer {
	p := &peer{i: i}
	p.set.Store(&[]*conn{})
	i.keeper.wakeTask() // the keeper has to start its timer for the peer
	return p
}

// wire returns what the protocol remembers of the peer, also while it has no connections. p is locked.
func (p *peer) wire() *protocol.Peering {
	if p.Record.Wire == nil {
		p.Record.Wire = new(protocol.Peering)
	}
	return p.Record.Wire.(*protocol.Peering)
}

// Send implements peering.Member.
func (p *peer) Send(m *lnd.Tx) bool {
	if set := *p.set.Load(); len(set) > 0 {
		c := set[0]
		if len(set) > 1 {
			c = set[int(p.turn.Add(1))%len(set)]
		}
		if c.submit(m) {
			return true
		}
	}
	return p.sendSlowly(m)
}

// sendSlowly is the part of Send for a peer without a usable connection (o2iblnd 12.4). The message waits for a
// connection. It fails if the last attempt has failed and the pause after it is not over.
func (p *peer) sendSlowly(m *lnd.Tx) bool {
	for {
		now := time.Now()
		p.Lock()
		if p.Gone {
			p.Unlock()
			return false
		}
		if c := p.live(); c != nil && p.Waiting.Len() == 0 {
			p.Unlock()
			if c.submit(m) {
				return true
			}
			continue // the connection has ended since
		}
		if !p.Busy() && !p.Backoff.Ready(now) {
			err := p.Backoff.Cause
			p.Unlock()
			p.i.Out.Add(peering.Failed(m, err))
			return true
		}
		p.Waiting.Add(m, now)
		p.call()
		p.Unlock()
		return true
	}
}

// live returns a connection that carries messages and has not ended, or nil. p is locked.
func (p *peer) live() *conn {
	for _, c := range p.conns {
		if !c.dead.Load() {
			return c
		}
	}
	return nil
}

// Connected implements peering.Member.
func (p *peer) Connected() bool { return len(p.conns)+len(p.ready) > 0 }

// Busy implements peering.Member.
func (p *peer) Busy() bool { return p.Connected() || p.Accepting > 0 || !p.spread.Empty() }

// call starts as many attempts to connect as the peer needs, if it has no connections and is not connecting to
// this node. p is locked.
func (p *peer) call() {
	if p.Accepting > 0 || len(p.ready) > 0 {
		return
	}
	for range p.spread.Want(p.i.options.Load().ConnsPerPeer) {
		p.spread.Dialled()
		p.i.keeper.do(task{kind: taskDial, p: p})
	}
}

// publish updates the snapshot of connections that Send uses: the oldest ones, up to conns_per_peer. If the
// peer has opened more, only the peer sends on these. p is locked.
func (p *peer) publish() {
	set := slices.Clone(p.conns[:min(len(p.conns), p.i.options.Load().ConnsPerPeer)])
	p.set.Store(&set)
}

// established is called when c is established. It closes connections of other incarnations of the peer (o2iblnd
// 12.3), and then lets c carry messages, or lets it wait in ready while a restart of the peer is still to be
// reported.
func (p *peer) established(c *conn) {
	p.Lock()
	if c.dead.Load() {
		p.Unlock()
		return
	}
	p.making = slices.DeleteFunc(p.making, func(o *conn) bool { return o == c })
	p.spread.Up(c.ours)
	if !c.ours {
		p.Accepting--
	}
	p.Backoff.Reset()
	recovers := p.Record.Troubled
	p.Record.Troubled = false
	p.Loss = nil
	p.LastAlive = time.Now()
	old := slices.DeleteFunc(slices.Concat(p.conns, p.ready), func(o *conn) bool { return o.session.Same(&c.session) })
	if c.ours { // otherwise admitCaller has recorded the incarnation
		p.i.Observe(p, c.session.PeerStamp, true)
	}
	p.ready = append(p.ready, c)
	p.Unlock()
	for _, o := range old {
		o.close(staleFailure())
	}
	p.i.Out.Run()
	p.activate()
	if recovers {
		p.i.LogRecovered(p, peering.TextConnected)
	}
}

// Restarted implements peering.Member.
func (p *peer) Restarted() { p.activate() }

// activate lets the connections in ready carry messages, first those that have waited for a connection. It does
// nothing while a restart of the peer is still to be reported; Restarted calls it again after that.
func (p *peer) activate() {
	for {
		p.Lock()
		if p.Unreported() || len(p.ready) == 0 || p.activating {
			p.Unlock()
			return
		}
		p.activating = true
		c := p.ready[0]
		p.Unlock()

		c.hold() // Close must wait until c is processed
		c.establish()
		p.flush(c)
		p.activating = false
		if k := slices.Index(p.ready, c); k >= 0 {
			p.ready = slices.Delete(p.ready, k, k+1)
			p.conns = append(p.conns, c)
			p.publish()
		}
		p.resume()
		p.Unlock()
		p.i.Out.Run()
		c.reportArrivals()
		c.unref()
	}
}

// flush submits the messages that wait for a connection to c, until no message waits or c has ended. It is
// called without the lock of p and returns with p locked.
func (p *peer) flush(c *conn) {
	p.Lock()
	p.Held++
	for p.Waiting.Len() > 0 && !c.dead.Load() {
		b := p.Waiting.Take()
		p.Unlock()
		k := 0
		for k < len(b.List) && c.submit(b.List[k].M) {
			k++
		}
		p.Lock()
		if k == len(b.List) {
			continue
		}
		if !p.Waiting.PutBack(b, k) {
			p.failCanceled(b.List[k:])
		}
		break
	}
	p.Held--
}

// failCanceled queues the failure of messages that flush had taken while the waiting messages were canceled. p
// is locked.
func (p *peer) failCanceled(list []peering.Waiter) {
	err := p.i.failed("send", p.ID.NID, aborted(peering.ErrDisconnect))
	if p.i.Closed() {
		err = p.i.Error("send", p.ID.NID, lnd.StatusRemoteDropped, peering.ErrClosing)
	}
	for _, w := range list {
		p.i.Out.Put(peering.Failed(w.M, err))
	}
}

// resume makes sure that messages that still wait for a connection are sent or fail: on an existing connection,
// or through new attempts, or with an error if the interface is closing. p is locked. The caller then runs the
// outbox.
func (p *peer) resume() {
	switch {
	case p.Waiting.Len() == 0:
	case p.i.Closed():
		p.i.Put(p.Waiting.Cancel(), p.i.Error("send", p.ID.NID, lnd.StatusRemoteDropped, peering.ErrClosing))
	case p.live() != nil:
		p.i.keeper.do(task{kind: taskFlush, p: p})
	default:
		p.call()
	}
}

// establish tells the connection's state machine that the connection is established, so that it sends and
// receives.
func (c *conn) establish() {
	c.mu.Lock()
	c.m.Establish(time.Now(), c.session, &c.b)
	c.take(nil)
	c.unlock()
}

// lose removes a connection that has ended from the peer, queues the upcalls and failures that follow from
// this, and makes the keeper destroy the connection. It is called once per connection.
func (p *peer) lose(c *conn) {
	f := c.failure
	closing := errors.Is(f, lnd.ErrClosed)
	alive := c.alive()
	p.Lock()
	if alive.After(p.LastAlive) {
		p.LastAlive = alive
	}
	up, final := p.remove(c)
	lost := !p.Busy()
	if up {
		p.i.PutLost(p, f)
		p.assumeRestarted(f)
	}
	switch {
	case c.detached, errors.Is(f, peering.ErrDisconnect): // Disconnect has ended c or its attempt: not a loss to report
	case final != nil:
		p.Loss = final
	case up && !p.Connected():
		p.Loss = p.i.failed("connect", p.ID.NID, f)
	}
	var orphans []*lnd.Tx
	if lost {
		p.Doubt.End()
		if final != nil {
			p.Record.Troubled = true
			p.Backoff.Fail(time.Now(), final, 0)
		}
		if final != nil || closing {
			orphans = p.Waiting.Cancel()
		}
	}
	p.resume()
	p.putDown()
	p.i.Put(orphans, cmp.Or(final, error(p.i.failed("connect", p.ID.NID, f))))
	p.Unlock()
	p.i.countLost(c, up, final)
	c.reportLost()
}

// putDown queues the upcall PeerDown if the peer has neither connections nor attempts (Engine.PutDown). p is
// locked. The caller then runs the outbox.
func (p *peer) putDown() {
	if !p.Busy() {
		p.i.PutDown(p)
	}
}

// remove removes c from the peer's lists. up reports whether c was established. If c was an attempt that has
// failed for good, final is the error; if the attempt is to be repeated, final is nil. p is locked.
func (p *peer) remove(c *conn) (up bool, final error) {
	for _, list := range [...]*[]*conn{&p.conns, &p.ready} {
		if k := slices.Index(*list, c); k >= 0 {
			*list = slices.Delete(*list, k, k+1)
			up = true
		}
	}
	if up {
		p.spread.Down()
		p.publish()
		return true, nil
	}
	p.making = slices.DeleteFunc(p.making, func(o *conn) bool { return o == c })
	d := c.decision
	switch {
	case !c.ours:
		p.Accepting--
	case d != nil && d.Redial && !p.i.Closed():
		p.redials = append(p.redials, d.At)
		if !d.At.After(time.Now()) {
			p.i.keeper.do(task{kind: taskTick})
		}
	case d != nil && d.Failure == nil:
		p.spread.Failed()
	case c.failure.Health == protocol.LocalAborted: // this node has canceled the attempt
		p.spread.Failed()
		p.wire().Failed()
	default:
		p.spread.Failed()
		if d == nil {
			p.wire().Failed()
		}
		if !c.detached && !errors.Is(c.failure, peering.ErrDisconnect) {
			final = p.i.failed("connect", p.ID.NID, c.failure)
		}
	}
	return false, final
}

// reportLost queues the remaining events of an ended connection, which must follow the upcalls that report its
// end. It then makes the keeper destroy the connection.
func (c *conn) reportLost() {
	c.mu.Lock()
	c.i.Out.Put(c.last...)
	c.last = nil
	c.lossReported = true
	c.mu.Unlock()
	c.i.keeper.do(task{kind: taskDestroy, c: c})
	c.i.Out.Run()
}

// all returns all connections of the peer, including those that are being established. p is locked.
func (p *peer) all() []*conn { return slices.Concat(p.conns, p.ready, p.making) }

// closeAll closes all connections of the peer because of f.
func (p *peer) closeAll(f *protocol.Failure) {
	p.Lock()
	list := p.all()
	p.Unlock()
	for _, c := range list {
		c.close(f)
	}
}

// Detach implements peering.Member.
func (p *peer) Detach(cause error) (closeAll func()) {
	list := p.all()
	for _, c := range p.making {
		c.detached = true
	}
	p.dropRedials()
	p.cancelCalls()
	return func() {
		for _, c := range list {
			c.close(aborted(cause))
		}
	}
}

// dropRedials cancels the repetition of attempts. p is locked.
func (p *peer) dropRedials() {
	for range p.redials {
		p.spread.Failed()
	}
	p.redials = nil
}

func staleFailure() *protocol.Failure {
	return &protocol.Failure{Health: protocol.LocalError, Errno: syscall.ESTALE, Err: peering.ErrStale}
}
