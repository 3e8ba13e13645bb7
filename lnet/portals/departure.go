package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Departure describes how a request was sent: from which local NID, to which NID, and in
// which epoch. The owner of the table counts epochs: it increases the epoch whenever an
// incarnation of a target has ended. Requests to this target with a lower epoch were sent
// to that incarnation, and will never be answered. The zero Departure means that this is
// unknown. A request that went through a router has it, for example, because it may be
// answered even if the router restarts.
type Departure struct {
	From, To lnet.NID
	Epoch    uint64
}

// anyDeadline is later than every deadline.
const anyDeadline = 1<<63 - 1

// recordDeparture records that a request was sent that expects a response. If other
// requests from d are outstanding that were sent from or to other NIDs, d.departure
// becomes the zero value. d.mu must be held.
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

// matchesDeparture reports whether all outstanding requests from d were sent from and to
// the NIDs of one of departures, before its epoch. d.mu must be held.
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

// AppendUnanswered appends the tracked requests that will never be answered, because the
// incarnation of their target has ended. For each element of lives, these are the requests
// that were sent from From to To before Epoch. The NIDs in lives must not be zero. MDs
// with an operation under way are not included, nor are MDs whose outstanding requests
// have different NIDs. The caller then calls UnlinkUnanswered for each.
func (t *Table) AppendUnanswered(dst []Overdue, lives []Departure) []Overdue {
	return t.appendExpired(dst, anyDeadline, func(d *md) bool { return d.matchesDeparture(lives) })
}

// UnlinkUnanswered unlinks an MD that AppendUnanswered returned. It is like Unlink, but
// the UNLINK event has the error why. It returns ErrNotFound if the request may be
// answered after all, for example because another request was sent since.
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
