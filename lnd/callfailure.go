package lnd

// CallFailure is the reason why an attempt to connect to a peer failed.
type CallFailure uint8

// Every failed attempt to connect is counted under one of these.
const (
	CallRefused     CallFailure = iota // nothing listens at the address
	CallUnreachable                    // there is no route to the peer
	CallTimeout                        // no answer arrived in time
	CallNoPort                         // no source port is free, or permission to use it is missing
	CallGone                           // the peer closed the connection before the handshake was complete
	CallMagic                          // what listens at the address does not speak the protocol
	CallVersion                        // what listens at the address speaks an unknown version of the protocol
	CallHello                          // the answer in the handshake is malformed or names another peer
	CallTurnedAway                     // the peer refused the connection; over TCP, several times in a row
	CallOther                          // any other reason
	CallFailures    = iota             // number of reasons
)

var callFailureNames = [CallFailures]string{
	"refused", "unreachable", "timeout", "no_port", "went_away", "bad_magic", "bad_version", "bad_hello", "turned_away", "other",
}

// String returns the reason's name in metrics. It is in lower_case and never changes.
func (f CallFailure) String() string { return callFailureNames[f] }

// CallError is the error of a failed attempt to connect. A driver uses it if Err itself does not show the
// reason.
type CallError struct {
	Reason CallFailure
	Err    error
}

func (e *CallError) Error() string { return e.Err.Error() }

func (e *CallError) Unwrap() error { return e.Err }

// CallFailureCounts holds the number of failed attempts to connect, by reason.
type CallFailureCounts [CallFailures]uint64

// Total returns the sum over all reasons.
func (c *CallFailureCounts) Total() (sum uint64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// Caller is an Interface that connects to peers and counts its failed attempts.
type Caller interface {
	Interface
	// CallFailures returns the counts since the interface was opened.
	CallFailures() CallFailureCounts
}
