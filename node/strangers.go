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

// PeerNIsMax is the default of Parameters.PeerNIsMax, PeerNIsMin its least value.
const (
	PeerNIsMax = 65536
	PeerNIsMin = 16
)

// newsRate is how many NIDs that are not known yet one neighbour may bring: as
// destination of what it wants forwarded, as source of a push that comes through
// it, as NIDs of a peer beyond newsFree. A destination that is heard afterwards does
// not count: it is there, and costs what any caller does.
var newsRate = limit.Rate{Every: time.Second / 256, Burst: 4096}

// newsFree is how many new NIDs any peer may name: as many as every node takes.
const newsFree = lnet.InterfacesMin

const (
	// unused is how long, in seconds, nobody had a use for a peer that goes before
	// more must. One that never was of use counts as if it had been that long ago
	// when it was made.
	unused = 3600
	// calling is by how much longer, in seconds, than the last call of a peer ago a
	// use of it is that weighs as much: anybody can call.
	calling = 24 * 3600
	// roomPause is the pause, in seconds, after all peers were looked at and not
	// enough could go.
	roomPause = 1
)

// strangers bounds the peer NIs that nobody configured. When there are as many as
// PeerNIsMax the discoverer has peers forgotten, those first of which nobody had a
// use for longest; not those with messages under way or waiting, a round of
// discovery that somebody waits for, or somebody's word behind them. What comes when
// there is no room, and is not this node's own wish, is not taken in.
type strangers struct {
	// named is how many peer NIs had somebody's word behind them when they were
	// last counted; 0 when some of that has been taken back since.
	named              atomic.Int64
	forgotten, refused atomic.Uint64

	// The discoverer's; seconds of the node's clock.
	again int64
	// lacking says that there may be peers that lack NIDs; the discoverer's.
	lacking bool
}

// recount has the peer NIs looked at again before more strangers come, as somebody
// takes his word back. The discoverer calls it.
func (s *strangers) recount() {
	s.named.Store(0)
	s.again = 0
}

// PeerNIsInfo tells of the peer NIs that the node keeps.
type PeerNIsInfo struct {
	// Count is how many there are, Named how many of them were configured or lead
	// to a configured net, when they were last counted; Max bounds the others.
	Count, Named, Max int
	// Forgotten is how many had to go for others, Refused how often one was not
	// taken in.
	Forgotten, Refused uint64
}

// PeerNIs tells how many peer NIs there are.
func (n *Node) PeerNIs() PeerNIsInfo {
	s := &n.made().strangers
	return PeerNIsInfo{
		Count: int(n.peers.count.Load()), Named: int(s.named.Load()), Max: n.parameters.Load().PeerNIsMax,
		Forgotten: s.forgotten.Load(), Refused: s.refused.Load(),
	}
}

// strangersOver is by how many peer NIs there are too many.
func (n *Node) strangersOver() int {
	return int(n.peers.count.Load()-n.strangers.named.Load()) - n.parameters.Load().PeerNIsMax
}

// strangersFull says that nobody new is taken in who calls, or whom a neighbour
// speaks of: the discoverer does not keep up.
func (n *Node) strangersFull() bool { return n.refuse(n.overflows()) }

func (n *Node) overflows() bool {
	return n.strangersOver() >= n.parameters.Load().PeerNIsMax/8
}

// full says that no NID is taken in on the word of a peer that claims it. So nobody
// who has been of use within the hour has to go for one, unless the peer is of use
// itself and names few: then callers go. The peer is asked again when there is room.
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

// neededNow says that somebody here had a use for a peer within the hour, and that it
// does not have more NIDs than newsFree yet.
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

// askLacking has the next message to each peer of which NIDs are lacking wait until
// it has been asked again, as there is room.
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

// refuse counts what is refused.
func (n *Node) refuse(yes bool) bool {
	if yes {
		n.strangers.refused.Add(1)
	}
	return yes
}

// admitNews tells whether a neighbour may bring count NIDs that are not known.
func (n *Node) admitNews(from *peerNI, count int) bool {
	if count <= 0 {
		return true
	}
	if n.strangersFull() {
		return false
	}
	return !n.refuse(from != nil && !from.news.Take(newsRate, n.now(), count))
}

// admitInfo is admitNews for the NIDs of a node that tells of itself.
func (n *Node) admitInfo(from lnet.NID, info *lnet.PingInfo) bool {
	if len(info.NIs) <= newsFree || n.parameters.Load().Discovery != discovery.On {
		return true // others make no peer NIs of what they are told
	}
	count := 0
	for k := range info.NIs {
		if n.peers.find(info.NIs[k].NID) == nil {
			count++
		}
	}
	return n.admitNews(n.peers.find(from), min(count-newsFree, newsRate.Burst))
}

// hearOf returns the peer NI with a NID that a neighbour speaks of; nil: it is not
// known, and there is no room, or the neighbour speaks of too many.
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

// disused is a peer that may be forgotten; seconds of the node's clock.
type disused struct {
	nid lnet.NID
	// last is when somebody had a use for the peer, or when it called; worth is by
	// what those go first that are worth least.
	last, worth int64
}

// disuse tells what a peer is worth, which is what the best of its NIDs is; false:
// something is under way with it. A caller who names many NIDs by none of which it
// calls is held to be of no use: else one with thousands could have as many others
// forgotten by calling itself.
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

// makeRoom has peers forgotten if there are too many: of those that were of no use
// for an hour an eighth of all at once, of others no more than callers need, for
// whom there is a little room beyond the bound, which merges cannot take.
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
	if n.strangersOver() < 0 { // there was more that was configured
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
	n.log.Tell(boundedlog.Line{
		Level: slog.LevelWarn, Text: "too many NIDs of peers that nobody configured: those that were not used for longest are forgotten",
	}, slog.Int("peer_nis_max", most), slog.Uint64("forgotten", s.forgotten.Load()), slog.Uint64("refused", s.refused.Load()))
}

// cramped is when to make room again, though nobody may come who tells.
func (d *discoverer) cramped() time.Duration {
	switch n := d.node; {
	case n.strangersOver() > n.parameters.Load().PeerNIsMax/16:
		return roomPause * time.Second
	case n.strangers.lacking:
		return time.Minute
	}
	return idle
}

// leastUsed counts the peer NIs with somebody's word behind them, and lists the
// peers that may go, in the order in which they should.
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

// forget lets go of the peer with a NID that nobody answers by, if nothing keeps
// it.
func (d *discoverer) forget(nid lnet.NID) {
	d.post(func(m *discovery.Machine, now time.Duration) {
		if p := d.node.peers.find(nid); p != nil && p.unproven() {
			m.Forget(now, nid)
		}
	})
}

// wanted notes that a program, or who asks by a command, has a use for a NID.
func (n *Node) wanted(nid lnet.NID) {
	if p := n.peers.find(nid); p != nil {
		p.use(n.second.Load())
	}
}

// unproven says that others spoke of the peer NI, and nobody else: it was never
// heard, and nobody here had a use for it.
func (p *peerNI) unproven() bool {
	return p.hearsay.Load() && p.lastAlive.Load() == 0 && p.used.Load() == 0
}
