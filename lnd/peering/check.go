package peering

import (
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Recall implements lnd.Interface.
func (e *Engine[P]) Recall(nid lnet.NID, match func(*lnd.Tx) bool) {
	for _, p := range e.Of(nid) {
		c := p.Common()
		c.Lock()
		if c.Gone {
			c.Unlock()
			continue
		}
		e.Group.Add(1) // Stop waits until the recalled messages are completed
		e.PutRecalled(c.Waiting.Recall(match))
		c.Unlock()
		e.PutRecalled(p.Recall(match))
		e.Out.Run()
		e.Group.Done()
	}
}

// PutRecalled queues the completion of messages that the node has recalled: they fail with lnd.ErrRecalled.
// The caller then runs the outbox.
func (e *Engine[P]) PutRecalled(ms []*lnd.Tx) {
	for _, m := range ms {
		e.Out.Put(Failed(m, e.Error("send", m.To.NID, lnd.StatusLocalInterrupt, lnd.ErrRecalled)))
	}
}

// LinkBack implements lnd.Interface.
func (e *Engine[P]) LinkBack(nid lnet.NID) {
	now := time.Now()
	for _, p := range e.Of(nid) {
		e.renew(p, now)
	}
}

// renew restarts the timeouts of everything that is expected from a peer: of messages that wait for a
// connection, and of the peer's connections.
func (e *Engine[P]) renew(p P, now time.Time) {
	c := p.Common()
	c.Lock()
	c.Waiting.Renew(now)
	c.Unlock()
	p.Renew(now)
}

// Late removes and returns the messages that have waited for a connection to p longer than limit. The caller
// fails them, after it has called PutDown. If p has no connection, Late records the timeout as the loss that
// PutDown reports. The peer's lock is held.
func (e *Engine[P]) Late(p P, now time.Time, limit time.Duration) []*lnd.Tx {
	c := p.Common()
	late := c.Waiting.Expire(now.Add(-limit))
	if len(late) > 0 && c.Loss == nil && !p.Connected() {
		c.Loss = e.Error("connect", c.ID.NID, lnd.StatusNetworkTimeout, ErrWaited)
	}
	e.Count.PendingTimeouts.Add(uint64(len(late)))
	return late
}

// Probe implements lnd.Interface.
func (e *Engine[P]) Probe(nid lnet.NID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, known := e.peers[lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}]
	if !known {
		return false
	}
	c := p.Common()
	c.Lock()
	defer c.Unlock()
	if !p.Connected() {
		return false
	}
	if c.Doubt.Begin() {
		e.doubted = append(e.doubted, p)
		e.Doubted()
	}
	return true
}

// SettleDoubts probes the peers for which the node has called Probe since the last time. Probe itself does
// not do this, because its goroutine may be in the middle of an upcall that reports a restart, and a probe
// that fails has to report another one.
func (e *Engine[P]) SettleDoubts(now time.Time) {
	e.mu.Lock()
	doubted := e.doubted
	e.doubted = nil
	e.mu.Unlock()
	for _, p := range doubted {
		e.probe(p, now)
	}
}

// SettleDoubt checks a peer in doubt (see Doubt). It sends the probe if none was sent. It ends the doubt if
// the peer has given a sign of life since the probe, and closes the peer's connections if the peer has been
// silent for too long. It does nothing for a peer that is not in doubt.
func (e *Engine[P]) SettleDoubt(p P, now time.Time) {
	if e.probe(p, now) {
		return
	}
	c := p.Common()
	c.Lock()
	asked := c.Doubt.Probed()
	c.Unlock()
	if !asked {
		return
	}
	alive := p.Answered()
	c.Lock()
	silent := c.Doubt.Check(now, alive)
	c.Unlock()
	if silent {
		p.CloseStale()
	}
}

// probe sends the probe to a peer in doubt, unless it was sent before. It reports whether it did. If the peer
// has no connection that can be probed, it ends the doubt.
func (e *Engine[P]) probe(p P, now time.Time) bool {
	c := p.Common()
	c.Lock()
	ask := c.Doubt.BeginProbe(now)
	c.Unlock()
	if ask && !p.Probe(now) {
		c.Lock()
		c.Doubt.End()
		c.Unlock()
	}
	return ask
}

// CheckStall updates the peer's stall state and reports a change to the node (Upper.PeerStalled). The caller
// has set the fields of look that come from its connections: Now, Conns, Silent, Alive, Resumed, Sent and
// Lapse. CheckStall sets the others.
func (e *Engine[P]) CheckStall(p P, look *Look) {
	c := p.Common()
	if !c.listens() {
		return
	}
	c.Lock()
	look.Waiting, look.Connected = &c.Waiting, p.Connected()
	look.Idle = !p.Busy() && c.Waiting.Len() == 0
	change, since := c.Stall.Check(look)
	switch change {
	case StallBegun:
		c.Record.Troubled = true
	case StallEnded:
		c.Record.Troubled = false
	case StallUnchanged, StallMore, StallLapsed:
	}
	c.Unlock()
	switch change {
	case StallUnchanged:
		return
	case StallBegun:
		e.Count.Stalls.Add(1)
		e.LogPeer(p, slog.LevelWarn, "peer does not answer", slog.Time("since", since))
	case StallEnded:
		e.LogRecovered(p, "peer answers again")
		e.renew(p, look.Now)
	case StallMore, StallLapsed:
	}
	e.Upper.PeerStalled(c.ID.NID, since)
}
