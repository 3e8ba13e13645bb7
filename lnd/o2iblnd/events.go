package o2iblnd

import "github.com/lnetd/lnetd/lnd/peering"

// The kinds of the driver's own events.
const (
	evSent      = peering.OwnEvents + iota // a message was sent or has failed; Subject is its *tx
	evReceived                             // an arrival is complete or has failed; Subject is its *rx
	evWithdrawn                            // upcall Withdrawn; Subject is the *rx
)

type events []peering.Event

// make makes the upcall or completion of one of the driver's own events. No lock is held.
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
