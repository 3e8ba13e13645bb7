package fault

import "github.com/lnetd/lnetd/lnet"

// Forever is the count for FailNID that never runs out.
const Forever = -1

// FailNID makes the next count messages to or from n fail (lnet-core 11.4). lnet.AnyNID
// stands for every NID. The new count replaces an earlier one for n. A count of 0 removes
// the count for n; with lnet.AnyNID it removes the counts of all NIDs. FailNID returns
// ErrInvalid if count is below Forever or n is the zero NID.
func (r *Rules) FailNID(n lnet.NID, count int) error {
	switch {
	case n.IsZero():
		return invalid("nid", nil, "it is missing")
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

// Fails reports whether a message to or from n must fail. If so, the message is subtracted
// from the count for n, or from the count for lnet.AnyNID if n has no count. The caller
// must then drop the message if it has arrived, or refuse to send it if it is a PUT or GET
// (EIO).
func (r *Rules) Fails(n lnet.NID) bool {
	if !r.has(someFailing) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.countDown(n) || r.countDown(lnet.AnyNID)
}

// countDown subtracts one message from n's count. It returns false if n has no count.
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
