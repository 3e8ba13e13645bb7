package fabric

import "sync"

// Recycler keeps the memory of closed regions for other fabrics, so that a fabric that lives
// for a moment, as in a fuzz target, costs little. The contents of such memory are undefined,
// and no poison shows a use after the region was closed. A nil Recycler keeps nothing. Methods
// are safe for concurrent use.
type Recycler struct {
	mu   sync.Mutex
	free map[int][][]byte // by size
}

func (r *Recycler) take(size int) []byte {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if list := r.free[size]; len(list) > 0 {
			r.free[size] = list[:len(list)-1]
			return list[len(list)-1]
		}
	}
	return make([]byte, size)
}

// put keeps b. It returns false if r is nil.
func (r *Recycler) put(b []byte) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free == nil {
		r.free = make(map[int][][]byte)
	}
	r.free[len(b)] = append(r.free[len(b)], b)
	return true
}
