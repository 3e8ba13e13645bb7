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
type check struct {
	due  map[lnet.Net]time.Duration
	last lnet.Net
}

// idleSleep is how long the discoverer sleeps if it has no timer to wait for. A new event
// wakes it earlier.
const idleSleep = time.Hour

// checkRouters starts the checks of gateways that are due. It returns how long the
// discoverer may sleep before it calls checkRouters again.
func (d *discoverer) checkRouters() time.Duration {
	n := d.node
	t := n.topology.Load()
	interval := n.parameters.Load().RouterCheckInterval
	routes := t.view.Routing.Routes()
	if len(routes) == 0 || interval <= 0 {
		return idleSleep
	}
	now := n.machineNow()
	var seen []*peer
	for _, r := range routes {
		q := gatewayOf(r)
		if q == nil || slices.Contains(seen, q) {
			continue
		}
		seen = append(seen, q)
		d.checkRouter(q, t, now, interval)
	}
	return time.Second
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
	first := slices.Index(nets, q.last) + 1
	for k := range nets {
		net := nets[(first+k)%len(nets)]
		if due, ok := q.due[net]; ok && due > now {
			continue
		}
		if !d.machine.CheckRouter(now, v.NIDs[0], net) {
			return
		}
		if q.due == nil {
			q.due = map[lnet.Net]time.Duration{}
		}
		q.due[net], q.last = now+interval, net
		return
	}
}
