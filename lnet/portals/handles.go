package portals

import (
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
)

// Object cookies are numbered in steps of 4. Their low bits 01 identify a memory
// descriptor, as in kernels (lnet-core 1.4). Cookies are never reused.
const (
	objectShift = 2
	objectMD    = 1

	handleShards = 64 // power of two
)

// scanBuckets is the number of buckets that a scan visits before it releases the lock of a
// shard to let other goroutines continue.
const scanBuckets = 256

// handleTable maps object cookies to linked MDs. The hash chains link the MDs themselves,
// so that insert and remove allocate only if a shard grows.
type handleTable struct {
	shards [handleShards]handleShard
}

type handleShard struct {
	mu       sync.Mutex // guards buckets, their chains, count and closed
	buckets  []*md      // length a power of two, or 0
	count    int
	closed   bool
	trackers atomic.Int64 // MDs of the shard with a deadline
	_        [8]byte      // pads the shard to full cache lines
}

func (t *handleTable) shard(object uint64) *handleShard {
	return &t.shards[object>>objectShift&(handleShards-1)]
}

func (s *handleShard) bucket(object uint64) **md {
	return &s.buckets[int(object>>objectShift/handleShards)&(len(s.buckets)-1)]
}

// find returns the MD with the object cookie, or nil. When find returns, the MD may
// already be unlinked, and its record may even be in use for another MD. The caller must
// therefore acquire md.mu and compare the handle.
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

// insert adds d to the table. It returns ErrClosed if the table is closed.
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

// remove removes d from the table, if it is there.
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

// close removes all MDs and makes further calls of insert fail.
func (t *handleTable) close() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.closed = true
		for _, d := range s.buckets {
			for d != nil { // unlink the chain, so that an MD in use does not keep others in memory
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

// isClosed reports whether the shard of the object cookie is closed. An MD that is not
// found may then have been removed by close.
func (t *handleTable) isClosed(object uint64) bool {
	s := t.shard(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// appendExpired appends the handles of MDs whose tracked response is due at the time until
// or earlier. It misses no MD, but if the table grows during the scan, it may append an MD
// twice.
func (s *handleShard) appendExpired(dst []Overdue, until int64) []Overdue {
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

// find returns the MD with the handle h, or nil. The caller must check the result as
// described at handleTable.find.
func (t *Table) find(h lnet.Handle) *md {
	if h.Interface != t.cookie {
		return nil
	}
	return t.handles.find(h.Object)
}

// nextHandle returns the handle for a new MD.
func (t *Table) nextHandle() lnet.Handle {
	return lnet.Handle{Interface: t.cookie, Object: (t.objects.Add(1)-1)<<objectShift | objectMD}
}
