package socklnd

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// peer is one remote process to which an interface has, wants or recently had connections (socklnd 1).
type peer struct {
	i  *Interface
	id lnet.ProcessID

	// set is a snapshot of conns for senders.
	set  atomic.Pointer[connSet]
	turn atomic.Uint64 // counts selections of a connection

	// corks counts readers that are processing a batch of arrivals. Meanwhile, messages to the peer are
	// queued, up to maxCorked of them, and dirty is set; the reader writes them at the end of its
	// batch. Senders set dirty before they check corks. Readers check dirty after they have decremented
	// corks. So no message is left behind.
	corks atomic.Int32
	dirty atomic.Bool

	// talking is the connection that received the last message, among those that can be shared.
	talking atomic.Pointer[conn]

	mu       sync.Mutex // guards the fields below, except those of the reaper
	gone     bool       // removed from the interface's table
	peering  protocol.Peering
	record   peering.Record[struct{}]
	restarts peering.Restarts
	told     chan struct{} // closed when the node has been notified of the latest restart; nil if none
	conns    []*conn
	// sets counts the connection sets so far. Each set starts with a CONTROL connection.
	sets uint64
	// wanted and backoff are the connect-control block. wanted is nil for a peer that connected to us:
	// while its connections exist, we do not connect back.
	wanted     *protocol.Wanted
	backoff    peering.Backoff
	opening    bool // an opener runs, waits for its turn or backs off
	connecting bool // the opener is in an attempt
	stopOpener context.CancelFunc
	accepting  int // inbound connections of this peer between decision and registration
	waiting    peering.Waiting
	// loss is why the last connection has ended, or could not be made. It is nil if a connection exists, or
	// if PeerDown has been called since.
	loss      error
	lastAlive time.Time
	lastPing  time.Time     // keepalive
	stall     peering.Stall // changed by the reaper only
	// linkUps counts how often a link of the peer or of the interface came back up.
	linkUps atomic.Uint32
	doubt   peering.Doubt
	probed  probed // used by the reaper only
}

var emptySet = &connSet{missing: true}

// newPeer creates a peer and restores what departed holds of it. i.mu is held.
func newPeer(i *Interface, id lnet.ProcessID) *peer {
	p := &peer{i: i, id: id}
	p.record, p.backoff = i.departed.Recall(id, time.Now())
	p.backoff.Min, p.backoff.Max = i.driver.config.MinReconnect, i.driver.config.MaxReconnect
	p.set.Store(emptySet)
	return p
}

// callable creates the peer's connect-control block with the current conns_per_peer (socklnd 2.2).
func (p *peer) callable() {
	p.wanted = &protocol.Wanted{PerType: p.i.options.Load().ConnsPerPeer}
}

// send queues m, writes it or fails it. It returns false if the peer has left the table. In that case m
// is untouched.
func (p *peer) send(m *lnd.Tx) bool {
	s := p.set.Load()
	if !s.missing {
		size := s.version.Overhead() + m.Payload.Length
		if c := s.forMessage(size, p.i.driver.config.MinBulk); c != nil && c.enqueue(m) {
			return true
		}
	}
	return p.sendSlowly(m)
}

// sendSlowly is the slow path of send, used if connections are missing (socklnd 12.4).
func (p *peer) sendSlowly(m *lnd.Tx) bool {
	for {
		p.mu.Lock()
		if p.gone {
			p.mu.Unlock()
			return false
		}
		now := time.Now()
		p.mayCallBack()
		p.call(now)
		s := p.set.Load()
		c := s.forMessage(s.version.Overhead()+m.Payload.Length, p.i.driver.config.MinBulk)
		if c != nil {
			p.mu.Unlock()
			if c.enqueue(m) {
				return true
			}
			continue // c died and has left the set
		}
		if p.opening || p.accepting > 0 {
			p.waiting.Add(m, now)
			p.mu.Unlock()
			return true
		}
		err := p.uncallable()
		p.mu.Unlock()
		p.i.out.Add(event{m: m, err: err})
		return true
	}
}

// uncallable returns the error for a message that no existing or expected connection can carry. p.mu is
// held.
func (p *peer) uncallable() error {
	switch {
	case p.i.ctx.Err() != nil:
		return messageError("send", p.id.NID, lnd.StatusRemoteDropped, errClosing)
	case p.backoff.Cause != nil:
		return messageError("send", p.id.NID, lnd.StatusRemoteError, p.backoff.Cause)
	}
	return messageError("send", p.id.NID, lnd.StatusRemoteError, errNoWay)
}

// mayCallBack allows connecting to a peer that connected to us, once its connections have ended or its
// attempt has failed. p.mu is held.
func (p *peer) mayCallBack() {
	if p.wanted == nil && len(p.conns) == 0 && p.accepting == 0 && p.i.canCall(p.id) {
		p.callable()
	}
}

// call starts an opener if connections are missing, no opener is running and the back-off time has
// passed. p.mu is held.
func (p *peer) call(now time.Time) {
	if p.wanted == nil || p.opening || !p.backoff.Ready(now) {
		return
	}
	if _, missing := p.wanted.Next(); !missing || p.i.ctx.Err() != nil {
		return
	}
	var ctx context.Context
	ctx, p.stopOpener = context.WithCancel(p.i.ctx)
	p.opening = true
	p.i.group.Add(1)
	go p.open(ctx)
	p.publish()
}

// publish updates the snapshot for senders. p.mu is held.
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

// connsBetween returns the number of connections of type t between two addresses. p.mu is held.
func (p *peer) connsBetween(local, remote netip.Addr, t protocol.ConnType) int {
	n := 0
	for _, c := range p.conns {
		if c.typ == t && c.local.Addr() == local && c.remote.Addr() == remote {
			n++
		}
	}
	return n
}

// reserve registers c as a connection of the peer before it carries messages. p.mu is held.
func (p *peer) reserve(c *conn) {
	if c.typ == protocol.Control {
		p.sets++
	}
	c.reserved, c.set = true, p.sets
	p.loss = nil
	p.conns = append(p.conns, c)
	p.i.ledger.enter(c)
	if c.remote.Addr() == p.id.NID.IP() {
		if p.wanted != nil {
			p.wanted.Add(c.typ)
		}
		p.backoff.Reset()
	}
}

// establish makes a reserved connection carry messages, starting with those that waited for it. It does
// nothing if the connection has been closed meanwhile.
func (p *peer) establish(c *conn) {
	p.awaitTold()
	p.mu.Lock()
	if !slices.Contains(p.conns, c) {
		p.mu.Unlock()
		return
	}
	c.reserved = false
	p.lastAlive = time.Now()
	if takes(c.version, c.typ) {
		for _, w := range p.waiting.Take().List {
			c.queue(w.M)
		}
	}
	p.publish()
	p.i.group.Add(1)
	p.mu.Unlock()
	go c.read()
	c.flushQueued()
}

// fail closes all connections of c's set to c's remote address because of an error on c (socklnd 15.1):
// the peer closes all of them on its side too. A kernel also closes those of later sets. We do not: if
// the end of an old connection is noticed late, a peer that has reconnected would lose its new
// connections.
func (p *peer) fail(c *conn, cause error) {
	p.mu.Lock()
	if !slices.Contains(p.conns, c) {
		p.mu.Unlock()
		return
	}
	p.i.group.Add(1) // may be called from a sender: Close must wait
	defer p.i.group.Done()
	news, cause := p.resolve(cause)
	victims := p.detach(func(o *conn) bool {
		return o.remote.Addr() == c.remote.Addr() && o.set <= c.set
	})
	if len(p.conns) == 0 {
		p.loss = cause
		p.settle(messageError("send", p.id.NID, connectStatus(cause), cause))
	}
	p.mu.Unlock()

	peering.SayClosed(p.i.log, p.id.NID, len(victims), cause)
	killAll(victims, cause)
	p.tell(news)
	p.i.out.Run()
	p.i.forget(p)
}

// say logs an event of the peer's connections.
func (p *peer) say(level slog.Level, text string, attrs ...slog.Attr) {
	peering.Say(p.i.log, p.id.NID, level, text, attrs...)
}

// accepted ends what callerFor started. If no connection resulted, or one that carries no messages,
// messages may be waiting for it; they get a new attempt or fail.
func (p *peer) accepted() {
	p.mu.Lock()
	p.accepting--
	if p.waiting.Len() > 0 {
		p.mayCallBack()
		p.call(time.Now())
	}
	if len(p.conns) == 0 {
		p.settle(messageError("send", p.id.NID, lnd.StatusRemoteDropped, errNoWay))
	}
	p.mu.Unlock()
	p.i.out.Run()
	p.i.forget(p)
}

// settle is called when a connection or an attempt to make one has ended. If no other attempt is in
// progress, it reports a peer without connections as lost, and fails the messages that wait with err.
// The report comes first, because failed messages would be resent to this peer. p.mu is held. The caller
// then runs the outbox.
func (p *peer) settle(err error) {
	if p.opening || p.accepting > 0 {
		return
	}
	if len(p.conns) == 0 {
		p.putDown()
	}
	p.i.putFailed(p.waiting.Cancel(), err)
}

// detach removes the connections for which match returns true from the peer. p.mu is held.
func (p *peer) detach(match func(*conn) bool) []*conn {
	var out []*conn
	p.conns = slices.DeleteFunc(p.conns, func(c *conn) bool {
		if !match(c) {
			return false
		}
		out = append(out, c)
		if p.wanted != nil && c.remote.Addr() == p.id.NID.IP() {
			p.wanted.Remove(c.typ)
		}
		return true
	})
	if len(p.conns) == 0 {
		// The incarnation stays on record until the next contact.
		p.peering.Version = 0
		p.doubt.End()
	}
	p.publish()
	return out
}

// disconnect closes all connections and fails the messages that wait for one.
func (p *peer) disconnect() {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return
	}
	p.i.group.Add(1) // Close must wait
	defer p.i.group.Done()
	victims := p.detach(func(*conn) bool { return true })
	p.loss = nil
	p.i.putFailed(p.waiting.Cancel(), messageError("send", p.id.NID, lnd.StatusLocalAborted, errDisconnect))
	if p.opening {
		// Messages sent from now on wait until the opener has ended (openCanceled), so that the peer
		// first sees the end of the old connections.
		p.stopOpener()
	}
	p.backoff.Reset() // a later message connects again at once
	p.mu.Unlock()
	killAll(victims, errDisconnect)
	p.i.out.Run()
	p.i.forget(p)
}

// abandon closes all connections to the peer and removes it from the table.
func (p *peer) abandon(cause error) {
	p.i.mu.Lock()
	p.mu.Lock()
	p.gone = true
	if p.i.peers[p.id] == p {
		delete(p.i.peers, p.id)
	}
	if p.stopOpener != nil {
		p.stopOpener()
	}
	p.loss = nil
	victims := p.detach(func(*conn) bool { return true })
	p.i.putFailed(p.waiting.Cancel(), messageError("send", p.id.NID, connectStatus(cause), cause))
	p.mu.Unlock()
	p.i.mu.Unlock()
	killAll(victims, cause)
	p.i.out.Run()
}

// idle reports whether the peer can leave the table: it has no connection, no attempt and no message,
// is not reported as stalled, and no restart is still to be reported. p.mu is held.
func (p *peer) idle() bool { return !p.stall.Stalled() && p.spent() && !p.restarts.Pending() }

// spent is like idle, but the node may still consider the peer stalled. p.mu is held.
func (p *peer) spent() bool {
	return len(p.conns) == 0 && !p.opening && p.accepting == 0 && p.waiting.Len() == 0
}

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
