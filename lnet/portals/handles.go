package portals

import (
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// Object cookies count up by 4; the low bits 01 say "memory descriptor", as in
// kernels (lnet-core 1.4). They are never reused.
const (
	objectShift = 2
	objectMD    = 1

	handleShards = 64 // power of two
)

// scanBuckets is how many buckets a scan looks at before it lets others in.
const scanBuckets = 256

// handleTable finds linked MDs by object cookie. Chains run through the MDs,
// so that neither insert nor remove allocates in steady state.
type handleTable struct {
	shards [handleShards]handleShard
}

type handleShard struct {
	mu       sync.Mutex // guards buckets, their chains, count and closed
	buckets  []*md      // length a power of two, or 0
	count    int
	closed   bool
	trackers atomic.Int64 // MDs here with a deadline
	_        [8]byte      // a cache line of its own
}

func (t *handleTable) shard(object uint64) *handleShard {
	return &t.shards[object>>objectShift&(handleShards-1)]
}

func (s *handleShard) bucket(object uint64) **md {
	return &s.buckets[int(object>>objectShift/handleShards)&(len(s.buckets)-1)]
}

// find returns the MD, or nil. The MD may have been unlinked, and even be
// another one, by the time the caller looks: it must compare the handle under
// md.mu.
func (t *handleTable) find(object uint64) *md {
	s := t.shard(object)
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
	s := t.shard(d.handle.Object)
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
	s := t.shard(d.handle.Object)
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
		for _, d := range s.buckets {
			for d != nil { // one that is in use must not keep others
				next := d.chain
				d.chain = nil
				s.untrack(d)
				d = next
			}
		}
		s.buckets, s.count = nil, 0
		s.mu.Unlock()
	}
}

// isClosed tells whether an MD that is not there may have gone by close.
func (t *handleTable) isClosed(object uint64) bool {
	s := t.shard(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// appendWatched appends the handles of MDs whose response is watched and whose
// deadline is until or earlier. A table that grows meanwhile may show an MD twice,
// but keeps none back.
func (s *handleShard) appendWatched(dst []Overdue, until int64) []Overdue {
	for from := 0; ; from += scanBuckets {
		s.mu.Lock()
		if from >= len(s.buckets) {
			s.mu.Unlock()
			return dst
		}
		for _, d := range s.buckets[from:min(from+scanBuckets, len(s.buckets))] {
			for ; d != nil; d = d.chain {
				if d.overdue(until) {
					dst = append(dst, Overdue{Handle: d.handle})
				}
			}
		}
		s.mu.Unlock()
	}
}

// find returns the MD that h names, or nil: see handleTable.find.
func (t *Table) find(h lnet.Handle) *md {
	if h.Interface != t.cookie {
		return nil
	}
	return t.handles.find(h.Object)
}

// nextHandle is the handle of a new MD.
func (t *Table) nextHandle() lnet.Handle {
	return lnet.Handle{Interface: t.cookie, Object: (t.objects.Add(1)-1)<<objectShift | objectMD}
}
