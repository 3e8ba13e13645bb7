package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/node"
)

// peerNIsMax bounds the peer NIs that have a series of their own: a node may know
// tens of thousands. The oldest have one, so that series do not come and go.
const peerNIsMax = 1000

var (
	peersDesc      = desc("peers", "Peers that the node knows.")
	peerStatesDesc = desc("peers_in_state", "Peers that have a flag of discovery; a peer may have several.", "state")
	peerNIsDesc    = desc("peer_nis", "NIDs of peers, by health: full, reduced, none.", "health")
	peerHealthDesc = desc("peer_ni_health", "Health of a peer's NID, 0 to 1000; of the oldest 1000 NIDs.", "primary", "nid")
)

// peerStates are the flags that are counted; the others come and go within a
// round.
var peerStates = []discovery.State{
	discovery.MultiRail, discovery.NoDiscovery, discovery.RouterEnabled, discovery.Configured, discovery.Discovered,
	discovery.Discovering, discovery.NIDsUpToDate, discovery.PingFailed, discovery.PushFailed, discovery.LockPrimary,
	discovery.BadConfig,
}

func collectPeers(ch chan<- prometheus.Metric, peers []node.PeerInfo) {
	gauge(ch, peersDesc, len(peers))
	for _, s := range peerStates {
		n := 0
		for k := range peers {
			if peers[k].State.Has(s) {
				n++
			}
		}
		gauge(ch, peerStatesDesc, n, strings.ToLower(s.String()))
	}
	collectPeerHealth(ch, peers)
}

func collectPeerHealth(ch chan<- prometheus.Metric, peers []node.PeerInfo) {
	var full, reduced, none, shown int
	for k := range peers {
		p := &peers[k]
		for j := range p.NIs {
			ni := &p.NIs[j]
			switch ni.Health.Value {
			case node.MaxHealth:
				full++
			case 0:
				none++
			default:
				reduced++
			}
			if shown < peerNIsMax {
				gauge(ch, peerHealthDesc, ni.Health.Value, p.Primary.String(), ni.NID.String())
				shown++
			}
		}
	}
	gauge(ch, peerNIsDesc, full, "full")
	gauge(ch, peerNIsDesc, reduced, "reduced")
	gauge(ch, peerNIsDesc, none, "none")
}
