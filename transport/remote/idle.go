package remote

import (
	"container/list"
	"encoding/binary"
	"sync"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// maxIdle is the maximum number of idle registrations of a domain. The limit is half of lnetd's quota of
// buffers if that is less.
const maxIdle = 1024

// registration is a buffer as registered with lnetd. Several buffers of the program may use it in turn.
type registration struct {
	index, generation uint32
	ranges            string              // result of rangesKey for its ranges
	areas             map[uint32]struct{} // areas that its ranges are in
	// operation is the first operation number that was not used for an op yet.
	operation uint32
	place     *list.Element // position in idle.order; nil while a buffer uses the registration
}

// newRegistration returns the registration that lnetd has created for ranges. key is rangesKey(ranges), and
// name is lnetd's reply.
func newRegistration(ranges []protocol.Range, key string, name *protocol.BufRegisterReply) *registration {
	r := &registration{index: name.Index, generation: name.Generation, ranges: key, areas: make(map[uint32]struct{})}
	for i := range ranges {
		r.areas[ranges[i].Area] = struct{}{}
	}
	return r
}

// rangesKey returns a map key for ranges. Ranges that cover the same memory in the same order have the same
// key, however adjacent memory is divided into ranges.
func rangesKey(ranges []protocol.Range) string {
	var key []byte
	for i := 0; i < len(ranges); {
		first, length := ranges[i], uint64(0)
		for ; i < len(ranges) && ranges[i].Area == first.Area && ranges[i].Offset == first.Offset+length; i++ {
			length += uint64(ranges[i].Length)
		}
		key = binary.LittleEndian.AppendUint32(key, first.Area)
		key = binary.LittleEndian.AppendUint64(key, first.Offset)
		key = binary.LittleEndian.AppendUint64(key, length)
	}
	return string(key)
}

// idle holds the registrations that no buffer uses at present. A new buffer of the same ranges can use one
// without a request to lnetd. So a program that registers the same memory for each message sends only one
// request. The least recently used registration is evicted first.
type idle struct {
	mu       sync.Mutex // guards the fields below
	byRanges map[string][]*registration
	order    list.List // contains *registration; the first one is evicted first
}

// removeByRanges removes and returns a registration with the given key of ranges. It returns nil if there is
// none.
func (s *idle) removeByRanges(ranges string) *registration {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.byRanges[ranges]
	if len(all) == 0 {
		return nil
	}
	r := all[len(all)-1]
	s.remove(r)
	return r
}

// remove removes r from the idle registrations. mu is held.
func (s *idle) remove(r *registration) {
	s.order.Remove(r.place)
	r.place = nil
	all := s.byRanges[r.ranges]
	for i, o := range all {
		if o == r {
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
			break
		}
	}
	if s.byRanges[r.ranges] = all; len(all) == 0 {
		delete(s.byRanges, r.ranges)
	}
}

// add adds r as the registration that is evicted last. mu is held.
func (s *idle) add(r *registration) {
	if s.byRanges == nil {
		s.byRanges = make(map[string][]*registration)
	}
	r.place = s.order.PushBack(r)
	s.byRanges[r.ranges] = append(s.byRanges[r.ranges], r)
}

// restore adds r, which was evicted but which lnetd has refused to deregister. It may exceed the maximum
// number.
func (s *idle) restore(r *registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(r)
}

// put adds r. If there are then more than most registrations, it removes and returns the least recently used
// one. Otherwise it returns nil.
func (s *idle) put(r *registration, most int) *registration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(r)
	if s.order.Len() <= most {
		return nil
	}
	oldest := s.order.Front().Value.(*registration)
	s.remove(oldest)
	return oldest
}

// evict removes and returns the registrations for which match returns true.
func (s *idle) evict(match func(r *registration) bool) (all []*registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.order.Front(); e != nil; {
		r := e.Value.(*registration)
		if e = e.Next(); match(r) {
			s.remove(r)
			all = append(all, r)
		}
	}
	return all
}

// evictOldest removes and returns the least recently used eighth of the registrations, rounded up.
func (s *idle) evictOldest() (all []*registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := (s.order.Len() + 7) / 8; n > 0; n-- {
		r := s.order.Front().Value.(*registration)
		s.remove(r)
		all = append(all, r)
	}
	return all
}
