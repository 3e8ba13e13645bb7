package lnd

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Upper receives an interface's upcalls: it is the node's side of one NI. Upcalls are made in goroutines of the
// driver, or in those of callers of Poller.Poll. Upcalls for different connections may run concurrently. They
// must not block; work that takes long has to be done in another goroutine. They may call the interface's
// methods except Close. They may begin before Driver.Open has returned. All have returned when Interface.Close
// returns.
type Upper interface {
	// Arrived reports a message whose header m.Header is complete. The driver reads no more of the message
	// until Interface.Receive specifies where the payload goes. So a peer whose messages get no placements is
	// held back: at most as many of them can arrive as it has connections or credits. Other peers are not
	// affected.
	//
	// If Arrived returns an error, the message violates the protocol (lnet-wire 4.7). The driver then closes
	// the peer's connections, and Receive must not be called.
	Arrived(m *Rx) error

	// Withdrawn reports that the payload of an arrival will not come, because the connection died or was closed
	// before the node gave the placement. The node still calls Interface.Receive exactly once, within the
	// upcall or soon after it. That call completes m with an error or, if the placement drops the message, only
	// releases m.
	//
	// Withdrawn is called after Arrived has returned, at most once per arrival, and without driver locks held.
	// It may come before or after PeerDown. Receive may be running, or may even have returned, when Withdrawn
	// is called; the node then ignores Withdrawn. In any case m is neither completed nor reused before
	// Withdrawn returns.
	Withdrawn(m *Rx)

	// PeerDown reports that the last connection to a peer has failed, or that no connection could be made: an
	// attempt has failed, or messages have waited too long (socklnd 15.4). It is called when no attempt of
	// either side is in progress, and before the messages that wait for a connection fail. It is not called for
	// connections and attempts that Interface.Disconnect ends.
	PeerDown(d PeerDown)

	// ConnectionsLost reports that some or all connections to a peer have ended, so that an answer that was
	// expected on them may never arrive. It is called without driver locks held. PeerDown may be called before
	// it, after it, or not at all if the peer has other connections or one is being made. ConnectionsLost is
	// not called when the interface closes, nor for processes other than lnet.PIDLustre.
	ConnectionsLost(peer lnet.NID)

	// PeerRestarted reports that the peer has restarted since it was last connected and has lost its state.
	// Messages that were sent before will not be answered. Messages that are still to be sent either fail with
	// ErrRestarted or are sent to the new incarnation.
	//
	// PeerRestarted is called once per interface and incarnation, before the first Arrived of the new
	// incarnation, and without driver locks held. It is not called for the first incarnation that the interface
	// meets. No connection of the new incarnation is used before the upcall has returned. PeerDown may be
	// called before it, after it, or not at all if the peer came back quickly. Messages of the former
	// incarnation may still be passed to Arrived at that time.
	//
	// Drivers remember departed peers within bounded memory. A peer that has been forgotten counts as new. The
	// incarnation that a peer announces is as trustworthy as the NID that it announces. Restarts of processes
	// other than lnet.PIDLustre are not reported.
	PeerRestarted(peer lnet.NID)

	// LNDTimeout returns the LND timeout that follows from LNet's timeouts (lnet-core 6.5). Interfaces use it
	// if their configuration sets none. 0 selects the driver's default. The value may change between two calls.
	LNDTimeout() time.Duration

	// Vouched reports whether the peer is configured, or is needed to reach a configured peer. If a driver
	// cannot connect to all peers at the same time, it keeps some attempts to connect for such peers. Vouched
	// must not block, and may be called from any goroutine.
	Vouched(peer lnet.NID) bool

	// PeerStalled reports a stall: messages to the peer, or messages that wait for a connection to it, have
	// made no progress since the given time, which is a second or more ago, although the transport keeps
	// trying. The driver closes no connection because of a stall, since the transport may recover. The node can
	// cancel messages that have not been started with Interface.Recall.
	//
	// The zero time reports the end of the stall: the peer answers, or for a while there has been nothing that
	// it could answer. Failed attempts to connect do not end a stall.
	//
	// During a stall, the upcall is repeated when more messages may have been sent to the peer. It is not
	// repeated when better paths appear; the node has to notice those itself. An interface makes only one such
	// upcall at a time.
	PeerStalled(peer lnet.NID, since time.Time)

	// LinkChanged reports a change of the link's state to s. Interface.Link already returns s.
	LinkChanged(s LinkState)
}

// PeerDown describes the loss of a peer.
type PeerDown struct {
	Peer lnet.NID
	// LastAlive is when the peer last gave a sign of life. It is zero if the peer never did.
	LastAlive time.Time
	// Err is the cause of the loss. StatusOf returns its health class.
	Err error
}
