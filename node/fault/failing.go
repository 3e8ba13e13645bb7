package fault

import "github.com/lnetd/lnetd/lnet"

// Forever is the number of messages of a FailNID that does not end by itself.
const Forever = -1

// FailNID makes the next count messages to or from a NID fail, those of every
// NID for lnet.AnyNID (lnet-core 11.4). It takes the place of what was said
// about that NID before. A count of 0 ends it, and for lnet.AnyNID ends all. A
// count below Forever and the zero NID are ErrInvalid.
func (r *Rules) FailNID(n lnet.NID, count int) error {
	switch {
	case n.IsZero():
		return invalid("nid", nil, "no NID")
	case count < Forever:
		return invalid("count", count, "below -1, which is for ever")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case count != 0:
		r.failing[n] = count
	case n.IsAny():
		clear(r.failing)
	default:
		delete(r.failing, n)
	}
	r.changed()
	return nil
}

// Fails tells whether a message to or from a NID fails, and counts it if so:
// against what was said about that NID, else about every NID. The caller drops
// an arrival and refuses to send a PUT or GET (EIO).
func (r *Rules) Fails(n lnet.NID) bool {
	if !r.has(someFailing) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.countDown(n) || r.countDown(lnet.AnyNID)
}

// countDown takes one message off the count of a NID that has one.
func (r *Rules) countDown(n lnet.NID) bool {
	left, ok := r.failing[n]
	switch {
	case !ok:
		return false
	case left == 1:
		delete(r.failing, n)
		r.changed()
	case left > 1:
		r.failing[n] = left - 1
	}
	return true
}
