package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Departure describes how a request left this node: its source NI, the NID of its target,
// and the epoch. The epoch increases whenever an incarnation of a target is known to have
// ended. It identifies the requests that were sent to that incarnation and will never be
// answered. The zero value means unknown: for example, a request that went through a router
// may be answered even if the router restarts.
type Departure struct {
	From, To lnet.NID
	Epoch    uint64
}

// anyDeadline is later than every deadline.
const anyDeadline = 1<<63 - 1

// recordDeparture records how a request that asks for a response left. If other requests are
// outstanding that left differently, or whose departure is unknown, d.departure becomes the
// zero value. d.mu is held.
func (d *md) recordDeparture(w Departure) {
	switch {
	case !d.hasDeparture:
		d.departure, d.hasDeparture = w, true
	case d.departure.From == w.From && d.departure.To == w.To:
		d.departure.Epoch = max(d.departure.Epoch, w.Epoch)
	default:
		d.departure = Departure{}
	}
}

// matchesDeparture reports whether all outstanding requests left as one of lives describes, before its
// epoch. d.mu is held.
func (d *md) matchesDeparture(departures []Departure) bool {
	if d.deadline.Load() == 0 || d.refs > 0 || !d.hasDeparture {
		return false
	}
	for _, l := range departures {
		if d.departure.From == l.From && d.departure.To == l.To && d.departure.Epoch < l.Epoch {
			return true
		}
	}
	return false
}

// AppendUnanswered appends the tracked requests that will not be answered because their
// target's incarnation has ended: those that left from From, to To, before Epoch, for one
// of lives. The NIDs in lives must not be zero. MDs with an operation under way, and MDs
// whose outstanding requests left in different ways, are not included. The caller then
// calls UnlinkUnanswered.
func (t *Table) AppendUnanswered(dst []Overdue, lives []Departure) []Overdue {
	return t.appendExpired(dst, anyDeadline, func(d *md) bool { return d.matchesDeparture(lives) })
}

// UnlinkUnanswered is like Unlink for a request from AppendUnanswered. The UNLINK event has
// the error why. It returns ErrNotFound if the request may be answered after all.
func (t *Table) UnlinkUnanswered(h lnet.Handle, lives []Departure, why error) error {
	d := t.lockMD(h)
	if d == nil {
		return fmt.Errorf("unlink MD %s: %w", h, ErrNotFound)
	}
	if !d.matchesDeparture(lives) {
		d.release()
		return fmt.Errorf("unlink MD %s: none of its requests was to a target that restarted: %w", h, ErrNotFound)
	}
	t.unlinkWithError(d, why)
	return nil
}
