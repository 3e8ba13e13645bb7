package o2iblnd

import "github.com/lnetd/lnetd/lnd/peering"

// The driver's own events. The Subject is a *tx, and a *rx for the others.
const (
	evSent = peering.OwnEvents + iota
	evReceived
	evWithdrawn
)

type events []peering.Event

// make makes one of the driver's own events. No lock is held.
func (i *Interface) make(e *peering.Event) {
	switch e.Kind {
	case evSent:
		e.Subject.(*tx).finish(e.Err)
	case evReceived:
		e.Subject.(*rx).finish(e.Err)
	case evWithdrawn:
		r := e.Subject.(*rx)
		i.Upper.Withdrawn(&r.Rx)
		r.withdrawn()
	}
}
