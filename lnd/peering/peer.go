package peering

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Peer is the part of a peer's state that is the same for all drivers. A driver embeds it in its own type of
// peers, which is a Member. The embedded mutex guards the fields of Peer, and the driver may guard its own
// fields with it. If the engine's lock is needed too, it is acquired first.
type Peer struct {
	sync.Mutex
	ID      lnet.ProcessID
	Gone    bool // the peer has left the table
	Record  Record
	Backoff Backoff
	Waiting Waiting
	// Accepting is the number of inbound connections that the driver is deciding on or setting up
	// (Engine.Caller).
	Accepting int
	// Held counts goroutines that have taken messages out of Waiting and may put them back. While it is not
	// 0, the peer stays in the table.
	Held int
	// Loss is why the last connection has ended, or why none could be made. PutDown reports it to the node
	// and clears it. It is nil if a connection exists.
	Loss      error
	LastAlive time.Time // when the peer last gave a sign of life
	Doubt     Doubt
	Stall     Stall // only Engine.CheckStall changes it

	// self and place are the driver's peer and the interface that it belongs to. They are set by Engine.enter
	// and do not change. self is also the record of the peer in lnd.Neighbour.
	self  any
	place *Place
	// neighbour is where the peer was last set as the record.
	neighbour atomic.Pointer[lnd.Neighbour]

	// restarts is the number of restarts whose upcall (lnd.Upper.PeerRestarted) has not returned yet. While
	// it is not 0, no further connection of the peer may begin to carry messages, and the peer must stay in
	// the table. A new entry for the same NID would not know that it has to wait for the upcall.
	restarts int
}

// Member is implemented by a driver's type of peers, which is a pointer to a struct that embeds Peer. Peer
// implements Common; the driver implements the other methods, which the engine calls.
type Member interface {
	comparable
	// Common returns the embedded Peer.
	Common() *Peer

	// Send sends m, queues it, or fails it. It returns false if the peer has left the table. In that case it
	// has not used m, and the caller looks up the peer again.
	Send(m *lnd.Tx) bool
	// Connected reports whether the peer has a connection that carries messages or soon will. Busy reports
	// whether the peer has any connection, or either side is attempting to make one. Both are called with the
	// lock held.
	Connected() bool
	Busy() bool
	// Detach removes all connections from the peer and ends all attempts of this node to connect. It is
	// called with the lock held. It returns a function that closes the removed connections because of cause,
	// which the engine calls without the lock.
	Detach(cause error) (closeAll func())
	// Recall removes the messages for which match returns true from the queues of the connections. It returns
	// those that the engine has to complete; a driver may also complete them itself.
	Recall(match func(*lnd.Tx) bool) []*lnd.Tx
	// Renew restarts the timeouts of the peer's connections.
	Renew(now time.Time)
	// Restarted is called when an upcall PeerRestarted for the peer has returned. Connections that had to
	// wait for the upcall may now begin to carry messages.
	Restarted()

	// The following methods find out whether a peer in doubt (Doubt) still has the incarnation that its
	// connections belong to. Probe sends something that the peer's host has to acknowledge on such a
	// connection. It returns false if it cannot send anything. Answered reports whether the peer has given a
	// sign of life since the probe. CloseStale closes the connections because there was no sign of life.
	Probe(now time.Time) bool
	Answered() bool
	CloseStale()
}

// Common implements Member.
func (p *Peer) Common() *Peer { return p }

// Unreported reports whether the upcall PeerRestarted has still to be made, or to return, for a restart of
// the peer. Until it has returned, no further connection may begin to carry messages. The lock is held.
func (p *Peer) Unreported() bool { return p.restarts > 0 }

// listens reports whether the peer is a node: this node can connect to it, and reports its losses, restarts
// and stalls. Any other process can be reached only over the connections that it has opened itself.
func (p *Peer) listens() bool { return p.ID.PID == lnet.PIDLustre }

// is reports whether the peer has this ID and belongs to the interface at the place.
func (p *Peer) is(id lnet.ProcessID, at *Place) bool { return p.place == at && p.ID == id }

// noteIn makes the peer the record in n, until the peer leaves the table. It does nothing if n is nil.
func (p *Peer) noteIn(n *lnd.Neighbour) {
	if n != nil {
		p.neighbour.Store(n)
		n.SetRecord(&p.self)
	}
}

// removeRecord removes the peer from the lnd.Neighbour in which it was last set.
func (p *Peer) removeRecord() { p.neighbour.Load().RemoveRecord(&p.self) }
