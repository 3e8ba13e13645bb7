// Package selection chooses how a message travels: from which NI, to which NI of
// the peer, by which gateway. It holds the objects that a choice looks at, the
// order in which their attributes count, what the choice changes (Commit), the
// reasons for it (Explain), and the policies of users, which it turns into
// attributes of the objects, so that choosing does not grow with the rules.
//
// Package node calls it and embeds NI and PeerNI in its own structs. A choice is
// free of side effects. View, Local, Peer and Routing never change once they are
// in use: new ones replace them; what does change in the objects is atomic. So
// all but Policies may be used from any goroutine.
//
// The package does no I/O, has no goroutine, no clock and no lock.
package selection
