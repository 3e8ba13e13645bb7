package metrics

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/node"
)

// peerNIsMax bounds the peer NIs that have a series of their own: a node may know
// tens of thousands. The oldest have one, so that series do not come and go.
const peerNIsMax = 1000

var (
	peersDesc            = desc("peers", "Peers that the node knows.")
	peerStatesDesc       = desc("peers_in_state", "Peers that have a flag of discovery; a peer may have several.", "state")
	peerNIsDesc          = desc("peer_nis", "NIDs of peers, by health: full, reduced, none.", "health")
	peerNIsMaxDesc       = desc("peer_nis_max", "Most NIDs of peers that nobody configured.")
	peerNIsNamedDesc     = desc("peer_nis_configured", "NIDs of peers that were configured or are gateways.")
	peerNIsForgottenDesc = desc("peer_nis_forgotten_total", "NIDs of peers that were forgotten, as there were too many.")
	peerNIsRefusedDesc   = desc("peer_nis_refused_total", "NIDs of peers that were not taken in: too many, or too fast.")
	peerHealthDesc       = desc("peer_ni_health", "Health of a peer's NID, 0 to 1000; of the oldest 1000 NIDs.", "primary", "nid")
)

// peerStates are the flags that are counted; the others come and go within a
// round.
var peerStates = []discovery.State{
	discovery.MultiRail, discovery.NoDiscovery, discovery.RouterEnabled, discovery.Configured, discovery.Discovered,
	discovery.Discovering, discovery.NIDsUpToDate, discovery.PingFailed, discovery.PushFailed, discovery.LockPrimary,
	discovery.BadConfig,
}

// peerCensus is what is counted while the peers pass by: there is never more than
// a page of them in memory.
type peerCensus struct {
	peers               int
	states              []int // by peerStates
	full, reduced, none int
	shown               int
}

func collectPeers(ch chan<- prometheus.Metric, s Source) {
	c := peerCensus{states: make([]int, len(peerStates))}
	for p, err := range s.PeersAfter(context.Background(), 0) {
		if err != nil {
			break // a closed node has none
		}
		c.add(ch, &p)
	}
	gauge(ch, peersDesc, c.peers)
	for k, s := range peerStates {
		gauge(ch, peerStatesDesc, c.states[k], strings.ToLower(s.String()))
	}
	gauge(ch, peerNIsDesc, c.full, "full")
	gauge(ch, peerNIsDesc, c.reduced, "reduced")
	gauge(ch, peerNIsDesc, c.none, "none")
	info := s.PeerNIs()
	gauge(ch, peerNIsMaxDesc, info.Max)
	gauge(ch, peerNIsNamedDesc, info.Named)
	ch <- prometheus.MustNewConstMetric(peerNIsForgottenDesc, prometheus.CounterValue, float64(info.Forgotten))
	ch <- prometheus.MustNewConstMetric(peerNIsRefusedDesc, prometheus.CounterValue, float64(info.Refused))
}

// add counts a peer, and shows the health of its NIDs if it is one of the oldest.
func (c *peerCensus) add(ch chan<- prometheus.Metric, p *node.PeerInfo) {
	c.peers++
	for k, s := range peerStates {
		if p.State.Has(s) {
			c.states[k]++
		}
	}
	for j := range p.NIs {
		ni := &p.NIs[j]
		switch ni.Health.Value {
		case node.MaxHealth:
			c.full++
		case 0:
			c.none++
		default:
			c.reduced++
		}
		if c.shown < peerNIsMax {
			c.shown++
			gauge(ch, peerHealthDesc, ni.Health.Value, p.Primary.String(), ni.NID.String())
		}
	}
}
