package node

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// peerNI is what the node keeps per NI and NID of another node: credits and
// figures. It is made by the first message, and stays as long as the NI.
type peerNI struct {
	nid       lnet.NID
	credits   credits
	queued    atomic.Int64 // bytes under way or waiting, headers included
	lastAlive atomic.Int64 // second of the node's clock; 0: never heard
	stats     trafficStats
}

// heard notes a sign of life.
func (p *peerNI) heard(second int64) {
	if p.lastAlive.Load() != second {
		p.lastAlive.Store(second)
	}
}

const peerShards = 64 // power of two

// peerMap finds an NI's peers. Reading takes no lock: each shard's map is
// replaced whole when a peer comes.
type peerMap struct {
	shards [peerShards]peerShard
}

type peerShard struct {
	peers atomic.Pointer[map[lnet.NID]*peerNI]
	mu    sync.Mutex
}

func (m *peerMap) shard(nid lnet.NID) *peerShard {
	var b [24]byte
	nid.AppendLarge(b[:0])
	h := binary.LittleEndian.Uint64(b[0:]) ^ binary.LittleEndian.Uint64(b[8:])*0x9e3779b97f4a7c15 ^
		binary.LittleEndian.Uint64(b[16:])
	return &m.shards[h*0x9e3779b97f4a7c15>>58]
}

// get returns the peer with this NID, a new one if need be.
func (m *peerMap) get(nid lnet.NID, limit int) *peerNI {
	s := m.shard(nid)
	if peers := s.peers.Load(); peers != nil {
		if p := (*peers)[nid]; p != nil {
			return p
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	peers := map[lnet.NID]*peerNI{}
	if old := s.peers.Load(); old != nil {
		if p := (*old)[nid]; p != nil {
			return p
		}
		peers = maps.Clone(*old)
	}
	p := &peerNI{nid: nid}
	p.credits.init(limit, heldPeer)
	peers[nid] = p
	s.peers.Store(&peers)
	return p
}

// each calls f for every peer.
func (m *peerMap) each(f func(p *peerNI)) {
	for k := range m.shards {
		if peers := m.shards[k].peers.Load(); peers != nil {
			for _, p := range *peers {
				f(p)
			}
		}
	}
}

// PeerInfo describes a peer NI as one of our NIs sees it (lnet-core 10.2).
type PeerInfo struct {
	NID lnet.NID
	// NI is the local NI.
	NI lnet.NID
	// Credits bound the messages under way to the peer NI.
	Credits CreditInfo
	// QueuedBytes are the bytes under way or waiting, headers included.
	QueuedBytes int64
	Traffic     Traffic
	Health      HealthCounters
}

// Peers lists the peer NIs that messages went to or came from, by NI and NID.
func (n *Node) Peers() []PeerInfo {
	var all []PeerInfo
	for _, i := range n.topology.Load().nis {
		first := len(all)
		i.peers.each(func(p *peerNI) {
			all = append(all, PeerInfo{
				NID: p.nid, NI: i.nid, Credits: p.credits.info(), QueuedBytes: p.queued.Load(),
				Traffic: p.stats.traffic(), Health: p.stats.health(),
			})
		})
		slices.SortFunc(all[first:], func(a, b PeerInfo) int { return a.NID.Compare(b.NID) })
	}
	return all
}
