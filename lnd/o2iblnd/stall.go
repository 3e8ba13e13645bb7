package o2iblnd

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// Stall detection. A device acknowledges arriving messages even if its program does nothing. So if a SEND does
// not complete, the peer's host or the path to it is down. The device retransmits, and the path may recover.
// Therefore no connection is closed; the driver reports the stall to the node, which uses other paths.

// stallLapse is how long a stalled peer must have been without connections, attempts and messages before
// it no longer counts as stalled. It is the default of socklnd's max_reconnectms.
const stallLapse = time.Minute

// stalledSince returns since when SENDs are in flight without any completing. It returns the zero time if no
// SEND is in flight, or if that is so for less than peering.StallAfter.
func (c *conn) stalledSince(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending || c.inFlight == 0 || now.Sub(c.moved) < peering.StallAfter {
		return time.Time{}
	}
	return c.moved
}

// checkStall reports a stall of the peer, or its end, to the node. Anything that arrives on any of the
// connections shows that the peer is alive, even if a SEND takes long because others are queued before it.
func (p *peer) checkStall(now time.Time) {
	conns := p.inUse()
	look := peering.Look{Now: now, Conns: len(conns), Resumed: p.i.resumed, Sent: p.sent.Load(), Lapse: stallLapse}
	for _, c := range conns {
		look.Silent = peering.Earlier(look.Silent, c.stalledSince(now))
		if at := c.alive(); at.After(look.Alive) {
			look.Alive = at
		}
	}
	p.i.CheckStall(p, &look)
}

// Recall implements lnd.Interface.
func (i *Interface) Recall(nid lnet.NID, match func(*lnd.Tx) bool) {
	i.PutRecalled(i.recallMemoryWaiters(nid, match))
	i.Engine.Recall(nid, match)
	i.Out.Run()
}

// recallMemoryWaiters removes and returns the messages to nid that wait for memory and for which match returns
// true. The zero NID selects all peers.
func (i *Interface) recallMemoryWaiters(nid lnet.NID, match func(*lnd.Tx) bool) (back []*lnd.Tx) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.memoryWaiters = slices.DeleteFunc(i.memoryWaiters, func(h memoryWaiter) bool {
		yes := h.m != nil && (nid.IsZero() || h.m.To.NID == nid) && match(h.m)
		if yes {
			back = append(back, h.m)
		}
		return yes
	})
	return back
}

// inUse returns the connections that carry messages.
func (p *peer) inUse() []*conn {
	p.Lock()
	defer p.Unlock()
	return slices.Clone(p.conns)
}

// Recall implements peering.Member. It completes the messages itself.
func (p *peer) Recall(match func(*lnd.Tx) bool) []*lnd.Tx {
	for _, c := range p.inUse() {
		c.recall(match)
	}
	return nil
}

// recall cancels the messages of the connection of which nothing was posted and for which match returns true.
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

// Renew implements peering.Member.
func (p *peer) Renew(now time.Time) {
	for _, c := range p.inUse() {
		c.mu.Lock()
		if c.m != nil {
			c.m.Renew(now)
		}
		c.mu.Unlock()
	}
}

// Probe implements peering.Member. It sends a NOOP on each connection. The peer's device acknowledges it if the
// queue pair still exists there.
func (p *peer) Probe(now time.Time) bool {
	conns := p.inUse()
	for _, c := range conns {
		c.probe(now)
	}
	return len(conns) > 0
}

// Answered implements peering.Member.
func (p *peer) Answered() bool { return slices.ContainsFunc(p.inUse(), (*conn).hasAnswered) }

// CloseStale implements peering.Member.
func (p *peer) CloseStale() {
	for _, c := range p.inUse() {
		c.close(staleFailure())
	}
}

func (c *conn) probe(now time.Time) {
	c.mu.Lock()
	if c.m != nil && !c.ending {
		c.probedAt = c.completions
		c.m.Probe(now, &c.b)
		c.take(nil)
	}
	c.unlock()
}

// hasAnswered reports whether a work request has completed without an error since the probe.
func (c *conn) hasAnswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.completions > c.probedAt
}

// assumeRestarted is called when a connection has ended because of f, and ends the peer's doubt. If the peer
// was in doubt and did not answer or has disconnected, its incarnation has ended, and the restart is reported.
// A failure of this node's device shows nothing about the peer. p is locked.
func (p *peer) assumeRestarted(f *protocol.Failure) {
	gone := errors.Is(f, peering.ErrStale) || errors.Is(f, errPeerGone) || errors.Is(f, statusError(verbs.RetryExceeded)) ||
		f.Errno == syscall.ETIMEDOUT
	p.i.AssumeRestarted(p, gone)
}
