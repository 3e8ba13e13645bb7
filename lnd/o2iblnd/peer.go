package o2iblnd

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// peer is a NID to which an interface has, wants or recently had connections.
type peer struct {
	i   *Interface
	nid lnet.NID

	// set holds the connections for messages, which are used in turn.
	set  atomic.Pointer[[]*conn]
	turn atomic.Uint32
	sent atomic.Uint64       // messages posted
	lent [roles]atomic.Int64 // bytes in use of the pools

	mu         sync.Mutex // guards the fields below
	gone       bool       // removed from the interface's table
	record     peering.Record[protocol.Peering]
	backoff    peering.Backoff
	spread     protocol.Spread
	conns      []*conn                // established, oldest first
	ready      []*conn                // established; waiting until a restart has been reported
	making     []*conn                // being established
	calls      []*peering.Call[*peer] // attempts that wait for their turn
	accepting  int                    // how many of those the peer opened
	redials    []time.Time
	waiting    peering.Waiting
	activating bool // activate is processing the first of ready
	restarts   peering.Restarts
	lastAlive  time.Time
	// loss is why the last connection has ended, or could not be made. It is nil if a connection exists, or
	// if PeerDown has been called since.
	loss error

	doubt peering.Doubt
	stall peering.Stall // changed by the keeper only
}

func newPeer(i *Interface, nid lnet.NID) *peer {
	p := &peer{i: i, nid: nid}
	p.record, p.backoff = i.departed.Recall(p.id(), time.Now())
	p.backoff.Min, p.backoff.Max = i.driver.config.RedialPause, i.driver.config.RedialPause
	p.set.Store(&[]*conn{})
	return p
}

// id returns the peer's process: the protocol knows no other one at a NID.
func (p *peer) id() lnet.ProcessID { return lnet.ProcessID{NID: p.nid, PID: lnet.PIDLustre} }

// send submits m to a connection, queues it until one is established, or fails it. It returns false if
// the peer has left the table. In that case m is untouched.
func (p *peer) send(m *lnd.Tx) bool {
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

// sendSlowly is send without a usable connection (o2iblnd 12.4).
func (p *peer) sendSlowly(m *lnd.Tx) bool {
	for {
		now := time.Now()
		p.mu.Lock()
		if p.gone {
			p.mu.Unlock()
			return false
		}
		if p.i.closed() {
			p.mu.Unlock()
			p.i.out.Add(event{m: m, err: messageError("send", p.nid, lnd.StatusRemoteDropped, errClosing)})
			return true
		}
		if c := p.live(); c != nil && p.waiting.Len() == 0 {
			p.mu.Unlock()
			if c.submit(m) {
				return true
			}
			continue // the connection died
		}
		if p.lonely() && !p.backoff.Ready(now) {
			err := p.backoff.Cause
			p.mu.Unlock()
			p.i.out.Add(event{m: m, err: err})
			return true
		}
		p.waiting.Add(m, now)
		p.call()
		p.mu.Unlock()
		return true
	}
}

// live returns a connection that carries messages, or nil. p.mu is held.
func (p *peer) live() *conn {
	for _, c := range p.conns {
		if !c.dead.Load() {
			return c
		}
	}
	return nil
}

// say logs an event of the peer's connections.
func (p *peer) say(level slog.Level, text string, attrs ...slog.Attr) {
	peering.Say(p.i.log, p.nid, level, text, attrs...)
}

// lonely reports whether the peer has neither a connection nor an attempt. p.mu is held.
func (p *peer) lonely() bool {
	return p.spread.Empty() && p.accepting == 0 && len(p.conns)+len(p.ready) == 0
}

// call starts the missing attempts to connect for a peer without connections. p.mu is held.
func (p *peer) call() {
	if p.accepting > 0 || len(p.ready) > 0 {
		return
	}
	for range p.spread.Want(p.i.options.Load().ConnsPerPeer) {
		p.spread.Dialled()
		p.i.keeper.do(task{kind: taskDial, p: p})
	}
}

// publish updates the connections that senders use: the oldest ones, up to conns_per_peer. Surplus
// connections are left to the peer. p.mu is held.
func (p *peer) publish() {
	set := slices.Clone(p.conns[:min(len(p.conns), p.i.options.Load().ConnsPerPeer)])
	p.set.Store(&set)
}

// established makes a connection carry messages once the peer's latest restart has been reported to the
// node. It closes connections of other incarnations (o2iblnd 12.3).
func (p *peer) established(c *conn) {
	p.mu.Lock()
	if c.dead.Load() {
		p.mu.Unlock()
		return
	}
	p.making = slices.DeleteFunc(p.making, func(o *conn) bool { return o == c })
	p.spread.Up(c.ours)
	if !c.ours {
		p.accepting--
	}
	p.backoff.Reset()
	p.loss = nil
	p.lastAlive = time.Now()
	old := slices.DeleteFunc(slices.Concat(p.conns, p.ready), func(o *conn) bool { return o.session.Same(&c.session) })
	if c.ours { // otherwise admitCaller has met it
		p.met(c.session.PeerStamp, true)
	}
	p.ready = append(p.ready, c)
	p.mu.Unlock()
	for _, o := range old {
		o.close(staleFailure())
	}
	p.i.out.Run()
	p.activate()
}

// met records an incarnation that the peer has announced, at its own address or not, and reports a
// restart that it shows. p.mu is held.
func (p *peer) met(incarnation uint64, home bool) {
	p.record.Home = p.record.Home || home
	if p.record.Incarnations.Meet(incarnation) {
		p.tellRestart()
	}
}

func (p *peer) tellRestart() {
	p.restarts.Add()
	p.i.out.Put(event{kind: evRestarted, peer: p.nid, p: p})
}

// toldRestart is called when a restart has been reported.
func (p *peer) toldRestart() {
	p.mu.Lock()
	p.restarts.Done()
	p.mu.Unlock()
	p.activate()
}

// activate makes connections carry messages, starting with those that waited, once no restart remains
// to be reported.
func (p *peer) activate() {
	for {
		p.mu.Lock()
		if p.restarts.Pending() || len(p.ready) == 0 || p.activating {
			p.mu.Unlock()
			return
		}
		p.activating = true
		c := p.ready[0]
		p.mu.Unlock()

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
		p.mu.Unlock()
		p.i.out.Run()
		c.tellArrivals()
		c.unref()
	}
}

// flush submits the waiting messages to a connection. It returns with p.mu held, when no message waits
// or c is dead.
func (p *peer) flush(c *conn) {
	for {
		p.mu.Lock()
		if p.waiting.Len() == 0 || c.dead.Load() {
			return
		}
		b := p.waiting.Take()
		p.mu.Unlock()
		for k, w := range b.List {
			if c.submit(w.M) {
				continue
			}
			p.mu.Lock()
			if !p.waiting.PutBack(b, k) {
				for _, w := range b.List[k:] {
					p.i.out.Put(event{m: w.M, err: failed("send", p.nid, aborted(errDisconnect))})
				}
			}
			return
		}
	}
}

// resume arranges for the remaining waiting messages to be sent or to fail. p.mu is held. The caller
// then runs the outbox.
func (p *peer) resume() {
	switch {
	case p.waiting.Len() == 0:
	case p.i.closed():
		p.i.putFailed(p.waiting.Cancel(), messageError("send", p.nid, lnd.StatusRemoteDropped, errClosing))
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
	p.mu.Lock()
	if alive.After(p.lastAlive) {
		p.lastAlive = alive
	}
	up, final := p.remove(c)
	lost := p.lonely()
	if up && !closing {
		p.i.out.Put(event{kind: evLost, peer: p.nid})
	}
	if up {
		p.presume(f)
	}
	switch {
	case errors.Is(f, errDisconnect): // the peer has not failed
	case final != nil:
		p.loss = final
	case up && len(p.conns)+len(p.ready) == 0:
		p.loss = failed("connect", p.nid, f)
	}
	var orphans []*lnd.Tx
	if lost {
		p.doubt.End()
		if final != nil {
			p.backoff.Fail(time.Now(), final, 0)
		}
		if final != nil || closing {
			orphans = p.waiting.Cancel()
		}
	}
	p.resume()
	p.putDown()
	p.i.putFailed(orphans, cmp.Or(final, error(failed("connect", p.nid, f))))
	p.mu.Unlock()
	p.i.countLost(c, up, final)
	c.tellLost()
}

// putDown queues the report that the peer is lost, if it is and the report has not been made since the
// peer's last connection or attempt has ended. p.mu is held. The caller then runs the outbox.
func (p *peer) putDown() {
	err := p.loss
	if err == nil || !p.lonely() || p.i.closed() {
		return
	}
	p.loss = nil
	p.i.counters.peersDown.Add(1)
	p.i.out.Put(event{kind: evDown, down: lnd.PeerDown{Peer: p.nid, LastAlive: p.lastAlive, Err: err}})
}

// remove removes c. up reports whether c was established. final is not nil if c was the last of a
// series of attempts; it is the cause of the failure. p.mu is held.
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
		p.accepting--
	case d != nil && d.Redial && !p.i.closed():
		p.redials = append(p.redials, d.At)
		if !d.At.After(time.Now()) {
			p.i.keeper.do(task{kind: taskTick})
		}
	case d != nil && d.Failure == nil:
		p.spread.Failed()
	case c.failure.Health == protocol.LocalAborted: // this node has canceled it
		p.spread.Failed()
		p.record.Wire.Failed()
	default:
		p.spread.Failed()
		if d == nil {
			p.record.Wire.Failed()
		}
		if !errors.Is(c.failure, errDisconnect) {
			final = failed("connect", p.nid, c.failure)
		}
	}
	return false, final
}

// tellLost queues the completions of an ended connection, after the upcalls that report its end, and has
// it destroyed.
func (c *conn) tellLost() {
	c.mu.Lock()
	c.i.out.Put(c.last...)
	c.last = nil
	c.told = true
	c.mu.Unlock()
	c.i.keeper.do(task{kind: taskBury, c: c})
	c.i.out.Run()
}

// all returns all connections, including those being established. p.mu is held.
func (p *peer) all() []*conn { return slices.Concat(p.conns, p.ready, p.making) }

// closeAll closes all connections.
func (p *peer) closeAll(f *protocol.Failure) {
	p.mu.Lock()
	list := p.all()
	p.mu.Unlock()
	for _, c := range list {
		c.close(f)
	}
}

// disconnect closes all connections and fails the messages that wait for one.
func (p *peer) disconnect(cause error) {
	f := aborted(cause)
	p.mu.Lock()
	list := p.all()
	p.i.putFailed(p.waiting.Cancel(), failed("send", p.nid, f))
	p.dropRedials()
	p.backoff.Reset() // a later message connects again at once
	p.cancelCalls()
	p.loss = nil
	p.mu.Unlock()
	for _, c := range list {
		c.close(f)
	}
	p.i.out.Run()
}

// dropRedials cancels the attempts that wait for a pause to end. p.mu is held.
func (p *peer) dropRedials() {
	for range p.redials {
		p.spread.Failed()
	}
	p.redials = nil
}

// idle reports whether the peer can leave the table. p.mu is held.
func (p *peer) idle() bool {
	return p.spread.Empty() && p.accepting == 0 && len(p.making)+len(p.ready)+p.waiting.Len() == 0 &&
		!p.restarts.Pending() && !p.stall.Stalled() && p.backoff.Ready(time.Now())
}

func staleFailure() *protocol.Failure {
	return &protocol.Failure{Health: protocol.LocalError, Errno: syscall.ESTALE, Err: errStale}
}
