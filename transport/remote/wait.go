package remote

import "time"

// Wait implements transport.CoreTM. It waits in the ring, where lnetd can wake it, or in waitWithoutRing if lnetd is
// gone.
func (t *tm) Wait(until time.Time) {
	if t.Pending() {
		return
	}
	if !t.drained.Load() && t.gate.enter() {
		err := t.ring.Completions.Wait(until)
		t.gate.leave()
		if err == nil {
			return
		}
	}
	t.waitWithoutRing(until)
}

// waitWithoutRing waits until Wake is called, or until the given time, where zero means no time limit. It is
// used when the ring has ended but markLost, which calls Wake, has not been called yet, and after Reap has
// reported the end.
func (t *tm) waitWithoutRing(until time.Time) {
	var expired <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-t.tokens:
	case <-expired:
	}
}

// Wake ends the Wait that is in progress. If no Wait is in progress, the next Wait returns immediately.
func (t *tm) Wake() {
	select {
	case t.tokens <- struct{}{}:
	default: // already holds a token
	}
	if t.gate.enter() {
		t.ring.Completions.Wake()
		t.gate.leave()
	}
}
