package metrics

import (
	"context"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/node"
)

var (
	peersKnown       = gaugeFamily("lnet_peers", "Peers that the node knows.")
	peersInState     = gaugeFamily("lnet_peers_in_state", "Peers, by flag of discovery. A peer may have several flags.", "state")
	peersLeftOut     = gaugeFamily("lnet_peers_left_out", "Peers without separate series: the newest ones above the limit, and those with very many NIDs.")
	peerNIs          = gaugeFamily("lnet_peer_nis", "NIDs of peers, by health: full, reduced, none.", "health")
	peerNIsLeftOut   = gaugeFamily("lnet_peer_nis_left_out", "NIDs of peers without separate series.")
	peerNIsMost      = gaugeFamily("lnet_peer_nis_max", "Maximum number of NIDs of peers that were not configured.")
	peerNIsNamed     = gaugeFamily("lnet_peer_nis_configured", "NIDs of peers that were configured or are gateways.")
	peerNIsForgotten = counterFamily("lnet_peer_nis_forgotten_total", "NIDs of peers that were evicted because there were too many.")
	peerNIsRefused   = counterFamily("lnet_peer_nis_refused_total", "NIDs of peers that were not added because there were too many, or too many in a short time.")

	peerNIHealth   = gaugeFamily("lnet_peer_ni_health", "Health of a peer's NID, 0 to 1000.", "primary", "nid")
	peerNIUp       = gaugeFamily("lnet_peer_ni_up", "1 if a peer's NID answers, otherwise 0. Only gateways are checked, and on routers all peers.", "primary", "nid")
	peerNICredits  = gaugeFamily("lnet_peer_ni_credits", "Credits of a peer's NID: available (negative if messages wait), min (lowest so far).", "primary", "nid", "kind")
	peerNIQueued   = gaugeFamily("lnet_peer_ni_queued_bytes", "Bytes of messages to a peer's NID that are being sent or wait, including headers.", "primary", "nid")
	peerNIMessages = counterFamily("lnet_peer_ni_messages_total", "Messages to and from a peer's NID.", "primary", "nid", "direction")
	peerNILatency  = counterFamily("lnet_peer_ni_latency_seconds_total", "Total time until requests to a peer's NID were answered, by operation.", "primary", "nid", "operation")
	peerNISamples  = counterFamily("lnet_peer_ni_latency_samples_total", "Requests to a peer's NID whose answer lnet_peer_ni_latency_seconds_total includes.", "primary", "nid", "operation")
	peerNIFailures = counterFamily("lnet_peer_ni_failures_total", "Messages to a peer's NID that failed because of the peer, as far as lnetd can determine that.", "primary", "nid")
)

// Label pairs that many peer metrics share.
var (
	available = label("kind", "available")
	lowest    = label("kind", "min")
	sent      = label("direction", "sent")
	received  = label("direction", "received")
	dropped   = label("direction", "dropped")
	getRTT    = label("operation", "get_rtt")
	putAck    = label("operation", "put_ack")
)

func label(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// peerStates holds the state flags for which peers are counted. The other flags are set only during a round
// of discovery.
var peerStates = []discovery.State{
	discovery.MultiRail, discovery.NoDiscovery, discovery.RouterEnabled, discovery.Configured, discovery.Discovered,
	discovery.Discovering, discovery.NIDsUpToDate, discovery.PingFailed, discovery.PushFailed, discovery.LockPrimary,
	discovery.BadConfig,
}

// nidsPerPeer limits the number of NIDs with separate series to this number times Options.PeersMax, so a peer
// with more NIDs reduces the number of peers that have series. A peer with more than nidsMax NIDs, which no
// real node has, gets no series.
const (
	nidsPerPeer = 2
	nidsMax     = 128
)

// peerCollector adds the metrics of peers to a page. It gets the peers one by one, so that they need not all
// be in memory.
type peerCollector struct {
	page                *page
	waiting             *waiting
	scrape              peerScrape
	room, roomNIs       int   // number of peers and NIDs that can still get separate series
	peers, out, outNIs  int   // numbers of all peers, and of peers and NIDs without separate series
	states              []int // number of peers with each of peerStates
	full, reduced, none int   // numbers of NIDs, by health
}

// collectPeers adds the metrics of peers to the page, and messages that wait for their credits to w. The
// oldest peers, at most most, get separate series, so that these stay the same from scrape to scrape. The others
// have common series, whose values o computes. collectPeers returns false if discovery did not answer, so that
// peers are missing.
func collectPeers(ctx context.Context, p *page, s Source, most int, w *waiting, o *otherPeers) (complete bool) {
	c := peerCollector{page: p, waiting: w, room: most, roomNIs: nidsPerPeer * most, states: make([]int, len(peerStates))}
	c.scrape.updates, c.scrape.before = o.begin(), s.PeerNIs()
	complete = true
	for peer, err := range s.PeersAfter(ctx, 0) {
		if err != nil {
			complete = false // discovery did not answer, or the node is closed
			break
		}
		c.add(&peer)
	}
	info := s.PeerNIs()
	p.set(peerNIsMost, float64(info.Max))
	p.set(peerNIsNamed, float64(info.Named))
	p.count(peerNIsForgotten, info.Forgotten)
	p.count(peerNIsRefused, info.Refused)
	if !complete {
		return false
	}
	p.set(peersKnown, float64(c.peers))
	for k, s := range peerStates {
		p.set(peersInState, float64(c.states[k]), strings.ToLower(s.String()))
	}
	p.set(peerNIs, float64(c.full), "full")
	p.set(peerNIs, float64(c.reduced), "reduced")
	p.set(peerNIs, float64(c.none), "none")
	p.set(peersLeftOut, float64(c.out))
	p.set(peerNIsLeftOut, float64(c.outNIs))
	c.scrape.after = info
	others := o.update(&c.scrape)
	others.collect(p, otherLabels)
	return true
}

// add counts a peer, and adds separate series for its NIDs if the limits permit that.
func (c *peerCollector) add(p *node.PeerInfo) {
	c.peers++
	for k, s := range peerStates {
		if p.State.Has(s) {
			c.states[k]++
		}
	}
	for k := range p.NIs {
		ni := &p.NIs[k]
		switch ni.Health.Value {
		case node.MaxHealth:
			c.full++
		case 0:
			c.none++
		default:
			c.reduced++
		}
		counts := peerCountsOf(&ni.Traffic, &ni.Health.HealthCounters)
		c.scrape.listed.add(&counts)
		c.waiting.peerCredits += waitFor(ni.Credits)
		c.waiting.routerCredits += waitFor(ni.RouterCredits)
	}
	crowd := len(p.NIs) > nidsMax
	if !crowd && len(p.NIs) > c.roomNIs {
		c.room = 0 // no series for later peers either, even if they have fewer NIDs
	}
	if crowd || c.room == 0 {
		c.out++
		c.outNIs += len(p.NIs)
		return
	}
	c.room--
	c.roomNIs -= len(p.NIs)
	primary := label("primary", p.Primary.String())
	for k := range p.NIs {
		ni := &p.NIs[k]
		counts := peerCountsOf(&ni.Traffic, &ni.Health.HealthCounters)
		c.scrape.shown = append(c.scrape.shown, shownNI{peerSeries{p.Primary, ni.NID}, counts})
		c.show(primary, ni, &counts)
	}
}

// show adds the series of one NID of a peer, which has the given counters.
func (c *peerCollector) show(primary *dto.LabelPair, ni *node.PeerNIInfo, counts *peerCounts) {
	p := c.page
	labels := p.with([]*dto.LabelPair{primary}, label("nid", ni.NID.String()))
	p.add(peerNIHealth, float64(ni.Health.Value), labels)
	if ni.Aliveness != node.AliveUnknown {
		p.add(peerNIUp, bit(ni.Aliveness == node.AliveUp), labels)
	}
	if ni.Credits.Max != 0 { // the node has an NI on its net
		p.add(peerNICredits, float64(ni.Credits.Available), p.with(labels, available))
		p.add(peerNICredits, float64(ni.Credits.Min), p.with(labels, lowest))
	}
	p.add(peerNIQueued, float64(ni.QueuedBytes), labels)
	counts.collect(p, labels)
}
