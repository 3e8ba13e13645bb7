package node

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnet"
)

// PeerNIsMax is the default of Parameters.PeerNIsMax. Lower values than PeerNIsMin mean
// the default.
const (
	PeerNIsMax = 65536
	PeerNIsMin = 16
)

// mentionRate limits how many unknown NIDs one neighbour may mention: as destinations of
// messages to be forwarded, as sources of pushes that it forwards, and as NIDs of a peer
// beyond freeMentions. If a message arrives from such a NID later, the NID no longer
// counts against the limit, because it exists and costs no more than any node that
// connects.
var mentionRate = limit.Rate{Every: time.Second / 256, Burst: 4096}

// freeMentions is the number of unknown NIDs in ping info that do not count against
// mentionRate. Every node accepts at least this many.
const freeMentions = lnet.InterfacesMin

const (
	// unusedAfter is the number of seconds without use after which a peer may be evicted
	// early, before its place is needed. A peer that was never used may be evicted early from
	// the start.
	unusedAfter = 3600
	// calling makes peers that only connected less valuable than peers that this node used,
	// because any node can connect: a message that arrived counts like a use that was this
	// many seconds earlier.
	calling = 24 * 3600
	// evictPause is the pause, in seconds, before the discoverer tries again to evict peers,
	// after it could not evict enough.
	evictPause = 1
)

// strangers limits the number of peer NIs that are not configured. When there are more
// than PeerNIsMax, the discoverer evicts peers, the least recently used first. It never
// evicts a peer that is configured, that has messages under way or waiting, or whose
// discovery a caller waits for. When too many remain, further unknown NIDs are rejected,
// unless this node itself needs them.
type strangers struct {
	// named is the number of configured peer NIs when they were last counted, less those that
	// may have been deleted since. It is 0 if a route was deleted since.
	named              atomic.Int64
	forgotten, refused atomic.Uint64

	// retryAt is when the discoverer may try again to evict peers, in seconds of the node's
	// clock.
	retryAt int64
	// rejectedNIDs is set if NIDs of some peers were rejected; used by the discoverer only.
	rejectedNIDs bool
}

// recount makes the discoverer count the configured peer NIs again, because a peer may no
// longer be a gateway. Until then, all peer NIs count against the limit. The discoverer
// calls it.
func (s *strangers) recount() {
	s.named.Store(0)
	s.retryAt = 0
}

// uncount subtracts the NIDs of the peer v, some of which are about to be deleted, from the
// number of configured peer NIs. v may be nil. If the peer keeps NIDs or was not configured,
// the number is too small until the next count. Counting again for each deleted peer would
// make the deletion of many peers quadratic. The discoverer calls uncount.
func (s *strangers) uncount(v *discovery.View) {
	if v != nil {
		s.named.Store(max(0, s.named.Load()-int64(len(v.NIDs))))
	}
}

// PeerNIsInfo describes the peer NIs that the node keeps.
type PeerNIsInfo struct {
	// Count is the number of peer NIs. Named is the number of those that were configured or
	// gateways when they were last counted, less deleted ones. Max limits the others.
	Count, Named, Max int
	// Forgotten is the number of evicted peer NIs. Refused is the number of NIDs that were
	// rejected.
	Forgotten, Refused uint64
	// Removed holds the sums of the counters of peer NIs that no longer exist. Counts that a peer
	// NI gets after its removal are missing. Min and Max of latencies are not set.
	Removed RemovedPeerNIs
	// Resets grows by two with each call of ResetCounters. It is odd while counters are reset.
	Resets uint64
	// Moves is how many peer NIs have moved from one peer to another. They keep their counters.
	Moves uint64
}

// RemovedPeerNIs holds the sums of the counters of peer NIs.
type RemovedPeerNIs struct {
	Traffic
	HealthCounters
}

// PeerNIs returns the number of peer NIs, its limit, and how often the limit was enforced.
func (a *Admin) PeerNIs() PeerNIsInfo {
	n := a.n
	if !n.isMade() {
		return PeerNIsInfo{}
	}
	s := &n.strangers
	resets := n.resets.Load() // before the counters, so that a reset in between shows in a later call
	return PeerNIsInfo{
		Count: int(n.peers.count.Load()), Named: int(s.named.Load()), Max: n.parameters.Load().PeerNIsMax,
		Forgotten: s.forgotten.Load(), Refused: s.refused.Load(),
		Removed: RemovedPeerNIs{n.removedStats.traffic(), n.removedStats.health()}, Resets: resets, Moves: n.moves.Load(),
	}
}

// strangersOver returns by how many the peer NIs that are not configured exceed the limit.
// It is negative if there is room.
func (n *Node) strangersOver() int {
	return int(n.peers.count.Load()-n.strangers.named.Load()) - n.parameters.Load().PeerNIsMax
}

// strangersFull reports whether further NIDs must be rejected, because eviction does not
// keep up. This applies to nodes that connect and to NIDs that a neighbour mentions. A
// rejection is counted.
func (n *Node) strangersFull() bool { return n.countRejected(n.tooManyPeers()) }

func (n *Node) tooManyPeers() bool {
	return n.strangersOver() >= n.parameters.Load().PeerNIsMax/8
}

// full reports whether discovery must reject additional NIDs that a peer reports. As long
// as the limit is not reached, it returns false. Beyond it, additional NIDs are normally
// rejected, so that no peers are evicted because of them. But if this node has used the
// peer recently and the peer has few NIDs, its NIDs are accepted, and peers that only
// connected are evicted. A peer whose NIDs were rejected is asked for them again when
// there is room.
func (d *discoverer) full(primary lnet.NID) bool {
	n := d.node
	if n.strangersOver() < 0 || n.recentlyUsed(primary) && !n.tooManyPeers() {
		return false
	}
	if p := n.peers.find(primary); p != nil {
		if q := p.peer.Load(); q != nil {
			q.rejectedNIDs, n.strangers.rejectedNIDs = true, true
		}
	}
	return n.countRejected(true)
}

// recentlyUsed reports whether this node has used the peer within the last hour, and the
// peer has fewer than freeMentions NIDs.
func (n *Node) recentlyUsed(primary lnet.NID) bool {
	p := n.peers.find(primary)
	if p == nil {
		return false
	}
	v := p.view()
	if v == nil || len(v.NIDs) >= freeMentions {
		return false
	}
	since := n.second.Load() - unusedAfter
	return slices.ContainsFunc(v.NIDs, func(nid lnet.NID) bool {
		p := n.peers.find(nid)
		return p != nil && p.used.Load() > max(since, 0)
	})
}

// requeryPeers is called when there is room for the NIDs that were rejected. It makes the
// next message to each of their peers wait until that peer was asked for its NIDs again.
func (d *discoverer) requeryPeers() {
	n := d.node
	n.strangers.rejectedNIDs = false
	var lacking []lnet.NID
	n.peers.each(func(p *peerNI) {
		if q := p.peer.Load(); q != nil && q.rejectedNIDs {
			q.rejectedNIDs = false
			lacking = append(lacking, p.NID)
		}
	})
	for _, nid := range lacking {
		d.machine.Missed(n.machineNow(), nid)
	}
	d.act()
}

// countRejected counts a rejection if yes is true. It returns yes.
func (n *Node) countRejected(yes bool) bool {
	if yes {
		n.strangers.refused.Add(1)
	}
	return yes
}

// admitMention reports whether the neighbour from may mention count unknown NIDs. If so,
// they are counted against its mentionRate.
func (n *Node) admitMention(from *peerNI, count int) bool {
	if count <= 0 {
		return true
	}
	if n.strangersFull() {
		return false
	}
	return !n.countRejected(from != nil && !from.mentions.Allow(mentionRate, n.now(), count))
}

// admitInfo reports whether the neighbour from, which delivered the ping info of a node,
// may mention the unknown NIDs in it; see admitMention. The first freeMentions of them do
// not count.
func (n *Node) admitInfo(from lnet.NID, info *lnet.PingInfo) bool {
	if len(info.NIs) <= freeMentions || n.parameters.Load().Discovery != discovery.On {
		return true // in other modes, ping info creates no peer NIs
	}
	count := 0
	for k := range info.NIs {
		if n.peers.find(info.NIs[k].NID) == nil {
			count++
		}
	}
	return n.admitMention(n.peers.find(from), min(count-freeMentions, mentionRate.Burst))
}

// mentionedPeer returns the peer NI with nid, which the neighbour from has mentioned. It
// creates the peer NI if needed. It returns nil if no more unknown NIDs are accepted, in
// total or from this neighbour.
func (n *Node) mentionedPeer(nid lnet.NID, from *peerNI) *peerNI {
	if p := n.peers.find(nid); p != nil {
		return p
	}
	if !n.admitMention(from, 1) {
		return nil
	}
	p := n.makePeerNI(nid, nil)
	p.mentioned.Store(true)
	p.mentionedBy.Store(from)
	return p
}

// evictable is a peer that may be evicted. Times are in seconds of the node's clock.
type evictable struct {
	nid lnet.NID
	// last is when the peer was last used or a message last arrived from it. Peers with the
	// lowest rank are evicted first.
	last, rank int64
}

// evictionRank returns how valuable the peer is, by the most valuable of its NIDs. It
// returns false if messages are under way or waiting, so that the peer must not be
// evicted. A peer that reported many NIDs but sent no messages from them counts as unused.
// Otherwise a single node could report thousands of NIDs, and as many other peers would be
// evicted.
func (n *Node) evictionRank(v *discovery.View) (o evictable, idle bool) {
	proofs, born, heard, used := 0, int64(0), int64(0), int64(0)
	for _, nid := range v.NIDs {
		p := n.peers.find(nid)
		if p == nil {
			continue
		}
		if p.Queued.Load() != 0 || p.router.inUse() || p.health.pending.Load() {
			return o, false
		}
		born = max(born, p.created.Load())
		alive, use := p.lastAlive.Load(), p.used.Load()
		if heard, used = max(heard, alive), max(used, use); max(alive, use) > 0 {
			proofs++
		}
	}
	o = evictable{nid: v.NIDs[0], last: max(heard, used)}
	if used == 0 && (heard == 0 || len(v.NIDs)-proofs > freeMentions) {
		o.last = born - unusedAfter
	}
	o.rank = o.last - calling
	if used > 0 {
		o.rank = max(o.rank, used)
	}
	return o, true
}

// evict evicts peers if there are too many. If peers were not used for an hour, it evicts
// enough of them that an eighth of the limit becomes free. Of more recently used peers, it
// evicts only as many as are needed for nodes that connect. These have a small reserve
// above the limit, which NIDs reported by peers cannot use.
func (d *discoverer) evict() {
	n := d.node
	s := &n.strangers
	now := n.second.Load()
	if n.strangersOver() < 0 && s.rejectedNIDs {
		d.requeryPeers()
	}
	if n.strangersOver() < 0 || now < s.retryAt {
		return
	}
	old := d.evictionOrder()
	if n.strangersOver() < 0 { // more peers are configured than were counted before
		return
	}
	most := n.parameters.Load().PeerNIsMax
	before := n.peers.count.Load()
	for _, o := range old {
		over := n.strangersOver()
		if over <= -most/8 || over <= most/16 && o.last > now-unusedAfter {
			break
		}
		d.machine.Forget(n.machineNow(), o.nid)
		d.act()
	}
	s.forgotten.Add(uint64(before - n.peers.count.Load()))
	if n.strangersOver() > -most/8 {
		s.retryAt = now + evictPause
	}
	n.log.Report(boundedlog.Line{
		Level: slog.LevelWarn, Text: "too many NIDs of unconfigured peers; the least recently used are removed",
	}, slog.Int("peer_nis_max", most), slog.Uint64("forgotten", s.forgotten.Load()), slog.Uint64("refused", s.refused.Load()))
}

// nextEviction returns after which pause evict must run again if no event arrives before.
func (d *discoverer) nextEviction() time.Duration {
	switch n := d.node; {
	case n.strangersOver() > n.parameters.Load().PeerNIsMax/16:
		return evictPause * time.Second
	case n.strangers.rejectedNIDs:
		return time.Minute
	}
	return idleSleep
}

// evictionOrder returns the peers that may be evicted, the least valuable first. It also
// counts the configured peer NIs.
func (d *discoverer) evictionOrder() (old []evictable) {
	n := d.node
	named := 0
	for v, hold := range d.machine.Holds() {
		switch hold {
		case discovery.Named:
			named += len(v.NIDs)
		case discovery.Free:
			if o, idle := n.evictionRank(v); idle {
				old = append(old, o)
			}
		}
	}
	n.strangers.named.Store(int64(named))
	slices.SortStableFunc(old, func(a, b evictable) int { return int(a.rank - b.rank) })
	return old
}

// forget removes the peer with nid, which does not answer, if it is known only because
// other nodes mentioned it.
func (d *discoverer) forget(nid lnet.NID) {
	d.post(func(m *discovery.Machine, now time.Duration) {
		if p := d.node.peers.find(nid); p != nil && p.onlyMentioned() {
			m.Forget(now, nid)
		}
	})
}

// noteWanted records that a program or a command uses nid, which protects the peer from
// eviction.
func (n *Node) noteWanted(nid lnet.NID) {
	if p := n.peers.find(nid); p != nil {
		p.noteUse(n.second.Load())
	}
}

// onlyMentioned reports whether the peer NI is known only because other nodes mentioned
// it: no message has arrived from it, and this node has not used it.
func (p *peerNI) onlyMentioned() bool {
	return p.mentioned.Load() && p.lastAlive.Load() == 0 && p.used.Load() == 0
}
