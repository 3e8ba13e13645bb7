package verbs

import "sync/atomic"

// Owned stores the owner of an ID. It is for implementations of ID.
type Owned struct{ owner atomic.Pointer[any] }

// SetOwner implements ID.
func (o *Owned) SetOwner(v any) { o.owner.Store(&v) }

// Owner implements ID.
func (o *Owned) Owner() any {
	if v := o.owner.Load(); v != nil {
		return *v
	}
	return nil
}

// PiecesFit reports whether all pieces that the requests refer to exist, if n pieces were passed to Post. It is
// for implementations of ID.Post.
func PiecesFit(requests []Request, n int) bool {
	for k := range requests {
		if int(requests[k].First)+int(requests[k].Count) > n {
			return false
		}
	}
	return true
}
