package portals

import (
	"hash/maphash"
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

// index holds the entries of a portal that can still match a request. The time to find the
// first match depends on the number of shapes, but not on the number of entries (lnet-core
// 4.3). A shape is the set of entries that compare the same parts of a request. An entry
// whose MD is used up is removed.
//
//	index -> group -> shape -> bucket -> key -> entries, first to last
//
// portal.mu guards the index.
type index struct {
	ignoring group // entries with ignore bits; they match first
	exact    group
	seed     maphash.Seed
	shapes   *sync.Pool
}

// group is a set of shapes whose entries are in one order.
type group struct {
	shapes     *shape
	head, tail int64 // the entries so far have the orders head to tail-1
}

// indexEntry is the place of an entry in the index. The fields that a search reads come
// first, so that they share cache lines.
type indexEntry struct {
	chain          *md // in the first entry of a ring: the first entry of the next ring in the bucket
	hash           uint64
	key            key
	order          int64  // position in the group; the entry with the lowest is tried first
	shape          *shape // nil if the entry is not in the index
	next, previous *md    // ring of the entries with the same key, ordered by order
}

func (x *index) group(m *mask) *group {
	if m.ignore != 0 {
		return &x.ignoring
	}
	return &x.exact
}

// add adds the entry of d to the index, unless the MD is used up from the start.
func (x *index) add(d *md, e *Entry) {
	if d.exhausted() {
		return
	}
	id := e.matchID()
	m := mask{
		ignore: e.IgnoreBits, anyNID: id.NID.IsAny(), anyPID: id.PID == lnet.PIDAny,
		operations: d.options & (OpPut | OpGet),
	}
	g := x.group(&m)
	s := g.shape(&m)
	if s == nil {
		s = x.shapes.Get().(*shape)
		s.mask = m
		s.next, g.shapes = g.shapes, s
	}
	w := &d.indexEntry
	w.shape = s
	w.key = m.key(e.MatchBits, id.NID, id.PID)
	w.hash = maphash.Comparable(x.seed, w.key)
	if e.Position == Before {
		g.head--
		w.order = g.head
	} else {
		w.order = g.tail
		g.tail++
	}
	s.insert(d, e.Position == Before)
}

// remove removes the entry of d from the index, if it is there.
func (x *index) remove(d *md) {
	s := d.indexEntry.shape
	if s == nil {
		return
	}
	s.remove(d)
	d.indexEntry = indexEntry{}
	if s.keys == 0 {
		x.group(&s.mask).remove(s)
		s.clear()
		x.shapes.Put(s)
	}
}

// clear removes all entries from the index.
func (x *index) clear() {
	for _, g := range []*group{&x.ignoring, &x.exact} {
		for s := g.shapes; s != nil; s = s.next {
			s.clearEntries()
		}
		g.shapes = nil
	}
}

// first returns the MD of the first entry that matches o, or nil.
func (x *index) first(o *Operation) *md {
	if d := x.ignoring.first(x.seed, o); d != nil {
		return d
	}
	return x.exact.first(x.seed, o)
}

// shape returns the shape with mask m, or nil.
func (g *group) shape(m *mask) *shape {
	for s := g.shapes; s != nil; s = s.next {
		if s.mask == *m {
			return s
		}
	}
	return nil
}

// remove removes s from the group.
func (g *group) remove(s *shape) {
	for p := &g.shapes; *p != nil; p = &(*p).next {
		if *p == s {
			*p, s.next = s.next, nil
			return
		}
	}
}

// first returns the MD of the first entry in the group that matches o, or nil. It searches
// every shape.
func (g *group) first(seed maphash.Seed, o *Operation) *md {
	var found *md
	e := &o.Event
	for s := g.shapes; s != nil; s = s.next {
		if !s.acceptsType(e.Type) {
			continue
		}
		found = firstInOrder(found, s.find(seed, s.key(e.MatchBits, e.Initiator.NID, e.Initiator.PID)))
		if s.anyNID {
			continue
		}
		for _, nid := range o.Aliases {
			found = firstInOrder(found, s.find(seed, s.key(e.MatchBits, nid, e.Initiator.PID)))
		}
	}
	return found
}

// firstInOrder returns the one of two entries in a group that comes first. Either may be
// nil.
func firstInOrder(d, f *md) *md {
	if d == nil || f != nil && f.indexEntry.order < d.indexEntry.order {
		return f
	}
	return d
}

// matches reports whether d matches o (lnet-core 4.2 steps 1 to 5). It returns false if d
// is not in the index.
func (d *md) matches(o *Operation) bool {
	w, e := &d.indexEntry, &o.Event
	s := w.shape
	if s == nil || !s.acceptsType(e.Type) {
		return false
	}
	if s.key(e.MatchBits, e.Initiator.NID, e.Initiator.PID) == w.key {
		return true
	}
	if s.anyNID {
		return false
	}
	for _, nid := range o.Aliases {
		if s.key(e.MatchBits, nid, e.Initiator.PID) == w.key {
			return true
		}
	}
	return false
}

// mask says which parts of a request an entry compares. Entries with the same mask match
// the same requests exactly if their keys are equal. To find them, one lookup in a hash
// table is enough.
type mask struct {
	ignore         uint64
	anyNID, anyPID bool
	operations     MDOptions // OpPut, OpGet or both
}

// key holds the values of the parts of a request that an entry compares; the other fields
// are zero. It has no padding, so that it can be hashed in one step.
type key struct {
	bits uint64
	nid  lnet.NID
	pid  uint64
}

// acceptsType reports whether entries with this mask can match a request of type t.
func (m *mask) acceptsType(t EventType) bool {
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
	bucketsMin  = 8    // size of a shape's first table
	bucketsKept = 1024 // a table of up to this size does not shrink
	// bucketsMoved is the number of buckets that each insertion or removal moves to a resized
	// table. So no single call moves the whole table. A table doubles when it is full, and
	// shrinks to a quarter when only a sixteenth is used. With 16 buckets per call, all
	// buckets have been moved before the next resize begins.
	bucketsMoved = 16
)

// shape is the set of entries with one mask. It is a hash table from keys to rings of
// entries, which are linked through md.indexEntry. The hash has a secret seed, so that a
// peer cannot choose match bits that all fall into one bucket.
type shape struct {
	mask
	next         *shape // next shape of the group
	keys         int
	buckets      []*md // length a power of two, or 0
	oldBuckets   []*md // the former buckets during a resize, otherwise nil
	movedBuckets int   // oldBuckets[:movedBuckets] is empty
}

// slot returns the bucket for a hash, in the old table if that bucket was not moved yet.
func (s *shape) slot(hash uint64) **md {
	if len(s.oldBuckets) > 0 {
		if k := int(hash & uint64(len(s.oldBuckets)-1)); k >= s.movedBuckets {
			return &s.oldBuckets[k]
		}
	}
	return &s.buckets[hash&uint64(len(s.buckets)-1)]
}

// find returns the first entry with key k, or nil.
func (s *shape) find(seed maphash.Seed, k key) *md {
	hash := maphash.Comparable(seed, k)
	for d := *s.slot(hash); d != nil; d = d.indexEntry.chain {
		if d.indexEntry.hash == hash && d.indexEntry.key == k {
			return d
		}
	}
	return nil
}

// insert adds d as the first or the last entry with its key. The key, hash and order of d
// must be set.
func (s *shape) insert(d *md, before bool) {
	if s.keys >= len(s.buckets) {
		s.resize(max(bucketsMin, 2*len(s.buckets)))
	}
	s.move(bucketsMoved)
	w := &d.indexEntry
	p := s.slot(w.hash)
	for *p != nil && ((*p).indexEntry.hash != w.hash || (*p).indexEntry.key != w.key) {
		p = &(*p).indexEntry.chain
	}
	first := *p
	if first == nil {
		s.keys++
		w.next, w.previous = d, d
		*p = d
		return
	}
	w.next, w.previous = first, first.indexEntry.previous
	w.previous.indexEntry.next, first.indexEntry.previous = d, d
	if before {
		w.chain, first.indexEntry.chain = first.indexEntry.chain, nil
		*p = d
	}
}

// remove removes d, which must be in the shape.
func (s *shape) remove(d *md) {
	w := &d.indexEntry
	if w.order <= w.previous.indexEntry.order { // d is the first of its ring
		p := s.slot(w.hash)
		for *p != d {
			p = &(*p).indexEntry.chain
		}
		if w.next == d {
			*p = w.chain
			s.keys--
		} else {
			*p = w.next
			w.next.indexEntry.chain = w.chain
		}
	}
	w.next.indexEntry.previous, w.previous.indexEntry.next = w.previous, w.next
	if s.oldBuckets == nil && len(s.buckets) > bucketsKept && s.keys < len(s.buckets)/16 {
		s.resize(len(s.buckets) / 4)
	}
	s.move(bucketsMoved)
}

// resize creates a table with n buckets. The entries are moved to it later, by move.
func (s *shape) resize(n int) {
	s.move(len(s.oldBuckets))
	s.oldBuckets, s.movedBuckets = s.buckets, 0
	s.buckets = make([]*md, n)
}

// move moves up to n buckets of the old table to the new one.
func (s *shape) move(n int) {
	if s.oldBuckets == nil {
		return
	}
	end := min(s.movedBuckets+n, len(s.oldBuckets))
	for ; s.movedBuckets < end; s.movedBuckets++ {
		d := s.oldBuckets[s.movedBuckets]
		s.oldBuckets[s.movedBuckets] = nil
		for d != nil {
			next := d.indexEntry.chain
			b := &s.buckets[d.indexEntry.hash&uint64(len(s.buckets)-1)]
			d.indexEntry.chain, *b = *b, d
			d = next
		}
	}
	if s.movedBuckets == len(s.oldBuckets) {
		s.oldBuckets, s.movedBuckets = nil, 0
	}
}

// clearEntries resets the indexEntry of all entries, so that the MDs no longer refer to
// each other. The shape cannot be used afterwards.
func (s *shape) clearEntries() {
	for _, buckets := range [][]*md{s.oldBuckets, s.buckets} {
		for _, first := range buckets {
			for first != nil {
				next := first.indexEntry.chain
				for d := first; d.indexEntry.shape != nil; {
					after := d.indexEntry.next
					d.indexEntry = indexEntry{}
					d = after
				}
				first = next
			}
		}
	}
	s.oldBuckets, s.buckets = nil, nil
}

// clear prepares a shape without entries for another mask. It keeps the table unless that
// is too large.
func (s *shape) clear() {
	s.oldBuckets, s.movedBuckets = nil, 0
	if len(s.buckets) > bucketsKept {
		s.buckets = nil
	}
}
