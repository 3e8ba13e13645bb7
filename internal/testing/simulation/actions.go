package simulation

// Action is something that transfer machines did or that happened to them.
type Action uint8

// Actions. A scenario counts each of them.
const (
	ActionMessage      Action = iota // a message was received
	ActionShared                     // a message was received into a buffer that already had a message
	ActionAnswer                     // a message was answered by its receiver
	ActionLateAnswer                 // an answer was sent later, to a retained end point
	ActionPassiveRecv                // a peer filled a buffer
	ActionPassiveSend                // a peer fetched a buffer
	ActionActiveRecv                 // a buffer was fetched from a peer
	ActionActiveSend                 // a buffer was written to a peer's buffer
	ActionCancelled                  // a buffer was cancelled
	ActionTimedOut                   // a buffer's deadline passed
	ActionNetworkError               // an operation failed with a network error
	ActionSynchronous                // an event was delivered by the program (synchronous delivery)
	ActionAborted                    // a machine was stopped with abort
	ActionStopped                    // a machine was stopped without abort
	ActionNodeClosed                 // a machine failed because its node closed
	ActionNoAddress                  // a machine could not start because its NI was absent
	ActionNoBuffers                  // a machine ran out of receive buffers
	ActionTooLong                    // a message was sent that is too long for every buffer
	ActionPastDeadline               // an Add was refused because the deadline had passed
	ActionMisused                    // an Add was refused because the descriptor is for the other direction
	ActionReregistered               // a buffer was registered again
	ActionAllStopped                 // all machines of a running node were stopped
	actionKinds
)

var actionNames = [actionKinds]string{
	"message", "message in a shared buffer", "answer", "late answer", "passive receive", "passive send",
	"active receive", "active send", "cancelled", "timed out", "network error", "synchronous delivery",
	"stopped with abort", "stopped without", "down with its node", "no address", "starved", "message too long",
	"deadline in the past", "descriptor misused", "registered anew", "node vacated",
}

func (d Action) String() string { return actionNames[d] }

// MissingActions lists the actions that were never counted.
func (r *Report) MissingActions() []Action {
	var missing []Action
	for d, n := range r.Actions {
		if n == 0 {
			missing = append(missing, Action(d))
		}
	}
	return missing
}
