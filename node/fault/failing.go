package fault

import "github.com/lnetd/lnetd/lnet"

// Forever is the count for FailNID that never runs out.
const Forever = -1

// FailNID makes the next count messages to or from n fail, or of every NID if n is
// lnet.AnyNID (lnet-core 11.4). It replaces an earlier count for n. A count of 0 removes
// the count for n; with lnet.AnyNID it removes all counts. FailNID returns ErrInvalid if
// count is below Forever or n is the zero NID.
func (r *Rules) FailNID(n lnet.NID, count int) error {
	switch {
	case n.IsZero():
		return invalid("nid", nil, "no NID")
	case count < Forever:
		return invalid("count", count, "below -1 (no limit)")
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

// Fails reports whether a message to or from n fails. If so, the message is counted:
// against the count for n if it has one, otherwise against that for lnet.AnyNID. The
// caller drops a message that has arrived, and refuses to send a PUT or GET (EIO).
func (r *Rules) Fails(n lnet.NID) bool {
	if !r.has(someFailing) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.countDown(n) || r.countDown(lnet.AnyNID)
}

// countDown uses up one message of n's count. It returns false if n has no count.
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
