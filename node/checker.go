package node

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

// check holds when each net of a gateway is to be checked next. A nil due means at once.
// The net that was used last is checked last (lnet-core 8.5).
type check struct {
	due  map[lnet.Net]time.Duration
	last lnet.Net
}

// idleSleep is how long the discoverer sleeps if nothing is due.
const idleSleep = time.Hour

// checkRouters starts the checks of gateways that are due. It returns the pause until the
// next call.
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
