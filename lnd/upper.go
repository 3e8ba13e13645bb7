package lnd

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Upper is what an interface reports to: the node's side of one NI. Upcalls
// come from the driver's goroutines or from callers of Poller.Poll, several at a time for different
// connections, and must not block: whoever needs more hands over to a queue
// of its own. They may call the interface's methods except Close. They may
// begin before Driver.Open has returned, and have ended when Interface.Close
// returns.
type Upper interface {
	// Arrived announces a message whose header m.Header is complete. The
	// driver reads nothing more of it until Interface.Receive says where the
	// payload goes. A peer whose messages are not placed is held back: by
	// then no more of them arrive than it has connections or credits. Other
	// peers notice nothing.
	//
	// A non-nil error is a protocol error (lnet-wire 4.7): the driver closes
	// the peer's connections, and Receive must not be called.
	Arrived(m *Rx) error

	// Withdrawn tells that the connection of an arrival that Arrived has
	// accepted died, or was closed, before its placement was given: the
	// payload will not come. The upper side still answers with
	// Interface.Receive exactly once, within the upcall or soon after it, which
	// then completes m with an error, or just ends if the placement drops it.
	//
	// It comes after Arrived has returned, at most once for an arrival, without
	// a lock of the driver's, and in no order with PeerDown. A placement given
	// at the same moment may cross it: Receive may be under way, or even have
	// returned, when Withdrawn comes, which the upper side then ignores. In any
	// case m stands for the arrival as long as the upcall lasts: it is neither
	// completed nor used for another one before Withdrawn has returned.
	Withdrawn(m *Rx)

	// PeerDown tells that the last connection with a peer failed, or that
	// none could be made (socklnd 15.4).
	PeerDown(d PeerDown)

	// ConnectionsLost tells that connections with a peer have died, all or some:
	// an answer that was to come by them may never come. It comes without a lock of
	// the driver's, and in no order with PeerDown, which need not come if there are
	// other connections, or are about to be. Those that end with the interface,
	// and those of other processes than lnet.PIDLustre, nobody is told of.
	ConnectionsLost(peer lnet.NID)

	// PeerRestarted tells that the peer has begun a new life since it was last
	// connected: what it knew is gone. Messages that were sent before will not be
	// answered, unless they are sent yet: those fail with ErrRestarted, or wait for
	// the new life. It comes before the first Arrived of that
	// life and once per interface and life, not for the first life that the
	// interface meets, and without a lock of the driver's. No connection of the
	// new life is used before the upcall has returned.
	//
	// It is in no order with PeerDown, which need not come at all if the peer
	// was back before it was missed. Messages of the life before may be on their
	// way up when it comes.
	//
	// Drivers remember peers that have gone as far as bounded memory allows; one
	// that has been forgotten is met for the first time again. What a peer says
	// of its life is as true as what it says of its NID. Processes other than
	// lnet.PIDLustre on the peer's NID have lives of their own, of which nobody
	// is told.
	PeerRestarted(peer lnet.NID)

	// LNDTimeout is the LND timeout that follows from LNet's own (lnet-core 6.5),
	// for interfaces that are told none of their own; 0: there is none, and the
	// driver takes its default. It may be another one each time.
	LNDTimeout() time.Duration

	// Vouched tells whether somebody's word stands behind a peer: it was configured,
	// or is of use to what was. Where a driver cannot call all peers at once, those
	// have places that strangers cannot take. It may be asked from any goroutine, and
	// is answered at once.
	Vouched(peer lnet.NID) bool

	// PeerStalled tells that what is sent to the peer, or waits for a connection
	// with it, has made no progress since a time, a second or more ago, although
	// the transport tries, or, with the zero time, that this is over: the peer
	// answers, or nothing has been left of it for a while that could: that calls
	// have failed makes it no better than it was. It comes again while that lasts when
	// something more may have been sent to the peer, not when better ways come up:
	// that is the upper side's to know. One call of an interface comes at a time.
	// Nothing is closed for it: the transport may still heal. Interface.Recall takes
	// back what has not begun.
	PeerStalled(peer lnet.NID, since time.Time)

	// LinkChanged tells of each change of the link state, which Link returns
	// already.
	LinkChanged(s LinkState)
}

// PeerDown describes a peer that a driver has lost.
type PeerDown struct {
	Peer lnet.NID
	// LastAlive is when the peer last gave a sign of life; zero if never.
	LastAlive time.Time
	// Err is why; see StatusOf.
	Err error
}
