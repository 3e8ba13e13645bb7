package simulation

// Deed is a kind of action of transfer machines.
type Deed uint8

// Actions that are counted.
const (
	DeedMessage      Deed = iota // a message was received
	DeedShared                   // a message was received into a buffer that already had one
	DeedAnswer                   // a message was answered by its receiver
	DeedLateAnswer               // an answer was sent later, to a retained end point
	DeedPassiveRecv              // a peer filled a buffer
	DeedPassiveSend              // a peer fetched a buffer
	DeedActiveRecv               // a buffer was fetched from a peer
	DeedActiveSend               // a buffer was sent to fill a peer's
	DeedCancelled                // a buffer was cancelled
	DeedTimedOut                 // a buffer's deadline passed
	DeedNetworkError             // an operation failed with a network error
	DeedSynchronous              // an event was delivered by the program (synchronous delivery)
	DeedAborted                  // a machine was stopped with abort
	DeedDrained                  // a machine was stopped without abort
	DeedDown                     // a machine failed with its node
	DeedNoAddress                // a machine could not start because its NI was absent
	DeedStarved                  // a machine ran out of receive buffers
	DeedTooLong                  // a message was sent that is too long for every buffer
	DeedPast                     // an Add was refused because the deadline had passed
	DeedMisused                  // an Add was refused because the descriptor is for the other direction
	DeedRegistered               // a buffer was registered again
	DeedVacated                  // all machines of a running node were gone
	deedKinds
)

var deedNames = [deedKinds]string{
	"message", "message in a shared buffer", "answer", "late answer", "passive receive", "passive send",
	"active receive", "active send", "cancelled", "timed out", "network error", "synchronous delivery",
	"stopped with abort", "stopped without", "down with its node", "no address", "starved", "message too long",
	"deadline in the past", "descriptor misused", "registered anew", "node vacated",
}

func (d Deed) String() string { return deedNames[d] }

// MissingDeeds lists the actions that never happened.
func (r *Report) MissingDeeds() []Deed {
	var missing []Deed
	for d, n := range r.Deeds {
		if n == 0 {
			missing = append(missing, Deed(d))
		}
	}
	return missing
}
