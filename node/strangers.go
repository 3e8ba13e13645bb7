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

// PeerNIsMax is the default of Parameters.PeerNIsMax, PeerNIsMin its lowest value.
const (
	PeerNIsMax = 65536
	PeerNIsMin = 16
)

// mentionRate limits the number of unknown NIDs that one neighbour may introduce: as
// destinations of messages to be forwarded, as sources of pushes that it forwards, and as
// NIDs of a peer beyond freeMentions. A destination from which a message arrives afterwards
// is not counted, because it exists and costs no more than any node that connects.
var mentionRate = limit.Rate{Every: time.Second / 256, Burst: 4096}

// freeMentions is the number of new NIDs that any peer may introduce. Every node accepts at
// least this many.
const freeMentions = lnet.InterfacesMin

const (
	// unusedAfter is the number of seconds without use after which a peer may be evicted in
	// advance, before its place is needed. A peer that was never used counts as unused for
	// that long when it is created.
	unusedAfter = 3600
	// calling is a handicap in seconds for peers that only connected: a connection weighs as
	// much as a use that was this much earlier, because any node can connect.
	calling = 24 * 3600
	// evictPause is the pause in seconds after all peers were considered and not enough could
	// be evicted.
	evictPause = 1
)

// strangers limits the number of peer NIs that are not configured. When there are more
// than PeerNIsMax, the discoverer evicts peers, those that were not used for the longest
// time first. It never evicts peers with messages under way or waiting, with discovery
// that a caller waits for, or that were configured. A NID that arrives when there is no
// room is rejected, unless this node itself needs it.
type strangers struct {
	// named is the number of configured peer NIs at the last count. It is 0 if any was
	// unconfigured since.
	named              atomic.Int64
	forgotten, refused atomic.Uint64

	// when the discoverer may try again, in seconds of the node's clock
	retryAt int64
	// rejectedNIDs is set if peers may lack NIDs that were rejected; used by the discoverer only.
	rejectedNIDs bool
}

// recount forces a new count before more strangers are accepted, because a peer is no
// longer configured. The discoverer calls it.
func (s *strangers) recount() {
	s.named.Store(0)
	s.retryAt = 0
}

// PeerNIsInfo describes the peer NIs that the node keeps.
type PeerNIsInfo struct {
	// Count is the number of peer NIs. Named is the number of those that are configured or
	// are gateways, at the last count. Max limits the others.
	Count, Named, Max int
	// Forgotten is the number of evicted peer NIs. Refused is the number of rejected ones.
	Forgotten, Refused uint64
}

// PeerNIs returns the number of peer NIs and its limits.
func (a *Admin) PeerNIs() PeerNIsInfo {
	n := a.n
	if !n.isMade() {
		return PeerNIsInfo{}
	}
	s := &n.strangers
	return PeerNIsInfo{
		Count: int(n.peers.count.Load()), Named: int(s.named.Load()), Max: n.parameters.Load().PeerNIsMax,
		Forgotten: s.forgotten.Load(), Refused: s.refused.Load(),
	}
}

// strangersOver returns by how many the peer NIs exceed the limit.
func (n *Node) strangersOver() int {
	return int(n.peers.count.Load()-n.strangers.named.Load()) - n.parameters.Load().PeerNIsMax
}

// strangersFull reports whether new NIDs must be rejected, both of nodes that connect and
// of those that a neighbour introduces, because the discoverer does not keep up.
func (n *Node) strangersFull() bool { return n.countRejected(n.tooManyPeers()) }

func (n *Node) tooManyPeers() bool {
	return n.strangersOver() >= n.parameters.Load().PeerNIsMax/8
}

// full reports whether additional NIDs that the peer claims must be rejected. Rejecting
// them keeps peers that were used within the last hour from being evicted. If the peer
// itself was used and has few NIDs, the new ones are accepted, and peers that only connected
// are evicted. A peer whose NIDs were rejected is asked again when there is room.
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

// recentlyUsed reports whether this node used a peer within the last hour, and the peer has
// fewer NIDs than freeMentions.
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

// requeryPeers makes the next message to each peer with rejected NIDs wait until the peer
// was asked again. It is called when there is room.
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

// countRejected counts a rejection if yes is true, and returns yes.
func (n *Node) countRejected(yes bool) bool {
	if yes {
		n.strangers.refused.Add(1)
	}
	return yes
}

// admitMention reports whether a neighbour may introduce count unknown NIDs.
func (n *Node) admitMention(from *peerNI, count int) bool {
	if count <= 0 {
		return true
	}
	if n.strangersFull() {
		return false
	}
	return !n.countRejected(from != nil && !from.mentions.Allow(mentionRate, n.now(), count))
}

// admitInfo is admitMention for the NIDs in the ping info of a node.
func (n *Node) admitInfo(from lnet.NID, info *lnet.PingInfo) bool {
	if len(info.NIs) <= freeMentions || n.parameters.Load().Discovery != discovery.On {
		return true // otherwise ping info creates no peer NIs
	}
	count := 0
	for k := range info.NIs {
		if n.peers.find(info.NIs[k].NID) == nil {
			count++
		}
	}
	return n.admitMention(n.peers.find(from), min(count-freeMentions, mentionRate.Burst))
}

// mentionedPeer returns the peer NI with a NID that a neighbour has mentioned. It returns nil if
// the NID is unknown and there is no room, or the neighbour has mentioned too many.
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

// evictionRank returns how valuable a peer is, which is determined by its best NID. It returns
// false if messages are under way. A peer counts as unused if it reported many NIDs but
// sent no messages from them. Otherwise a peer with thousands of NIDs could have as many
// others evicted by connecting.
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

// evict evicts peers if there are too many. Of peers that were not used for an hour,
// it evicts an eighth of the limit at once. Of others it evicts no more than nodes that
// connect need, for which there is a small reserve above the limit that merged peers
// cannot use.
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
	if n.strangersOver() < 0 { // there were more configured ones than counted before
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

// nextEviction returns the pause until evict must run again even without a new event.
func (d *discoverer) nextEviction() time.Duration {
	switch n := d.node; {
	case n.strangersOver() > n.parameters.Load().PeerNIsMax/16:
		return evictPause * time.Second
	case n.strangers.rejectedNIDs:
		return time.Minute
	}
	return idleSleep
}

// evictionOrder counts the configured peer NIs, and lists the peers that may be evicted, in
// the order of eviction.
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

// forget removes the peer with a NID that does not answer, unless there is a reason to
// keep it.
func (d *discoverer) forget(nid lnet.NID) {
	d.post(func(m *discovery.Machine, now time.Duration) {
		if p := d.node.peers.find(nid); p != nil && p.onlyMentioned() {
			m.Forget(now, nid)
		}
	})
}

// noteWanted records that a program or a command has a use for a NID.
func (n *Node) noteWanted(nid lnet.NID) {
	if p := n.peers.find(nid); p != nil {
		p.noteUse(n.second.Load())
	}
}

// onlyMentioned reports whether the peer NI is known only because others have mentioned it: no
// message has arrived from it, and this node has not used it.
func (p *peerNI) onlyMentioned() bool {
	return p.mentioned.Load() && p.lastAlive.Load() == 0 && p.used.Load() == 0
}
