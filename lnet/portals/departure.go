package portals

import (
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Departure is how a request left this node: by which NI, to which NID of its target,
// and when, as a number that grows with each life that a target is known to have
// ended. Who learns that a life has ended knows by it which requests that life had
// taken, and never will answer. The zero value says nothing: the request went
// through a router, for example, and may be answered whatever becomes of that.
type Departure struct {
	From, To lnet.NID
	Epoch    uint64
}

// anyDeadline is later than every deadline.
const anyDeadline = 1<<63 - 1

// depart notes how a request left that asks for a response. Where requests are
// outstanding that left otherwise, or earlier ones that nothing is known of, only
// what they have in common counts. d.mu is held.
func (d *md) depart(w Departure) {
	switch {
	case !d.departed:
		d.departure, d.departed = w, true
	case d.departure.From == w.From && d.departure.To == w.To:
		d.departure.Epoch = max(d.departure.Epoch, w.Epoch)
	default:
		d.departure = Departure{}
	}
}

// took says that every request outstanding had left as one of lives says, before
// it ended. d.mu is held.
func (d *md) took(lives []Departure) bool {
	if d.deadline.Load() == 0 || d.refs > 0 || !d.departed {
		return false
	}
	for _, l := range lives {
		if d.departure.From == l.From && d.departure.To == l.To && d.departure.Epoch < l.Epoch {
			return true
		}
	}
	return false
}

// AppendUnanswered appends the watched requests that nobody will answer, since a
// life has ended that took them: those that left by From, to To, before Epoch. A
// zero NID stands for nobody. The caller then calls UnlinkUnanswered. MDs of which
// something is under way are not among them, nor are those that ask several.
func (t *Table) AppendUnanswered(dst []Overdue, lives []Departure) []Overdue {
	return t.appendWatched(dst, anyDeadline, func(d *md) bool { return d.took(lives) })
}

// UnlinkUnanswered is Unlink for what AppendUnanswered found, if it still holds:
// the UNLINK event says why. The error is ErrNotFound if it does not.
func (t *Table) UnlinkUnanswered(h lnet.Handle, lives []Departure, why error) error {
	d := t.hold(h)
	if d == nil {
		return fmt.Errorf("unlink %s: %w", h, ErrNotFound)
	}
	if !d.took(lives) {
		d.release()
		return fmt.Errorf("unlink %s: may be answered: %w", h, ErrNotFound)
	}
	t.end(d, why)
	return nil
}
