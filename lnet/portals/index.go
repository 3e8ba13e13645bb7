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
