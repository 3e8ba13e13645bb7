package node

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

const peerShards = 64 // power of two

// peerMap maps NIDs to peer NIs. It is a hash table in shards, whose chains are linked
// through the peer NIs, so a successful lookup needs no lock. A lookup can miss an entry
// while its shard grows, so a failed one is repeated under the shard's lock.
type peerMap struct {
	seed   maphash.Seed
	count  atomic.Int64
	shards [peerShards]peerShard
}

type peerShard struct {
	buckets atomic.Pointer[[]atomic.Pointer[peerNI]]
	mu      sync.Mutex // guards count and all changes of buckets and chains
	count   int
}

func (m *peerMap) init() { m.seed = maphash.MakeSeed() }

func (m *peerMap) shard(nid lnet.NID) (*peerShard, uint64) {
	h := maphash.Comparable(m.seed, nid)
	return &m.shards[h%peerShards], h / peerShards
}

// search returns the peer NI with this NID in the current buckets, or nil. hash is the
// hash of nid.
func (s *peerShard) search(nid lnet.NID, hash uint64) *peerNI {
	buckets := s.buckets.Load()
	if buckets == nil {
		return nil
	}
	p := (*buckets)[hash&uint64(len(*buckets)-1)].Load()
	for p != nil && p.NID != nid {
		p = p.next.Load()
	}
	return p
}

// find returns the peer NI with this NID, or nil.
func (m *peerMap) find(nid lnet.NID) *peerNI {
	s, hash := m.shard(nid)
	if p := s.search(nid, hash); p != nil {
		return p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.search(nid, hash)
}

// findUnlocked is like find, but acquires no lock, for callers that may hold the lock of a
// shard. It does not find a peer NI that is being created, and may miss one while its
// shard grows.
func (m *peerMap) findUnlocked(nid lnet.NID) *peerNI {
	s, hash := m.shard(nid)
	return s.search(nid, hash)
}

// get returns the peer NI with this NID. If the map does not have it, get calls newPeer
// under the shard's lock to create it, and returns true.
func (m *peerMap) get(nid lnet.NID, newPeer func(lnet.NID) *peerNI) (*peerNI, bool) {
	s, hash := m.shard(nid)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.search(nid, hash); p != nil {
		return p, false
	}
	p := newPeer(nid)
	if buckets := s.buckets.Load(); buckets == nil || s.count >= len(*buckets) {
		m.grow(s)
	}
	s.count++
	m.count.Add(1)
	s.add(p, hash)
	return p, true
}

// remove removes p from the map and sets p.gone. A concurrent lookup that has reached p
// still finds the rest of the chain.
func (m *peerMap) remove(p *peerNI) {
	s, hash := m.shard(p.NID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.search(p.NID, hash) != p {
		return
	}
	p.gone.Store(true)
	s.count--
	m.count.Add(-1)
	buckets := *s.buckets.Load()
	at := &buckets[hash&uint64(len(buckets)-1)]
	for at.Load() != p {
		at = &at.Load().next
	}
	at.Store(p.next.Load())
}

func (s *peerShard) add(p *peerNI, hash uint64) {
	buckets := *s.buckets.Load()
	b := &buckets[hash&uint64(len(buckets)-1)]
	p.next.Store(b.Load())
	b.Store(p)
}

func (m *peerMap) grow(s *peerShard) {
	old := s.buckets.Load()
	size := 4
	if old != nil {
		size = 2 * len(*old)
	}
	var all []*peerNI
	s.each(func(p *peerNI) { all = append(all, p) })
	buckets := make([]atomic.Pointer[peerNI], size)
	s.buckets.Store(&buckets)
	for _, p := range all {
		_, hash := m.shard(p.NID)
		s.add(p, hash)
	}
}

// each calls f for every peer NI of the shard. s.mu must be held.
func (s *peerShard) each(f func(p *peerNI)) {
	if buckets := s.buckets.Load(); buckets != nil {
		for k := range *buckets {
			for p := (*buckets)[k].Load(); p != nil; p = p.next.Load() {
				f(p)
			}
		}
	}
}

// each calls f for every peer NI, while it holds the lock of the peer NI's shard. So f
// must not look up peer NIs, except with findUnlocked.
func (m *peerMap) each(f func(p *peerNI)) {
	for k := range m.shards {
		s := &m.shards[k]
		s.mu.Lock()
		s.each(f)
		s.mu.Unlock()
	}
}
