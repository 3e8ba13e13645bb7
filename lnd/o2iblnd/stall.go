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
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// Stall detection. A device acknowledges arriving messages no matter what its program does. So if a
// SEND does not complete, the peer or the path to it is down. The device retransmits, and may recover.
// No connection is closed for this reason; the node is notified and uses other paths.

// stallLapse is how long a stalled peer must have been without connections, attempts and messages before
// it no longer counts as stalled. It is the default of socklnd's max_reconnectms.
const stallLapse = time.Minute

// stalledSince returns since when the connection has made no progress. It returns zero if it makes
// progress, or has stalled for less than peering.StallAfter.
func (c *conn) stalledSince(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending || c.inFlight == 0 || now.Sub(c.moved) < peering.StallAfter {
		return time.Time{}
	}
	return c.moved
}

// judge reports to the node whether the peer has stalled. Anything that arrives on any connection shows
// that the peer is alive, even if a SEND takes long because others are queued before it.
func (p *peer) judge(now time.Time) {
	p.mu.Lock()
	conns := slices.Clone(p.conns)
	p.mu.Unlock()
	look := peering.Look{
		Now: now, Conns: len(conns), Resumed: p.i.resumed, Sent: p.sent.Load(), Waiting: &p.waiting, Lapse: stallLapse,
	}
	for _, c := range conns {
		look.Silent = peering.Earlier(look.Silent, c.stalledSince(now))
		if at := c.alive(); at.After(look.Alive) {
			look.Alive = at
		}
	}
	p.mu.Lock()
	look.Connected, look.Idle = len(p.conns) > 0, p.lonely() && p.waiting.Len() == 0
	news, since := p.stall.Judge(&look)
	p.mu.Unlock()
	switch news {
	case peering.StallUnchanged:
		return
	case peering.StallBegun:
		p.i.counters.stalls.Add(1)
		p.say(slog.LevelWarn, "peer does not answer", slog.Time("since", since))
	case peering.StallEnded:
		p.say(slog.LevelInfo, "peer answers again")
		p.i.LinkBack(p.nid)
	case peering.StallMore, peering.StallLapsed:
	}
	p.i.upper.PeerStalled(p.nid, since)
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
		for _, m := range p.waiting.Recall(match) {
			back = append(back, recalled(m))
		}
		conns := append([]*conn(nil), p.conns...)
		p.mu.Unlock()
		for _, c := range conns {
			c.recall(match)
		}
	}
	i.out.Add(back...)
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
		p.waiting.Renew(now)
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
