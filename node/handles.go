package node

import (
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

// Object cookies count up by 4; the low bits 01 say "memory descriptor", as in
// kernels (lnet-core 1.4). They are never reused.
const (
	objectShift = 2
	objectMD    = 1

	handleShards = 64 // power of two
)

// handleTable finds linked MDs by object cookie. Chains run through the MDs,
// so that neither insert nor remove allocates in steady state.
type handleTable struct {
	shards [handleShards]handleShard
}

type handleShard struct {
	mu      sync.Mutex
	buckets []*md // length a power of two, or 0
	count   int
	closed  bool
	_       [16]byte // a cache line of its own
}

func shardOf(object uint64) int { return int(object>>objectShift) & (handleShards - 1) }

func (s *handleShard) bucket(object uint64) **md {
	return &s.buckets[int(object>>objectShift/handleShards)&(len(s.buckets)-1)]
}

// find returns the MD, or nil. The MD may have been unlinked, and even be
// another one, by the time the caller looks: it must compare the handle under
// md.mu.
func (t *handleTable) find(object uint64) *md {
	s := &t.shards[shardOf(object)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return nil
	}
	for d := *s.bucket(object); d != nil; d = d.chain {
		if d.handle.Object == object {
			return d
		}
	}
	return nil
}

// insert adds d; ErrClosed after close.
func (t *handleTable) insert(d *md) error {
	s := &t.shards[shardOf(d.handle.Object)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.count >= len(s.buckets) {
		s.grow()
	}
	b := s.bucket(d.handle.Object)
	d.chain, *b = *b, d
	s.count++
	return nil
}

func (s *handleShard) grow() {
	old := s.buckets
	s.buckets = make([]*md, max(8, 2*len(old)))
	for _, d := range old {
		for d != nil {
			next := d.chain
			b := s.bucket(d.handle.Object)
			d.chain, *b = *b, d
			d = next
		}
	}
}

// remove takes d out; it does nothing if d is not there.
func (t *handleTable) remove(d *md) {
	s := &t.shards[shardOf(d.handle.Object)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return
	}
	for p := s.bucket(d.handle.Object); *p != nil; p = &(*p).chain {
		if *p == d {
			*p, d.chain = d.chain, nil
			s.count--
			return
		}
	}
}

// close refuses further MDs and forgets those that are there.
func (t *handleTable) close() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.closed = true
		s.buckets, s.count = nil, 0
		s.mu.Unlock()
	}
}

// appendAll appends every linked MD to ds.
func (t *handleTable) appendAll(ds []*md) []*md {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, d := range s.buckets {
			for ; d != nil; d = d.chain {
				ds = append(ds, d)
			}
		}
		s.mu.Unlock()
	}
	return ds
}

// find returns the MD that h names, or nil: see handleTable.find.
func (n *Node) find(h lnet.Handle) *md {
	if h.Interface != n.cookie {
		return nil
	}
	return n.handles.find(h.Object)
}

// nextObject is the object cookie of a new MD.
func (n *Node) nextObject() uint64 {
	return (n.objects.Add(1)-1)<<objectShift | objectMD
}
