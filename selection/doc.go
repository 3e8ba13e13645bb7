// Package selection chooses the path of a message: the local NI, the NI of the peer, and
// the gateway if one is needed. View.Choose returns a Decision, Decision.Commit records
// that a message took it, and View.Explain returns the reasons. Policies holds the
// selection rules of users. Compile turns them into attributes of NIs and peers, so the
// cost of a choice does not depend on the number of rules.
//
// Package node uses it, and embeds NI and PeerNI in its own structs. A choice has no side
// effects. View, Local, Peer and Routing are immutable once they are in use, and are
// replaced as a whole; the fields of other objects that change are atomic. Everything
// except Policies is therefore safe for concurrent use.
//
// The package does no I/O, starts no goroutine, and has no clock and no locks.
package selection
