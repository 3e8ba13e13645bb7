package simulation

// Deed is something that transfer machines did.
type Deed uint8

// What is counted.
const (
	DeedMessage      Deed = iota // a message was received
	DeedShared                   // into a buffer that had one
	DeedAnswer                   // by whom it was an answer for
	DeedLateAnswer               // an answer was sent to an end point that was kept
	DeedPassiveRecv              // a peer has filled a buffer
	DeedPassiveSend              // a peer has fetched one
	DeedActiveRecv               // a buffer was fetched
	DeedActiveSend               // a buffer was sent to fill one
	DeedCancelled                // a buffer was cancelled
	DeedTimedOut                 // the deadline of one has passed
	DeedNetworkError             // an operation has failed, as the network says
	DeedSynchronous              // an event was delivered by the program
	DeedAborted                  // a machine was stopped with abort
	DeedDrained                  // and without
	DeedDown                     // one has failed with its node
	DeedNoAddress                // one could not be started, as the NI was not there
	DeedStarved                  // one lacked receive buffers
	DeedTooLong                  // a message was sent that no buffer takes
	DeedPast                     // an Add was refused, as the deadline had passed
	DeedMisused                  // an Add was refused, as the descriptor is for the other direction
	DeedRegistered               // a buffer was registered anew
	DeedVacated                  // all machines of a node that goes on were gone
	deedKinds
)

var deedNames = [deedKinds]string{
	"message", "message in a shared buffer", "answer", "late answer", "passive receive", "passive send",
	"active receive", "active send", "cancelled", "timed out", "network error", "synchronous delivery",
	"stopped with abort", "stopped without", "down with its node", "no address", "starved", "message too long",
	"deadline in the past", "descriptor misused", "registered anew", "node vacated",
}

func (d Deed) String() string { return deedNames[d] }

// MissingDeeds lists what transfer machines never did.
func (r *Report) MissingDeeds() []Deed {
	var missing []Deed
	for d, n := range r.Deeds {
		if n == 0 {
			missing = append(missing, Deed(d))
		}
	}
	return missing
}
