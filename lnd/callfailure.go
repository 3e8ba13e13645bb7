package lnd

// CallFailure says why an interface that called a peer got no connection.
type CallFailure uint8

// Every attempt to connect that is given up ends under one of these.
const (
	CallRefused     CallFailure = iota // nobody listens there
	CallUnreachable                    // no way leads there
	CallTimeout                        // no answer came in time
	CallNoPort                         // there is no port, or no right, to call from
	CallGone                           // the peer went away before it had introduced itself
	CallMagic                          // who is there does not speak the protocol
	CallVersion                        // who is there speaks a version that is not known
	CallHello                          // who is there is another, or makes no sense
	CallTurnedAway                     // the peer does not want the connection, again and again
	CallOther                          // something else
	CallFailures    = iota             // how many reasons there are
)

var callFailureNames = [CallFailures]string{
	"refused", "unreachable", "timeout", "no_port", "went_away", "bad_magic", "bad_version", "bad_hello", "turned_away", "other",
}

// String is the name by which metrics know the reason, lower_case and stable.
func (f CallFailure) String() string { return callFailureNames[f] }

// CallFailureCounts are numbers of calls by why they failed.
type CallFailureCounts [CallFailures]uint64

// Total is the sum over all reasons.
func (c *CallFailureCounts) Total() (sum uint64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// Caller is an Interface that calls peers, and knows why it got no connection.
type Caller interface {
	Interface
	// CallFailures are those since the interface is there.
	CallFailures() CallFailureCounts
}
