package socklnd

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// peer is one process that an interface has, wants or recently had connections
// with (socklnd 1).
type peer struct {
	i  *Interface
	id lnet.ProcessID

	// set is the picture of conns that senders use.
	set  atomic.Pointer[connSet]
	turn atomic.Uint64 // counts choices between connections

	// corks counts readers that are working through a batch of arrivals;
	// what is sent meanwhile is queued, up to maxCorked messages, dirty is set,
	// and the reader writes it at the end of its batch. dirty is set before
	// corks is looked at, and looked at after corks is lowered, so that nothing
	// stays behind.
	corks atomic.Int32
	dirty atomic.Bool

	// talking is the connection that the last message came by, of those that can be shared.
	talking atomic.Pointer[conn]

	mu      sync.Mutex // guards the rest, but for what is the reaper's
	gone    bool       // not in the interface's table any more
	peering protocol.Peering
	home    bool          // it was met at its NID's own address
	told    chan struct{} // closed when the node knows of its latest restart; nil: none
	conns   []*conn
	// sets counts the sets of connections that there have been: each begins
	// with a CONTROL.
	sets uint64
	// wanted and backoff are the connect-control block; wanted is nil for a
	// peer that called us: it is not called back while it exists.
	wanted     *protocol.Wanted
	backoff    protocol.Backoff
	opening    bool // an opener is at work, waits for its turn or pauses
	connecting bool // it is at work
	stopOpener context.CancelFunc
	accepting  int // newcomers of this peer between decision and registration
	pending    []waiting
	lastAlive  time.Time
	lastPing   time.Time // keepalive
	// stalledSince is since when the node knows that the peer does not answer;
	// the reaper's.
	stalledSince time.Time
	stalledWith  given // when the node was told last; the reaper's alone
	// linkUps is how often a link of the peer's came back.
	linkUps atomic.Uint32
	spentAt time.Time // when the reaper first found it spent; the reaper's alone
	doubt   *doubt    // nil: none
}

// waiting is a message that waits for a connection.
type waiting struct {
	m     *lnd.Tx
	since time.Time
}

var emptySet = &connSet{missing: true}

// newPeer makes a peer that may have been known before. i.mu is held.
func newPeer(i *Interface, id lnet.ProcessID) *peer {
	p := &peer{i: i, id: id}
	p.peering.Lives, p.home = i.departed.recall(id)
	p.backoff = i.departed.recallFailed(id, time.Now())
	p.set.Store(emptySet)
	return p
}

// callable gives the peer its connect-control block. conns_per_peer is that of
// now (socklnd 2.2).
func (p *peer) callable() {
	c := &p.i.driver.config
	p.wanted = &protocol.Wanted{PerType: p.i.options.Load().perPeer}
	p.backoff.Min, p.backoff.Max = c.MinReconnect, c.MaxReconnect
}

// send queues or writes m, or fails it. It returns false if the peer has left
// the table, and then has not touched m.
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

// sendSlowly is send where connections are missing (socklnd 12.4).
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
			continue // c died; it has left the set
		}
		if p.opening || p.accepting > 0 {
			p.setPending(append(p.pending, waiting{m, now}))
			p.mu.Unlock()
			return true
		}
		cause := errNoWay
		if p.backoff.Cause != nil {
			cause = p.backoff.Cause
		}
		p.mu.Unlock()
		p.i.failures.add(m, messageError("send", p.id.NID, lnd.StatusRemoteError, cause))
		return true
	}
}

// mayCallBack makes a peer that called us one that we call, if its connections
// have gone or its call came to nothing. p.mu is held.
func (p *peer) mayCallBack() {
	if p.wanted == nil && len(p.conns) == 0 && p.accepting == 0 && p.i.canCall(p.id) {
		p.callable()
	}
}

// call starts an opener if connections are missing, none is at work and the
// back-off has passed. p.mu is held.
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

// publish renews the picture that senders use. p.mu is held.
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

// connsBetween counts connections of type t between two addresses. p.mu is
// held.
func (p *peer) connsBetween(local, remote netip.Addr, t protocol.ConnType) int {
	n := 0
	for _, c := range p.conns {
		if c.typ == t && c.local.Addr() == local && c.remote.Addr() == remote {
			n++
		}
	}
	return n
}

// reserve counts c as one of the peer's connections, before it carries
// messages. p.mu is held.
func (p *peer) reserve(c *conn) {
	if c.typ == protocol.Control {
		p.sets++
	}
	c.reserved, c.set = true, p.sets
	p.conns = append(p.conns, c)
	p.i.ledger.enter(c)
	if c.remote.Addr() == p.id.NID.IP() {
		if p.wanted != nil {
			p.wanted.Add(c.typ)
		}
		p.backoff.Reset()
	}
}

// establish lets a reserved connection carry messages, beginning with those
// that waited for it; unless it was closed meanwhile.
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
		for _, w := range p.pending {
			c.queue(w.m)
		}
		p.setPending(nil)
	}
	p.publish()
	p.i.group.Add(1)
	p.mu.Unlock()
	go c.read()
	c.flushQueued()
}

// fail closes, because of an error on c, all connections of c's set with c's
// remote address (socklnd 15.1): the peer closes all of its side too. A kernel
// closes those of later sets as well; but when the end of an old connection is
// seen late, a peer that has reconnected would lose its new ones.
func (p *peer) fail(c *conn, cause error) {
	p.mu.Lock()
	if !slices.Contains(p.conns, c) {
		p.mu.Unlock()
		return
	}
	p.i.group.Add(1) // whoever sends may be here: Close must wait
	defer p.i.group.Done()
	news, cause := p.resolve(cause)
	victims := p.detach(func(o *conn) bool {
		return o.remote.Addr() == c.remote.Addr() && o.set <= c.set
	})
	lost := len(p.conns) == 0 && !p.opening && p.accepting == 0
	orphans := p.orphans(lost)
	lastAlive := p.lastAlive
	p.mu.Unlock()

	level := slog.LevelInfo
	if errors.Is(cause, lnd.ErrProtocol) {
		level = slog.LevelWarn
	}
	p.say(level, "connections closed", slog.Int("count", len(victims)), slog.Any("cause", cause))
	killAll(victims, cause, func() {
		p.tell(news)
		if lost { // before messages fail, which would be sent here again
			p.notifyDown(lastAlive, cause)
		}
	})
	p.i.failures.addAll(orphans, messageError("send", p.id.NID, connectStatus(cause), cause))
	p.i.forget(p)
}

// say logs what becomes of the connections with the peer: all that is one cause.
func (p *peer) say(level slog.Level, text string, attrs ...slog.Attr) {
	p.i.log.Tell(boundedlog.Line{Level: level, Text: text, Cause: "connections", Of: boundedlog.AboutPeer(p.id.NID)}, attrs...)
}

// accepted ends what callerFor began. Where it came to nothing, or to a
// connection that carries no messages, some may have waited for it in vain.
func (p *peer) accepted() {
	p.mu.Lock()
	p.accepting--
	if len(p.pending) > 0 {
		p.mayCallBack()
		p.call(time.Now())
	}
	orphans := p.orphans(len(p.conns) == 0 && !p.opening && p.accepting == 0)
	p.mu.Unlock()
	p.i.failures.addAll(orphans, messageError("send", p.id.NID, lnd.StatusRemoteDropped, errNoWay))
	p.i.forget(p)
}

// detach takes connections for which match is true out of the peer. p.mu is held.
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
		p.doubt = nil
	}
	p.publish()
	return out
}

// orphans takes the waiting messages out if nothing is left to wait for. p.mu
// is held.
func (p *peer) orphans(lost bool) []*lnd.Tx {
	if !lost || len(p.pending) == 0 {
		return nil
	}
	ms := make([]*lnd.Tx, len(p.pending))
	for n, w := range p.pending {
		ms[n] = w.m
	}
	p.setPending(nil)
	return ms
}

// disconnect closes all connections and gives up what waits for one.
func (p *peer) disconnect() {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return
	}
	p.i.group.Add(1) // Close must wait
	defer p.i.group.Done()
	victims := p.detach(func(*conn) bool { return true })
	orphans := p.orphans(true)
	if p.opening {
		// What is sent from now on waits until it has ended (openCanceled), so
		// that the peer sees the end of the old connections first.
		p.stopOpener()
		p.backoff.Resume()
	}
	p.mu.Unlock()
	killAll(victims, errDisconnect, nil)
	p.i.failures.addAll(orphans, messageError("send", p.id.NID, lnd.StatusLocalAborted, errDisconnect))
	p.i.forget(p)
}

// abandon closes everything with the peer and takes it out of the table.
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
	victims := p.detach(func(*conn) bool { return true })
	orphans := p.orphans(true)
	p.mu.Unlock()
	p.i.mu.Unlock()
	killAll(victims, cause, nil)
	p.i.failures.addAll(orphans, messageError("send", p.id.NID, connectStatus(cause), cause))
}

// notifyDown tells the node that the peer is lost; not of processes that only
// their own connections can reach (socklnd 15.4). An orderly end counts too: a
// peer that closes its connections is going away.
func (p *peer) notifyDown(lastAlive time.Time, cause error) {
	if p.id.PID&lnet.PIDUserFlag != 0 || errors.Is(cause, errClosing) {
		return
	}
	p.i.counters.peersDown.Add(1)
	p.i.upper.PeerDown(lnd.PeerDown{
		Peer:      p.id.NID,
		LastAlive: lastAlive,
		Err:       messageError("connect", p.id.NID, connectStatus(cause), cause),
	})
}

// notifyLost tells the node that connections with the peer have died.
func (p *peer) notifyLost(cause error) {
	if p.id.PID == lnet.PIDLustre && !errors.Is(cause, errClosing) {
		p.i.upper.ConnectionsLost(p.id.NID)
	}
}

// idle tells that nothing keeps the peer in the table: no connection, no
// attempt, no message. p.mu is held.
func (p *peer) idle() bool { return p.stalledSince.IsZero() && p.spent() }

// spent is idle, except that the node may still count the peer as one that does
// not answer. p.mu is held.
func (p *peer) spent() bool {
	return len(p.conns) == 0 && !p.opening && p.accepting == 0 && len(p.pending) == 0
}

// setPending has the messages wait, and counts them. p.mu is held.
func (p *peer) setPending(all []waiting) {
	p.i.pending.Add(int64(len(all) - len(p.pending)))
	p.pending = all
}

// acknowledge returns the cookie of a zero-copy request to the peer, once
// (socklnd 10). A message that came through a router, or any with
// nonblk_zcack, is acknowledged out of turn.
func (p *peer) acknowledge(cookie uint64, routed bool) error {
	s := p.set.Load()
	c := s.forNoop(routed || p.i.driver.config.NonblockingZCAck)
	if c == nil {
		return syscall.ENOTCONN
	}
	p.i.counters.acknowledgements.Add(1)
	return c.acknowledge(cookie)
}

// cork holds back what is sent to the peer until uncork: a reader works
// through a batch and the answers shall travel as a batch too.
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
