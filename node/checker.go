package node

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

// check is the schedule of the router checker for one gateway (lnet-core 8.5). due is the
// time of the next check of each net; a net without an entry is due immediately. last is
// the net that was checked most recently, and therefore comes last in the order of checks.
//
// A gateway that is down on a net is also checked at the time retry, and then after pauses
// that double from checkPause to deadPauseMax or, if the gateway answers, to the interval of
// checks. So its routes can be used soon after it has come back (decisions 245). pause is
// the last of these pauses without jitter, and 0 if the gateway is up.
type check struct {
	due          map[lnet.Net]time.Duration
	last         lnet.Net
	retry, pause time.Duration
}

// idleSleep is how long the discoverer sleeps if it has no timer to wait for. A new event
// wakes it earlier.
const idleSleep = time.Hour

// checkPause is the time between two searches for gateways whose check is due.
const checkPause = time.Second

// deadPauseMax is the maximum pause between checks of a gateway that does not answer,
// without jitter.
const deadPauseMax = 8 * time.Second

// checkRouters starts the checks of gateways that are due. It returns how long the
// discoverer may sleep before it calls checkRouters again. If it is called earlier, it does
// nothing, because every event calls it and a search visits all routes.
func (d *discoverer) checkRouters() time.Duration {
	n := d.node
	now := n.machineNow()
	if now < d.nextCheck {
		return d.nextCheck - now
	}
	t := n.topology.Load()
	interval := n.parameters.Load().RouterCheckInterval
	if interval <= 0 {
		return idleSleep
	}
	routes := t.view.Routing.Routes()
	if len(routes) == 0 {
		return idleSleep
	}
	d.nextCheck = now + checkPause
	seen := map[*peer]bool{}
	for _, r := range routes {
		q := gatewayOf(r)
		if q == nil || seen[q] {
			continue
		}
		seen[q] = true
		d.checkRouter(q, t, now, interval)
	}
	return checkPause
}

// checkRouter starts the check of the next due net of the gateway q, if any net is due. It
// starts at most one check, so that the pings of a gateway's nets do not overlap.
func (d *discoverer) checkRouter(q *peer, t *topology, now, interval time.Duration) {
	v := q.view.Load()
	if v == nil || v.State.Has(discovery.RouterDiscovery) {
		return
	}
	var nets []lnet.Net
	for _, nid := range v.NIDs {
		if net := nid.Net(); t.first(net) != nil && !slices.Contains(nets, net) {
			nets = append(nets, net)
		}
	}
	down := q.removed || slices.ContainsFunc(nets, func(net lnet.Net) bool { return !q.selection.UpOn(net) })
	if !down {
		q.retry, q.pause = 0, 0
	}
	first := slices.Index(nets, q.last) + 1
	for k := range nets {
		net := nets[(first+k)%len(nets)]
		if due, ok := q.due[net]; ok && due > now && (!down || q.retry > now) {
			continue
		}
		if !d.machine.CheckRouter(now, v.NIDs[0], net) {
			return
		}
		if q.due == nil {
			q.due = map[lnet.Net]time.Duration{}
		}
		q.due[net], q.last = now+interval, net
		if down {
			d.postpone(q, now, interval)
		}
		return
	}
}

// postpone sets when to check q, which is down, again. The jitter is up to a quarter of the
// pause, in whole seconds because gateways are checked once per second. With it, clients
// that have lost the gateway at the same moment do not all connect to it at the same time.
func (d *discoverer) postpone(q *peer, now, interval time.Duration) {
	if q.removed {
		interval = min(interval, deadPauseMax)
	}
	q.pause = min(max(2*q.pause, checkPause), interval)
	q.retry = now + q.pause + checkPause*time.Duration(d.rng.Int64N(int64(q.pause/4/checkPause)+1))
}
