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

// newsRate limits the number of unknown NIDs that one neighbour may introduce: as
// destinations of messages to be forwarded, as sources of pushes that it forwards, and as
// NIDs of a peer beyond newsFree. A destination from which a message arrives afterwards
// is not counted, because it exists and costs no more than any node that connects.
var newsRate = limit.Rate{Every: time.Second / 256, Burst: 4096}

// newsFree is the number of new NIDs that any peer may introduce. Every node accepts at
// least this many.
const newsFree = lnet.InterfacesMin

const (
	// unused is the number of seconds without use after which a peer may be evicted in
	// advance, before its place is needed. A peer that was never used counts as unused for
	// that long when it is created.
	unused = 3600
	// calling is a handicap in seconds for peers that only connected: a connection weighs as
	// much as a use that was this much earlier, because any node can connect.
	calling = 24 * 3600
	// roomPause is the pause in seconds after all peers were considered and not enough could
	// be evicted.
	roomPause = 1
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
	again int64
	// lacking is set if peers may lack NIDs that were rejected; used by the discoverer only.
	lacking bool
}

// recount forces a new count before more strangers are accepted, because a peer is no
// longer configured. The discoverer calls it.
func (s *strangers) recount() {
	s.named.Store(0)
	s.again = 0
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
	if !n.made() {
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
func (n *Node) strangersFull() bool { return n.refuse(n.overflows()) }

func (n *Node) overflows() bool {
	return n.strangersOver() >= n.parameters.Load().PeerNIsMax/8
}

// full reports whether additional NIDs that the peer claims must be rejected. Rejecting
// them keeps peers that were used within the last hour from being evicted. If the peer
// itself was used and has few NIDs, the new ones are accepted, and peers that only connected
// are evicted. A peer whose NIDs were rejected is asked again when there is room.
func (d *discoverer) full(primary lnet.NID) bool {
	n := d.node
	if n.strangersOver() < 0 || n.neededNow(primary) && !n.overflows() {
		return false
	}
	if p := n.peers.find(primary); p != nil {
		if q := p.peer.Load(); q != nil {
			q.lacks, n.strangers.lacking = true, true
		}
	}
	return n.refuse(true)
}

// neededNow reports whether this node used a peer within the last hour, and the peer has
// fewer NIDs than newsFree.
func (n *Node) neededNow(primary lnet.NID) bool {
	p := n.peers.find(primary)
	if p == nil {
		return false
	}
	v := p.view()
	if v == nil || len(v.NIDs) >= newsFree {
		return false
	}
	since := n.second.Load() - unused
	return slices.ContainsFunc(v.NIDs, func(nid lnet.NID) bool {
		p := n.peers.find(nid)
		return p != nil && p.used.Load() > max(since, 0)
	})
}

// askLacking makes the next message to each peer with rejected NIDs wait until the peer
// was asked again. It is called when there is room.
func (d *discoverer) askLacking() {
	n := d.node
	n.strangers.lacking = false
	var lacking []lnet.NID
	n.peers.each(func(p *peerNI) {
		if q := p.peer.Load(); q != nil && q.lacks {
			q.lacks = false
			lacking = append(lacking, p.NID)
		}
	})
	for _, nid := range lacking {
		d.machine.Missed(n.machineNow(), nid)
	}
	d.act()
}

// refuse counts a rejection if yes is true, and returns yes.
func (n *Node) refuse(yes bool) bool {
	if yes {
		n.strangers.refused.Add(1)
	}
	return yes
}

// admitNews reports whether a neighbour may introduce count unknown NIDs.
func (n *Node) admitNews(from *peerNI, count int) bool {
	if count <= 0 {
		return true
	}
	if n.strangersFull() {
		return false
	}
	return !n.refuse(from != nil && !from.news.Allow(newsRate, n.now(), count))
}

// admitInfo is admitNews for the NIDs in the ping info of a node.
func (n *Node) admitInfo(from lnet.NID, info *lnet.PingInfo) bool {
	if len(info.NIs) <= newsFree || n.parameters.Load().Discovery != discovery.On {
		return true // otherwise ping info creates no peer NIs
	}
	count := 0
	for k := range info.NIs {
		if n.peers.find(info.NIs[k].NID) == nil {
			count++
		}
	}
	return n.admitNews(n.peers.find(from), min(count-newsFree, newsRate.Burst))
}

// hearOf returns the peer NI with a NID that a neighbour has mentioned. It returns nil if
// the NID is unknown and there is no room, or the neighbour has mentioned too many.
func (n *Node) hearOf(nid lnet.NID, from *peerNI) *peerNI {
	if p := n.peers.find(nid); p != nil {
		return p
	}
	if !n.admitNews(from, 1) {
		return nil
	}
	p := n.meet(nid, nil)
	p.hearsay.Store(true)
	p.spokenBy.Store(from)
	return p
}

// disused is a peer that may be evicted. Times are in seconds of the node's clock.
type disused struct {
	nid lnet.NID
	// last is when the peer was last used or a message last arrived from it. Peers with the
	// lowest worth are evicted first.
	last, worth int64
}

// disuse returns how valuable a peer is, which is determined by its best NID. It returns
// false if messages are under way. A peer counts as unused if it reported many NIDs but
// sent no messages from them. Otherwise a peer with thousands of NIDs could have as many
// others evicted by connecting.
func (n *Node) disuse(v *discovery.View) (o disused, idle bool) {
	proofs, born, heard, used := 0, int64(0), int64(0), int64(0)
	for _, nid := range v.NIDs {
		p := n.peers.find(nid)
		if p == nil {
			continue
		}
		if p.Queued.Load() != 0 || p.router.out() || p.health.pending.Load() {
			return o, false
		}
		born = max(born, p.born.Load())
		alive, use := p.lastAlive.Load(), p.used.Load()
		if heard, used = max(heard, alive), max(used, use); max(alive, use) > 0 {
			proofs++
		}
	}
	o = disused{nid: v.NIDs[0], last: max(heard, used)}
	if used == 0 && (heard == 0 || len(v.NIDs)-proofs > newsFree) {
		o.last = born - unused
	}
	o.worth = o.last - calling
	if used > 0 {
		o.worth = max(o.worth, used)
	}
	return o, true
}

// makeRoom evicts peers if there are too many. Of peers that were not used for an hour,
// it evicts an eighth of the limit at once. Of others it evicts no more than nodes that
// connect need, for which there is a small reserve above the limit that merged peers
// cannot use.
func (d *discoverer) makeRoom() {
	n := d.node
	s := &n.strangers
	now := n.second.Load()
	if n.strangersOver() < 0 && s.lacking {
		d.askLacking()
	}
	if n.strangersOver() < 0 || now < s.again {
		return
	}
	old := d.leastUsed()
	if n.strangersOver() < 0 { // there were more configured ones than counted before
		return
	}
	most := n.parameters.Load().PeerNIsMax
	before := n.peers.count.Load()
	for _, o := range old {
		over := n.strangersOver()
		if over <= -most/8 || over <= most/16 && o.last > now-unused {
			break
		}
		d.machine.Forget(n.machineNow(), o.nid)
		d.act()
	}
	s.forgotten.Add(uint64(before - n.peers.count.Load()))
	if n.strangersOver() > -most/8 {
		s.again = now + roomPause
	}
	n.log.Report(boundedlog.Line{
		Level: slog.LevelWarn, Text: "too many NIDs of peers that nobody configured: those that were not used for longest are forgotten",
	}, slog.Int("peer_nis_max", most), slog.Uint64("forgotten", s.forgotten.Load()), slog.Uint64("refused", s.refused.Load()))
}

// cramped returns the pause until makeRoom must run again even without a new event.
func (d *discoverer) cramped() time.Duration {
	switch n := d.node; {
	case n.strangersOver() > n.parameters.Load().PeerNIsMax/16:
		return roomPause * time.Second
	case n.strangers.lacking:
		return time.Minute
	}
	return idle
}

// leastUsed counts the configured peer NIs, and lists the peers that may be evicted, in
// the order of eviction.
func (d *discoverer) leastUsed() (old []disused) {
	n := d.node
	named := 0
	for v, hold := range d.machine.Holds() {
		switch hold {
		case discovery.Named:
			named += len(v.NIDs)
		case discovery.Free:
			if o, idle := n.disuse(v); idle {
				old = append(old, o)
			}
		}
	}
	n.strangers.named.Store(int64(named))
	slices.SortStableFunc(old, func(a, b disused) int { return int(a.worth - b.worth) })
	return old
}

// forget removes the peer with a NID that does not answer, unless there is a reason to
// keep it.
func (d *discoverer) forget(nid lnet.NID) {
	d.post(func(m *discovery.Machine, now time.Duration) {
		if p := d.node.peers.find(nid); p != nil && p.unproven() {
			m.Forget(now, nid)
		}
	})
}

// wanted records that a program or a command has a use for a NID.
func (n *Node) wanted(nid lnet.NID) {
	if p := n.peers.find(nid); p != nil {
		p.use(n.second.Load())
	}
}

// unproven reports whether the peer NI is known only because others have mentioned it: no
// message has arrived from it, and this node has not used it.
func (p *peerNI) unproven() bool {
	return p.hearsay.Load() && p.lastAlive.Load() == 0 && p.used.Load() == 0
}
