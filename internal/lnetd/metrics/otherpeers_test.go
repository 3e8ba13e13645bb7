package metrics

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// crowdModel is a node whose peers come, go and exchange messages. It counts only sent messages and failures.
type crowdModel struct {
	fakeSource
	last discovery.PeerID
	// sent and failed are the totals of all NIDs that ever existed. A reset zeroes sent.
	sent, failed uint64
}

func (m *crowdModel) nid() lnet.NID {
	return lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 0x0a000000+uint32(m.last)*8)
}

func (m *crowdModel) addPeer(nids int) {
	m.last++
	p := node.PeerInfo{ID: m.last, Primary: m.nid()}
	for k := range nids {
		p.NIs = append(p.NIs, node.PeerNIInfo{NID: lnet.NIDFromNumber(p.Primary.Net(), p.Primary.Number()+uint32(k))})
	}
	m.peers = append(m.peers, p)
}

// remove removes the peer at a position. It comes back as the newest peer with the same NIDs if again is set.
func (m *crowdModel) remove(at int, again bool) {
	p := m.peers[at]
	m.peers = slices.Delete(m.peers, at, at+1)
	r := &m.peerNIs.Removed
	for k := range p.NIs {
		r.Sent.Put += p.NIs[k].Traffic.Sent.Put
		r.RemoteErrors += p.NIs[k].Health.RemoteErrors
	}
	if again {
		m.last++
		p.ID, p.NIs = m.last, slices.Clone(p.NIs)
		for k := range p.NIs {
			p.NIs[k] = node.PeerNIInfo{NID: p.NIs[k].NID}
		}
		m.peers = append(m.peers, p)
	}
}

// move makes all NIDs of the peer at a position those of a new peer, which keeps their counters.
func (m *crowdModel) move(at int) {
	p := m.peers[at]
	m.peers = slices.Delete(m.peers, at, at+1)
	m.last++
	p.ID, p.Primary = m.last, m.nid()
	m.peers = append(m.peers, p)
}

func (m *crowdModel) send(at, ni int, sent, failed uint64) {
	p := &m.peers[at]
	i := &p.NIs[ni%len(p.NIs)]
	i.Traffic.Sent.Put += sent
	i.Health.RemoteErrors += failed
	m.sent += sent
	m.failed += failed
}

// reset does what an operator's reset of the counters does. It does not change failures.
func (m *crowdModel) reset() {
	m.peerNIs.Resets += 2
	m.peerNIs.Removed.Traffic = node.Traffic{}
	for k := range m.peers {
		for i := range m.peers[k].NIs {
			m.peers[k].NIs[i].Traffic = node.Traffic{}
		}
	}
	m.sent = 0
}

// series returns the values of a counter of peers' NIDs on the page, by NID and primary NID.
func series(p *page, f *family, direction string) map[string]float64 {
	values := map[string]float64{}
	for _, m := range p.families[f].Metric {
		nid, primary, wanted := "", "", direction == ""
		for _, l := range m.Label {
			switch l.GetName() {
			case "nid":
				nid = l.GetValue()
			case "primary":
				primary = l.GetValue()
			case "direction":
				wanted = l.GetValue() == direction
			}
		}
		if wanted {
			values[nid+" of "+primary] = m.GetCounter().GetValue()
		}
	}
	return values
}

const others = "other of other"

// follower computes increases as Prometheus does: a value that is lower than before counts from zero, and a series
// that is new from its first value.
type follower struct{ last map[string]float64 }

func (f *follower) increase(now map[string]float64) (sum float64) {
	for nid, v := range now {
		was, had := f.last[nid]
		switch {
		case !had && f.last != nil:
		case v < was:
			sum += v
		default:
			sum += v - was
		}
	}
	f.last = now
	return sum
}

// Given peers that come, go and exchange messages, when the node is scraped, then the series of the others do
// not decrease, except after a reset, and the increases of all series add up to what the node has counted.
func TestOtherPeersAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &crowdModel{}
		var o otherPeers
		var messages, failed follower
		var sentBefore, failedBefore uint64
		reset := false
		scrape := func() {
			p := newPage()
			var w waiting
			if !collectPeers(t.Context(), p, m, 3, &w, &o) {
				t.Fatal("the scrape is incomplete")
			}
			sent, failures := series(p, peerNIMessages, "sent"), series(p, peerNIFailures, "")
			if before, now := messages.last[others], sent[others]; now < before && !reset {
				t.Fatalf("messages of others decreased from %v to %v", before, now)
			}
			if before, now := failed.last[others], failures[others]; now < before {
				t.Fatalf("failures of others decreased from %v to %v", before, now)
			}
			if reset {
				messages.last, sentBefore = nil, 0
			}
			if got, want := messages.increase(sent), float64(m.sent-sentBefore); got != want && !reset {
				t.Fatalf("messages increased by %v, want %v", got, want)
			}
			if got, want := failed.increase(failures), float64(m.failed-failedBefore); got != want {
				t.Fatalf("failures increased by %v, want %v", got, want)
			}
			sentBefore, failedBefore, reset = m.sent, m.failed, false
		}
		peer := func(t *rapid.T) int {
			if len(m.peers) == 0 {
				t.Skip("no peers")
			}
			return rapid.IntRange(0, len(m.peers)-1).Draw(t, "peer")
		}
		t.Repeat(map[string]func(*rapid.T){
			"add":    func(t *rapid.T) { m.addPeer(rapid.IntRange(1, 4).Draw(t, "NIDs")) },
			"remove": func(t *rapid.T) { m.remove(peer(t), rapid.Bool().Draw(t, "again")) },
			"move":   func(t *rapid.T) { m.move(peer(t)) },
			"send": func(t *rapid.T) {
				m.send(peer(t), rapid.IntRange(0, 3).Draw(t, "ni"), rapid.Uint64Range(0, 100).Draw(t, "sent"), rapid.Uint64Range(0, 3).Draw(t, "failed"))
			},
			"reset":  func(*rapid.T) { m.reset(); reset = true },
			"scrape": func(*rapid.T) { scrape() },
		})
		scrape()
	})
}

// A scrape during which the counters are reset or a NID moves, or which overlaps with another one, repeats the last
// values.
func TestOtherPeersOfUselessScrapes(t *testing.T) {
	var o otherPeers
	sent := func(n uint64) (c peerCounts) { c[countSent] = n; return c }
	want := o.update(&peerScrape{listed: sent(5)})
	if want != sent(5) {
		t.Fatalf("%v", want)
	}
	now := node.PeerNIsInfo{Resets: 2}
	for name, s := range map[string]peerScrape{
		"overlaps":         {updates: o.begin() - 1, listed: sent(9)},
		"a reset ends":     {updates: o.begin(), before: node.PeerNIsInfo{Resets: 1}, after: now, listed: sent(1)},
		"a reset goes on":  {updates: o.begin(), before: node.PeerNIsInfo{Resets: 1}, after: node.PeerNIsInfo{Resets: 1}, listed: sent(1)},
		"a reset happened": {updates: o.begin(), after: now, listed: sent(1)},
		"a NID moved":      {updates: o.begin(), after: node.PeerNIsInfo{Moves: 1}, listed: sent(9)},
	} {
		if got := o.update(&s); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := o.update(&peerScrape{updates: o.begin(), before: now, after: now, listed: sent(1)}); got != sent(1) {
		t.Errorf("after the reset %v", got)
	}
}

// The first value of a new series belongs to the others also in the first scrape after a reset.
func TestNewSeriesAfterAReset(t *testing.T) {
	var o otherPeers
	sent := func(n uint64) (c peerCounts) { c[countSent] = n; return c }
	old, fresh := peerSeries{nid: lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 1)}, peerSeries{nid: lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), 2)}
	o.update(&peerScrape{listed: sent(5), shown: []shownNI{{old, sent(5)}}})
	now := node.PeerNIsInfo{Resets: 2}
	s := peerScrape{updates: o.begin(), before: now, after: now, listed: sent(3), shown: []shownNI{{old, sent(1)}, {fresh, sent(2)}}}
	if got := o.update(&s); got != sent(2) {
		t.Errorf("others: %v, want the 2 messages of the new series", got)
	}
}
