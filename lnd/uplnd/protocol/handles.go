package protocol

// Handles gives numbers to things of one side that the other side refers to, such as messages. A number is not
// given again soon: its upper half counts the uses of its lower half, an index.
type Handles[T any] struct {
	slots []slot[T]
	free  []uint32 // indices
	used  int
}

type slot[T any] struct {
	uses  uint32
	used  bool
	value T
}

// Add gives a number to v.
func (h *Handles[T]) Add(v T) uint64 {
	if len(h.free) == 0 {
		h.free = append(h.free, uint32(len(h.slots)))
		h.slots = append(h.slots, slot[T]{})
	}
	k := h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	s := &h.slots[k]
	s.uses++
	s.used, s.value = true, v
	h.used++
	return uint64(s.uses)<<32 | uint64(k)
}

// Find returns the thing with a number. It returns false if no thing has the number any more.
func (h *Handles[T]) Find(n uint64) (v T, ok bool) {
	if k := uint32(n); uint64(k) < uint64(len(h.slots)) {
		if s := &h.slots[k]; s.used && uint64(s.uses) == n>>32 {
			return s.value, true
		}
	}
	return v, false
}

// Remove takes the number from the thing and returns it. It returns false if no thing has the number any more.
func (h *Handles[T]) Remove(n uint64) (v T, ok bool) {
	v, ok = h.Find(n)
	if ok {
		s := &h.slots[uint32(n)]
		var none T
		s.used, s.value = false, none
		h.free = append(h.free, uint32(n))
		h.used--
	}
	return v, ok
}

// Len returns how many things have a number.
func (h *Handles[T]) Len() int { return h.used }

// All calls f with each thing and its number. f may remove it.
func (h *Handles[T]) All(f func(n uint64, v T)) {
	for k := range h.slots {
		if s := &h.slots[k]; s.used {
			f(uint64(s.uses)<<32|uint64(k), s.value)
		}
	}
}
