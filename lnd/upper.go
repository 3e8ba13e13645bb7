package lnd

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Upper receives an interface's upcalls: it is the node's side of one NI. Upcalls are made in the
// driver's goroutines or in those of callers of Poller.Poll. Upcalls for different connections may run
// concurrently. They must not block; longer work has to be queued. They may call the interface's
// methods except Close. They may start before Driver.Open has returned, and all have returned when
// Interface.Close returns.
type Upper interface {
	// Arrived announces a message whose header m.Header is complete. The driver reads no more of the
	// message until Interface.Receive specifies where the payload goes. This holds back a peer whose
	// messages are not placed: at most as many of them can arrive as it has connections or credits.
	// Other peers are not affected.
	//
	// A non-nil error is a protocol error (lnet-wire 4.7). The driver then closes the peer's
	// connections, and Receive must not be called.
	Arrived(m *Rx) error

	// Withdrawn reports that the connection of an accepted arrival died, or was closed, before its
	// placement was given: the payload will not arrive. The node still calls Interface.Receive exactly
	// once, within the upcall or soon after it. That call completes m with an error or, if the
	// placement drops the message, just releases m.
	//
	// Withdrawn is called after Arrived has returned, at most once per arrival, and without driver
	// locks held. It is not ordered with PeerDown. Receive may run at the same time, or even have
	// returned, when Withdrawn is called; the node then ignores Withdrawn. In any case m refers to this
	// arrival until Withdrawn returns: it is neither completed nor reused before.
	Withdrawn(m *Rx)

	// PeerDown reports that the last connection to a peer failed, or that none could be made: an attempt
	// failed, or messages waited in vain (socklnd 15.4). It is called once no other attempt of either
	// side is in progress, and before the messages that waited for a connection fail. Connections and
	// attempts that Interface.Disconnect ends are not reported.
	PeerDown(d PeerDown)

	// ConnectionsLost reports that some or all connections to a peer have died: an answer expected on
	// them may never arrive. It is called without driver locks held and is not ordered with PeerDown,
	// which may not follow if other connections exist or are being made. Connections that end because
	// the interface closes, and those of processes other than lnet.PIDLustre, are not reported.
	ConnectionsLost(peer lnet.NID)

	// PeerRestarted reports that the peer has restarted since it was last connected and has lost its
	// state. Messages sent before will not be answered. Messages that are still to be sent either fail
	// with ErrRestarted or wait for the new incarnation. PeerRestarted is called once per interface and
	// incarnation, before the first Arrived of the new incarnation, and without driver locks held. It
	// is not called for the first incarnation that the interface meets. No connection of the new
	// incarnation is used before the upcall has returned.
	//
	// It is not ordered with PeerDown, which may not be called at all if the peer came back quickly.
	// Messages of the previous incarnation may still be passed to Arrived at that time.
	//
	// Drivers remember departed peers within bounded memory. A peer that has been forgotten counts as
	// new. The incarnation that a peer announces is as trustworthy as the NID that it announces.
	// Processes other than lnet.PIDLustre on the peer's NID have separate incarnations, which are
	// not reported.
	PeerRestarted(peer lnet.NID)

	// LNDTimeout returns the LND timeout derived from LNet's timeouts (lnet-core 6.5), for interfaces
	// without a configured one. 0 selects the driver's default. The value
	// may change between calls.
	LNDTimeout() time.Duration

	// Vouched reports whether a peer is configured, or is needed to reach a configured one. If a driver
	// cannot connect to all peers at once, it reserves some connection attempts for these. It must
	// return at once and may be called from any goroutine.
	Vouched(peer lnet.NID) bool

	// PeerStalled reports that messages to the peer, or waiting for a connection to it, have made no
	// progress since the given time, a second or more ago, although the transport keeps trying. The
	// zero time reports the end of the stall: the peer answers, or for a while nothing has been left
	// that it could answer. Failed connection attempts do not end a stall.
	//
	// During a stall, the call is repeated when more may have been sent to the peer. It is not repeated
	// when better paths appear; the node has to watch for those. An interface makes one such call at a
	// time. The driver closes no connection because of a stall, since the transport may recover.
	// Interface.Recall cancels the messages that have not been started.
	PeerStalled(peer lnet.NID, since time.Time)

	// LinkChanged reports a change of the link state. Link already returns the new state.
	LinkChanged(s LinkState)
}

// PeerDown describes a peer that a driver has lost.
type PeerDown struct {
	Peer lnet.NID
	// LastAlive is when the peer last gave a sign of life. It is zero if it never did.
	LastAlive time.Time
	// Err is the cause; see StatusOf.
	Err error
}
