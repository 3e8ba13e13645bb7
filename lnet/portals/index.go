package portals

import (
	"hash/maphash"
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

// index holds the entries of a portal that can still take a request, and finds
// the first one that matches at a cost that depends on the number of shapes,
// not of entries (lnet-core 4.3). An entry whose MD is used up has no place
// here any more.
//
//	index -> group -> shape -> bucket -> key -> entries, first to last
//
// All of it is guarded by portal.mu.
type index struct {
	ignoring group // entries with ignore bits: they are asked first
	exact    group
	seed     maphash.Seed
	shapes   *sync.Pool
}

// group is entries that stand in one order, whatever their shape.
type group struct {
	shapes     *shape
	head, tail int64 // orders given out so far: [head, tail)
}

// place is where an entry stands. What a search looks at comes first.
type place struct {
	chain          *md // of the first of a ring: that of the next key in the bucket
	hash           uint64
	key            key
	order          int64  // in its group; less is asked first
	shape          *shape // nil: nowhere
	next, previous *md    // the ring of entries with the same key, in order
}

func (x *index) group(m *mask) *group {
	if m.ignore != 0 {
		return &x.ignoring
	}
	return &x.exact
}

// add gives d a place, unless it is used up from the start.
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
	w := &d.place
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

// remove takes d out, if it is there.
func (x *index) remove(d *md) {
	s := d.place.shape
	if s == nil {
		return
	}
	s.remove(d)
	d.place = place{}
	if s.keys == 0 {
		x.group(&s.mask).drop(s)
		s.clear()
		x.shapes.Put(s)
	}
}

// clear takes out all entries.
func (x *index) clear() {
	for _, g := range []*group{&x.ignoring, &x.exact} {
		for s := g.shapes; s != nil; s = s.next {
			s.scatter()
		}
		g.shapes = nil
	}
}

// first returns the entry that o meets first of those that match it, or nil.
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

// drop takes s out of the group.
func (g *group) drop(s *shape) {
	for p := &g.shapes; *p != nil; p = &(*p).next {
		if *p == s {
			*p, s.next = s.next, nil
			return
		}
	}
}

// first asks every shape for its first match, and returns the first of these.
func (g *group) first(seed maphash.Seed, o *Operation) *md {
	var found *md
	e := &o.Event
	for s := g.shapes; s != nil; s = s.next {
		if !s.serves(e.Type) {
			continue
		}
		found = earlier(found, s.find(seed, s.key(e.MatchBits, e.Initiator.NID, e.Initiator.PID)))
		if s.anyNID {
			continue
		}
		for _, nid := range o.Aliases {
			found = earlier(found, s.find(seed, s.key(e.MatchBits, nid, e.Initiator.PID)))
		}
	}
	return found
}

// earlier is the one of two entries of a group that is asked first; either may
// be nil.
func earlier(d, f *md) *md {
	if d == nil || f != nil && f.place.order < d.place.order {
		return f
	}
	return d
}

// matches tells whether d, which may have no place, matches o (lnet-core 4.2
// steps 1 to 5).
func (d *md) matches(o *Operation) bool {
	w, e := &d.place, &o.Event
	s := w.shape
	if s == nil || !s.serves(e.Type) {
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
