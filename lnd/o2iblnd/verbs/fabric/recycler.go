package fabric

import "sync"

// Recycler keeps the memory of closed regions and gives it to other regions, also of other fabrics. This makes
// short-lived fabrics cheap, for example in fuzz targets. The contents of reused memory are undefined, and the
// use of a region after it was closed is not detected. A nil Recycler keeps nothing. Recycler is safe for
// concurrent use.
type Recycler struct {
	mu   sync.Mutex
	free map[int][][]byte // free memory by its size
}

// take returns size bytes, from kept memory if possible.
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

// put keeps b for reuse. It returns false if r is nil.
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
