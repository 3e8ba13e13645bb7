package o2iblnd

import (
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// longestRest is the pause of a resting keeper if no keepalive is ever due.
const longestRest = time.Hour

// rest returns the pause until the keeper's next tick: keepPeriod or, if no work is in progress, the time until
// the first keepalive. If new work begins during the pause, keeper.wakeResting ends it.
func (i *Interface) rest(now time.Time) time.Duration {
	i.keeper.resting.Store(true) // before the check, so that work that begins during the check ends the pause
	due := now.Add(longestRest)
	if !i.resting(&due) {
		i.keeper.resting.Store(false)
		return keepPeriod
	}
	return max(due.Sub(now), keepPeriod+1)
}

// resting reports whether the interface has no work in progress. If so, it sets due to the time of the first
// keepalive if that is earlier than due.
func (i *Interface) resting(due *time.Time) bool {
	i.mu.RLock()
	rests := i.bound != nil && !i.Closed() && len(i.memoryWaiters) == 0
	i.mu.RUnlock()
	if !rests {
		return false
	}
	for _, p := range i.Of(lnet.NID{}) {
		if !p.resting(due) {
			return false
		}
	}
	return true
}

// resting is Interface.resting for one peer. It returns false for a peer without connections, because such a
// peer waits for a connection or is about to leave the table.
func (p *peer) resting(due *time.Time) bool {
	p.Lock()
	rests := len(p.conns) > 0 && len(p.ready)+len(p.making)+len(p.calls)+len(p.redials)+p.Waiting.Len() == 0 &&
		p.Accepting == 0 && !p.Unreported() && p.Doubt == (peering.Doubt{}) && !p.Stall.Stalled()
	conns := append([]*conn(nil), p.conns...)
	p.Unlock()
	for k := 0; rests && k < len(conns); k++ {
		rests = conns[k].resting(due)
	}
	return rests
}

// resting is Interface.resting for one connection.
func (c *conn) resting(due *time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || c.ending || c.inFlight > 0 || c.m.State() != protocol.Established || c.m.Busy() {
		return false
	}
	if at := c.m.KeepaliveDue(); !at.IsZero() && at.Before(*due) {
		*due = at
	}
	return true
}
