package metrics

import (
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// peerCounts holds the counters of one or more NIDs of peers that have separate series. Latencies are in
// nanoseconds.
type peerCounts [peerCountKinds]uint64

// Indexes of peerCounts. Those before countFailures are zeroed when an operator resets the node's counters.
const (
	countSent = iota
	countReceived
	countDropped
	countGetRTT
	countGetRTTSamples
	countPutAck
	countPutAckSamples
	countFailures
	peerCountKinds
)

func peerCountsOf(t *node.Traffic, h *node.HealthCounters) peerCounts {
	return peerCounts{
		countSent: t.Sent.Total(), countReceived: t.Received.Total(), countDropped: t.Dropped.Total(),
		countGetRTT: uint64(t.GetRTT.Sum), countGetRTTSamples: t.GetRTT.Samples,
		countPutAck: uint64(t.PutAck.Sum), countPutAckSamples: t.PutAck.Samples,
		countFailures: h.RemoteDropped + h.RemoteTimeouts + h.RemoteErrors + h.NetworkTimeouts,
	}
}

// add adds o to c.
func (c *peerCounts) add(o *peerCounts) {
	for k := range c {
		c[k] += o[k]
	}
}

// resetTraffic zeroes what an operator's reset of the counters zeroes.
func (c *peerCounts) resetTraffic() { clear(c[:countFailures]) }

// collect adds the series of c to the page. The labels are those of a peer's NID.
func (c *peerCounts) collect(p *page, labels []*dto.LabelPair) {
	p.add(peerNIMessages, float64(c[countSent]), p.with(labels, sent))
	p.add(peerNIMessages, float64(c[countReceived]), p.with(labels, received))
	p.add(peerNIMessages, float64(c[countDropped]), p.with(labels, dropped))
	for _, l := range []struct {
		operation    *dto.LabelPair
		sum, samples uint64
	}{{getRTT, c[countGetRTT], c[countGetRTTSamples]}, {putAck, c[countPutAck], c[countPutAckSamples]}} {
		if l.samples > 0 {
			labels := p.with(labels, l.operation)
			p.add(peerNILatency, time.Duration(l.sum).Seconds(), labels)
			p.add(peerNISamples, float64(l.samples), labels)
		}
	}
	p.add(peerNIFailures, float64(c[countFailures]), labels)
}

// otherLabels are the labels of the series for all NIDs without separate series.
var otherLabels = []*dto.LabelPair{label("nid", "other"), label("primary", "other")}

// otherPeers computes the counters of all NIDs of peers that have no separate series, from scrape to scrape.
// They are the total of all NIDs, including removed ones, minus the increases of separate series. So they do
// not decrease when a NID gets separate series: what was counted before, the first value of these series, remains with
// the others.
//
// It is safe for concurrent use.
type otherPeers struct {
	mu      sync.Mutex
	updates uint64 // number of updates so far
	resets  uint64 // PeerNIsInfo.Resets at the last update
	// shown is the sum of all increases of separate series. others is the result.
	shown, others peerCounts
	// last holds the values of the separate series. It is nil before the first update. spare is an empty
	// map for the next update.
	last, spare map[peerSeries]peerCounts
}

// peerSeries identifies the separate series of a NID.
type peerSeries struct{ primary, nid lnet.NID }

// shownNI is a NID with separate series in a scrape.
type shownNI struct {
	peerSeries
	counts peerCounts
}

// peerScrape is what a scrape has found. When it began, there had been so many updates of otherPeers. The peer
// NIs were described as before when it began and as after when it ended. listed is the sum over all NIDs.
type peerScrape struct {
	updates       uint64
	before, after node.PeerNIsInfo
	listed        peerCounts
	shown         []shownNI
}

// begin returns the value of peerScrape.updates for a scrape that begins now.
func (o *otherPeers) begin() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.updates
}

// update returns the counters of all NIDs without separate series after the scrape s. It returns the result of
// the last update if the values of s are of no use: because the node's counters were reset during the scrape, because
// a NID moved to another peer and may have been listed twice, or because another scrape that overlaps with s has ended
// before.
func (o *otherPeers) update(s *peerScrape) peerCounts {
	o.mu.Lock()
	defer o.mu.Unlock()
	resets := s.before.Resets
	if s.updates != o.updates || resets != s.after.Resets || resets%2 != 0 || s.before.Moves != s.after.Moves {
		return o.others
	}
	o.updates++
	reset := resets != o.resets
	if o.resets = resets; reset {
		o.shown.resetTraffic()
		o.others.resetTraffic()
	}
	next := o.spare
	if next == nil {
		next = make(map[peerSeries]peerCounts, len(s.shown))
	}
	for k := range s.shown {
		i := &s.shown[k]
		was, had := o.last[i.peerSeries]
		switch {
		case !had && o.last != nil:
			was = i.counts // Prometheus does not count the first value of a series as an increase
		case reset:
			was.resetTraffic()
		}
		for k, v := range i.counts {
			if v < was[k] { // the NID was removed and added again
				was[k] = 0
			}
			o.shown[k] += v - was[k]
		}
		next[i.peerSeries] = i.counts
	}
	clear(o.last)
	o.last, o.spare = next, o.last
	total := peerCountsOf(&s.before.Removed.Traffic, &s.before.Removed.HealthCounters)
	total.add(&s.listed)
	for k := range total {
		// A NID that was removed during the scrape may be missing from the total.
		o.others[k] = max(o.others[k], total[k]-min(total[k], o.shown[k]))
	}
	return o.others
}
