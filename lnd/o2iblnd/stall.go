package o2iblnd

import (
	"errors"
	"log/slog"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnet"
)

// Stall detection. A device acknowledges arriving messages no matter what its program does. So if a
// SEND does not complete, the peer or the path to it is down. The device retransmits, and may recover.
// No connection is closed for this reason; the node is notified and uses other paths.

// stallAfter is how long nothing must have been acknowledged.
const stallAfter = time.Second

// stalledSince returns since when the connection has made no progress. It returns zero if it makes
// progress, or has stalled for less than stallAfter.
func (c *conn) stalledSince(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending || c.inFlight == 0 || now.Sub(c.moved) < stallAfter {
		return time.Time{}
	}
	return c.moved
}

// given is a fingerprint of what has been sent to the peer. It changes when more is sent.
type given struct {
	sent    uint64
	waiting waiting
}

// given returns the current fingerprint. p.mu is held.
func (p *peer) given() (g given) {
	g.sent = p.sent.Load()
	if n := len(p.pending); n > 0 {
		g.waiting = p.pending[n-1]
	}
	return g
}

// judge reports to the node whether the peer has stalled. A peer stays stalled until a connection works
// again, or until nothing has been left to answer for a while.
func (p *peer) judge(now time.Time) {
	p.mu.Lock()
	conns := append([]*conn(nil), p.conns...)
	p.mu.Unlock()
	since := p.silentSince(conns, now)
	p.mu.Lock()
	if len(p.conns) == 0 && len(p.pending) > 0 && now.Sub(p.pending[0].since) >= stallAfter {
		since = earlier(since, p.pending[0].since)
	}
	since = stalledFor(since, p.i.resumed, now)
	before := p.stall
	switch {
	case !since.IsZero():
		p.stall = earlier(before, since)
	case len(conns) > 0:
		p.stall = time.Time{}
	case p.lonely() && len(p.pending) == 0 && p.backoff.Ready(now):
		p.stall = time.Time{}
	}
	after, g := p.stall, p.given()
	tell := before.IsZero() != after.IsZero() || !after.IsZero() && g != p.stallNow
	p.stallNow = g
	p.mu.Unlock()
	if !tell {
		return
	}
	switch {
	case after.IsZero():
		p.say(slog.LevelInfo, "peer answers again")
		p.i.LinkBack(p.nid)
	case before.IsZero():
		p.i.counters.stalls.Add(1)
		p.say(slog.LevelWarn, "peer does not answer", slog.Time("since", after))
	}
	p.i.upper.PeerStalled(p.nid, after)
}

// silentSince returns since when connections have made no progress and nothing has arrived from the
// peer, or the zero time. Anything that arrives on any of them shows that the peer is alive, even if a
// SEND takes long because others are queued before it.
func (p *peer) silentSince(conns []*conn, now time.Time) (since time.Time) {
	var alive time.Time
	for _, c := range conns {
		since = earlier(since, c.stalledSince(now))
		if at := c.alive(); at.After(alive) {
			alive = at
		}
	}
	return stalledFor(since, alive, now)
}

// stalledFor returns the later of since and later, if that is at least stallAfter ago. Otherwise, or if
// since is zero, it returns the zero time.
func stalledFor(since, later, now time.Time) time.Time {
	if since.IsZero() {
		return since
	}
	if later.After(since) {
		since = later
	}
	if now.Sub(since) < stallAfter {
		return time.Time{}
	}
	return since
}

// earlier returns the earlier of two times. A zero time is ignored.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Recall implements lnd.Interface.
func (i *Interface) Recall(nid lnet.NID, match func(*lnd.Tx) bool) {
	var back events
	i.mu.Lock()
	kept := i.hungry[:0]
	for _, h := range i.hungry {
		if h.m != nil && (nid.IsZero() || h.m.To.NID == nid) && match(h.m) {
			back = append(back, recalled(h.m))
		} else {
			kept = append(kept, h)
		}
	}
	clear(i.hungry[len(kept):])
	i.hungry = kept
	i.mu.Unlock()
	for _, p := range i.peersOf(nid) {
		p.mu.Lock()
		var rest []waiting
		for _, w := range p.pending {
			if match(w.m) {
				back = append(back, recalled(w.m))
			} else {
				rest = append(rest, w)
			}
		}
		p.pending = rest
		conns := append([]*conn(nil), p.conns...)
		p.mu.Unlock()
		for _, c := range conns {
			c.recall(match)
		}
	}
	i.out.add(back...)
}

func recalled(m *lnd.Tx) event {
	return event{m: m, err: messageError("send", m.To.NID, lnd.StatusLocalInterrupt, lnd.ErrRecalled)}
}

func (c *conn) recall(match func(*lnd.Tx) bool) {
	c.mu.Lock()
	if c.m != nil && !c.ending {
		c.m.Recall(func(t *protocol.Tx) bool {
			x, ok := t.Owner.(*tx)
			return ok && match(x.m)
		}, &c.b)
		c.take(nil)
	}
	c.unlock()
}

// LinkBack implements lnd.Interface.
func (i *Interface) LinkBack(nid lnet.NID) {
	now := time.Now()
	for _, p := range i.peersOf(nid) {
		p.mu.Lock()
		for k := range p.pending {
			p.pending[k].since = now
		}
		conns := append([]*conn(nil), p.conns...)
		p.mu.Unlock()
		for _, c := range conns {
			c.mu.Lock()
			if c.m != nil {
				c.m.Renew(now)
			}
			c.mu.Unlock()
		}
	}
}

// Probe implements lnd.Interface. It sends a NOOP, which is acknowledged if the peer's queue pair is
// alive.
func (i *Interface) Probe(nid lnet.NID) bool {
	p := i.find(nid)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns) == 0 {
		return len(p.ready) > 0 // a connection that has just come up is not in doubt
	}
	if p.doubt.Begin() {
		i.keeper.do(task{kind: taskTick})
	}
	return true
}

// settleDoubt sends the probes. It ends the doubt after a sign of life. If the peer stays silent for
// too long, it closes the connections.
func (p *peer) settleDoubt(now time.Time) {
	p.mu.Lock()
	ask, asked := p.doubt.Ask(now), p.doubt.Asked()
	conns := slices.Clone(p.conns)
	p.mu.Unlock()
	switch {
	case ask:
		for _, c := range conns {
			c.probe(now)
		}
		return
	case !asked:
		return
	}
	alive := slices.ContainsFunc(conns, (*conn).hasAnswered)
	p.mu.Lock()
	silent := p.doubt.Judge(now, alive)
	p.mu.Unlock()
	if !silent {
		return
	}
	for _, c := range conns {
		c.close(staleFailure())
	}
}

func (c *conn) probe(now time.Time) {
	c.mu.Lock()
	if c.m != nil && !c.ending {
		c.asked = c.heard
		c.m.Probe(now, &c.b)
		c.take(nil)
	}
	c.unlock()
}

// hasAnswered reports whether there was a sign of life since the probe.
func (c *conn) hasAnswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard > c.asked
}

// presume interprets the end of a connection of a peer in doubt: if the peer did not answer or has
// disconnected, its incarnation has ended. A failure of the device of this node says nothing about the
// peer. p.mu is held.
func (p *peer) presume(f *protocol.Failure) {
	doubted := p.doubt.End()
	gone := errors.Is(f, errStale) || errors.Is(f, errPeerGone) || errors.Is(f, statusError(verbs.RetryExceeded)) ||
		f.Errno == syscall.ETIMEDOUT
	if doubted && gone && p.record.Incarnations.Presume() {
		p.tellRestart()
	}
}
