package portals

import (
	"hash/maphash"

	"github.com/lnetd/lnetd/lnet"
)

// mask says which part of a request an entry looks at. Entries with the same
// mask match the same request only if they are alike, which makes a search
// among them a look into a hash table.
type mask struct {
	ignore         uint64
	anyNID, anyPID bool
	operations     MDOptions // OpPut, OpGet or both
}

// key is the part of a request that an entry looks at, the rest being zero. It
// has no padding, so that hashing it is one step.
type key struct {
	bits uint64
	nid  lnet.NID
	pid  uint64
}

// serves tells whether the entries take requests whose event is of type t.
func (m *mask) serves(t EventType) bool {
	switch t {
	case EventPut:
		return m.operations&OpPut != 0
	case EventGet:
		return m.operations&OpGet != 0
	}
	return false
}

func (m *mask) key(bits uint64, nid lnet.NID, pid lnet.PID) key {
	k := key{bits: bits &^ m.ignore}
	if !m.anyNID {
		k.nid = nid
	}
	if !m.anyPID {
		k.pid = uint64(pid)
	}
	return k
}

const (
	bucketsMin  = 8    // of a shape's first table
	bucketsKept = 1024 // a table of up to this size does not shrink
	// bucketsMoved is how many buckets each change takes along to a table of
	// another size. A table doubles when it is full and is cut to a quarter
	// when a sixteenth is used, so that 16 is more than enough to be through
	// before the next time; and no change ever moves a million.
	bucketsMoved = 16
)

// shape is the entries with one mask: a hash table of keys, each with its
// entries in order. What is in it hangs together through md.place. Keys are
// hashed with a secret seed, so that nobody can aim at one bucket.
type shape struct {
	mask
	next    *shape // group's
	keys    int
	buckets []*md // length a power of two, or 0
	old     []*md // the former buckets while they are moved, else nil
	moved   int   // old[:moved] is empty
}

// slot is the bucket of a hash.
func (s *shape) slot(hash uint64) **md {
	if len(s.old) > 0 {
		if k := int(hash & uint64(len(s.old)-1)); k >= s.moved {
			return &s.old[k]
		}
	}
	return &s.buckets[hash&uint64(len(s.buckets)-1)]
}

// find returns the first entry with key k, or nil.
func (s *shape) find(seed maphash.Seed, k key) *md {
	hash := maphash.Comparable(seed, k)
	for d := *s.slot(hash); d != nil; d = d.place.chain {
		if d.place.hash == hash && d.place.key == k {
			return d
		}
	}
	return nil
}

// insert adds d, whose key, hash and order are set, as the first or the last
// of its key.
func (s *shape) insert(d *md, before bool) {
	if s.keys >= len(s.buckets) {
		s.resize(max(bucketsMin, 2*len(s.buckets)))
	}
	s.move(bucketsMoved)
	w := &d.place
	p := s.slot(w.hash)
	for *p != nil && ((*p).place.hash != w.hash || (*p).place.key != w.key) {
		p = &(*p).place.chain
	}
	first := *p
	if first == nil {
		s.keys++
		w.next, w.previous = d, d
		*p = d
		return
	}
	w.next, w.previous = first, first.place.previous
	w.previous.place.next, first.place.previous = d, d
	if before {
		w.chain, first.place.chain = first.place.chain, nil
		*p = d
	}
}

// remove takes d out.
func (s *shape) remove(d *md) {
	w := &d.place
	if w.order <= w.previous.place.order { // d is the first of its ring
		p := s.slot(w.hash)
		for *p != d {
			p = &(*p).place.chain
		}
		if w.next == d {
			*p = w.chain
			s.keys--
		} else {
			*p = w.next
			w.next.place.chain = w.chain
		}
	}
	w.next.place.previous, w.previous.place.next = w.previous, w.next
	if s.old == nil && len(s.buckets) > bucketsKept && s.keys < len(s.buckets)/16 {
		s.resize(len(s.buckets) / 4)
	}
	s.move(bucketsMoved)
}

// resize begins to move the entries to a table of n buckets.
func (s *shape) resize(n int) {
	s.move(len(s.old))
	s.old, s.moved = s.buckets, 0
	s.buckets = make([]*md, n)
}

// move moves up to n of the old buckets to where they belong now.
func (s *shape) move(n int) {
	if s.old == nil {
		return
	}
	end := min(s.moved+n, len(s.old))
	for ; s.moved < end; s.moved++ {
		d := s.old[s.moved]
		s.old[s.moved] = nil
		for d != nil {
			next := d.place.chain
			b := &s.buckets[d.place.hash&uint64(len(s.buckets)-1)]
			d.place.chain, *b = *b, d
			d = next
		}
	}
	if s.moved == len(s.old) {
		s.old, s.moved = nil, 0
	}
}

// scatter makes all entries forget their places, and so each other. The shape
// is of no use afterwards.
func (s *shape) scatter() {
	for _, buckets := range [][]*md{s.old, s.buckets} {
		for _, first := range buckets {
			for first != nil {
				next := first.place.chain
				for d := first; d.place.shape != nil; {
					after := d.place.next
					d.place = place{}
					d = after
				}
				first = next
			}
		}
	}
	s.old, s.buckets = nil, nil
}

// clear makes an empty shape fit for another mask. It keeps a table that is
// not too large.
func (s *shape) clear() {
	s.old, s.moved = nil, 0
	if len(s.buckets) > bucketsKept {
		s.buckets = nil
	}
}
