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

// peer is a NID to which an interface has, wants or recently had connections.
type peer struct {
	peering.Peer
	i *Interface

	// set holds the connections for messages, which are used in turn.
	set       atomic.Pointer[[]*conn]
	turn      atomic.Uint32
	sent      atomic.Uint64       // messages posted
	allocated [roles]atomic.Int64 // bytes in use of the pools

	// The lock of Peer guards the fields below.

	spread     protocol.Spread
	conns      []*conn                // established, oldest first
	ready      []*conn                // established; waiting until a restart has been reported
	making     []*conn                // being established; Accepting counts those that the peer opened
	calls      []*peering.Call[*peer] // attempts that wait for their turn
	redials    []time.Time
	activating bool // activate is processing the first of ready
}

// newPeer creates a peer. The engine's lock is held.
func (i *Interface) newPeer() *peer {
	p := &peer{i: i}
	p.set.Store(&[]*conn{})
	i.keeper.wakeTask() // for its timer
	return p
}

// wire is what the protocol remembers of the peer. p is locked.
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

// sendSlowly sends m if no connection is usable (o2iblnd 12.4).
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
			continue // the connection died
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

// live returns a connection that carries messages, or nil. p is locked.
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

// call starts the missing attempts to connect for a peer without connections. p is locked.
func (p *peer) call() {
	if p.Accepting > 0 || len(p.ready) > 0 {
		return
	}
	for range p.spread.Want(p.i.options.Load().ConnsPerPeer) {
		p.spread.Dialled()
		p.i.keeper.do(task{kind: taskDial, p: p})
	}
}

// publish updates the connections that senders use: the oldest ones, up to conns_per_peer. Surplus
// connections are left to the peer. p is locked.
func (p *peer) publish() {
	set := slices.Clone(p.conns[:min(len(p.conns), p.i.options.Load().ConnsPerPeer)])
	p.set.Store(&set)
}

// established makes a connection carry messages once the peer's latest restart has been reported to the
// node. It closes connections of other incarnations (o2iblnd 12.3).
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
	p.Loss = nil
	p.LastAlive = time.Now()
	old := slices.DeleteFunc(slices.Concat(p.conns, p.ready), func(o *conn) bool { return o.session.Same(&c.session) })
	if c.ours { // otherwise admitCaller has met it
		p.i.Observe(p, c.session.PeerStamp, true)
	}
	p.ready = append(p.ready, c)
	p.Unlock()
	for _, o := range old {
		o.close(staleFailure())
	}
	p.i.Out.Run()
	p.activate()
}

// Restarted implements peering.Member.
func (p *peer) Restarted() { p.activate() }

// activate makes connections carry messages, starting with those that waited, once no restart remains
// to be reported.
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

		c.hold() // so that Close waits
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

// flush submits the waiting messages to a connection. It returns with p locked, when no message waits or c is
// dead.
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

// failCanceled queues the failure of messages that were to be canceled while flush had taken them. p is locked.
func (p *peer) failCanceled(list []peering.Waiter) {
	err := p.i.failed("send", p.ID.NID, aborted(peering.ErrDisconnect))
	if p.i.Closed() {
		err = p.i.Error("send", p.ID.NID, lnd.StatusRemoteDropped, peering.ErrClosing)
	}
	for _, w := range list {
		p.i.Out.Put(peering.Failed(w.M, err))
	}
}

// resume arranges for the remaining waiting messages to be sent or to fail. p is locked. The caller
// then runs the outbox.
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

// establish starts the connection's state machine.
func (c *conn) establish() {
	c.mu.Lock()
	c.m.Establish(time.Now(), c.session, &c.b)
	c.take(nil)
	c.unlock()
}

// lose removes a connection that has ended, queues the resulting upcalls, and has the connection
// destroyed. It is called once per connection.
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
	case c.detached, errors.Is(f, peering.ErrDisconnect): // no failure, or one of before Disconnect
	case final != nil:
		p.Loss = final
	case up && !p.Connected():
		p.Loss = p.i.failed("connect", p.ID.NID, f)
	}
	var orphans []*lnd.Tx
	if lost {
		p.Doubt.End()
		if final != nil {
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

// putDown queues the report that the peer is lost, if it is. p is locked. The caller then runs the outbox.
func (p *peer) putDown() {
	if !p.Busy() {
		p.i.PutDown(p)
	}
}

// remove removes c. up reports whether c was established. final is not nil if c was the last of a
// series of attempts; it is the cause of the failure. p is locked.
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
	case c.failure.Health == protocol.LocalAborted: // this node has canceled it
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

// reportLost queues the completions of an ended connection, after the upcalls that report its end, and has
// it destroyed.
func (c *conn) reportLost() {
	c.mu.Lock()
	c.i.Out.Put(c.last...)
	c.last = nil
	c.lossReported = true
	c.mu.Unlock()
	c.i.keeper.do(task{kind: taskDestroy, c: c})
	c.i.Out.Run()
}

// all returns all connections, including those being established. p is locked.
func (p *peer) all() []*conn { return slices.Concat(p.conns, p.ready, p.making) }

// closeAll closes all connections.
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

// dropRedials cancels the attempts that wait for a pause to end. p is locked.
func (p *peer) dropRedials() {
	for range p.redials {
		p.spread.Failed()
	}
	p.redials = nil
}

func staleFailure() *protocol.Failure {
	return &protocol.Failure{Health: protocol.LocalError, Errno: syscall.ESTALE, Err: peering.ErrStale}
}
