package node

import (
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet/portals"
)

// runMonitor is the body of the monitor's goroutine. Every second, and whenever it is
// woken, it does the work that has accumulated (lnet-core 12.2). Periods of more than a
// second are counted in whole seconds. Comparisons of exact times would often fail by a
// moment, because ticks are late by varying amounts, and so delay the work by another
// second.
func (n *Node) runMonitor() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	defer close(n.ended)
	scanned, rerouted, placed := n.second.Load(), n.second.Load(), n.second.Load()
	var overdue []portals.Overdue
	for {
		n.pulse.wait()
		select {
		case <-n.ctx.Done():
			return
		case <-n.wake:
		case <-tick.C:
		}
		n.pulse.resume()
		now := n.now()
		second := now/int64(time.Second) + 1
		n.second.Store(second)
		n.endLost()
		n.discoverer.exchanges.sendAll(n)
		n.resendAll()
		if second > rerouted {
			rerouted = second
			n.rerouteStalled()
		}
		strays := n.strays.take()
		n.run(&strays)
		n.release(n.held.take(func(h *heldMessage) bool { return h.until <= now }))
		if second-scanned >= n.parameters.Load().scanInterval() {
			scanned = second
			overdue = n.table.AppendOverdue(overdue[:0], now)
			n.expire(overdue, now)
		}
		if second > placed {
			placed = second
			n.placeRegions()
		}
		n.endUnanswered(second)
		n.runRecovery(second)
		n.runRouter()
		n.push.replenish(n)
		if n.infoStale.Swap(false) {
			n.infoMu.Lock()
			n.postInfo()
			n.infoMu.Unlock()
		}
		if n.pushAll.Swap(false) {
			n.discoverer.post(func(m *discovery.Machine, now time.Duration) { m.ForcePushAll(now) })
		}
	}
}

// wakeMonitor makes the monitor do its work immediately, without waiting for the next
// second.
func (n *Node) wakeMonitor() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// republishInfo makes the monitor publish ping info with the current status of the NIs,
// under the same sequence number (discovery 4.4).
func (n *Node) republishInfo() {
	n.infoStale.Store(true)
	n.wakeMonitor()
}

// expire unlinks the MDs whose responses are overdue, and lowers the health of the
// neighbours to which the requests were sent (lnet-core 6.4).
func (n *Node) expire(overdue []portals.Overdue, now int64) {
	for _, o := range overdue {
		if n.table.UnlinkOverdue(o.Handle, now) != nil {
			continue // the response has arrived since the search
		}
		n.stats.responseTimeouts.Add(1)
		n.log.Debug("request ended because no response arrived in time", "md", o.Handle, "next_hop", o.NextHop)
		if o.NextHop.IsZero() {
			continue
		}
		if p := n.peers.find(o.NextHop); p != nil {
			n.lowerPeerHealth(p, n.parameters.Load().HealthSensitivity)
		}
	}
}
