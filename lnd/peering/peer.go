package peering

import (
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Peer is the state of a peer that is the same for all drivers. A driver embeds it in its own type of
// peers, a Member. Its lock guards the fields of both. It is acquired after the engine's lock.
type Peer struct {
	sync.Mutex
	ID      lnet.ProcessID
	Gone    bool // the peer has left the table
	Record  Record
	Backoff Backoff
	Waiting Waiting
	// Accepting is the number of inbound connections that are being decided on or set up.
	Accepting int
	// Held keeps the peer in the table while it is not 0: a goroutine has taken messages that it may put back.
	Held int
	// Loss is why the last connection has ended, or could not be made. It is nil if a connection exists, or
	// if PeerDown has been called since.
	Loss      error
	LastAlive time.Time // when the peer last gave a sign of life
	Doubt     Doubt
	Stall     Stall // changed by Engine.CheckStall only

	// restarts is the number of restarts that are still to be reported to the node
	// (lnd.Upper.PeerRestarted), including the one that is being reported. Meanwhile no connection of the
	// peer may begin to carry messages, and the peer must stay in the table: another peer with the same NID
	// would not know that it has to wait.
	restarts int
}

// Member is a driver's type of peers. It embeds Peer, and is a pointer. The engine calls the other methods.
type Member interface {
	comparable
	// Common returns the embedded Peer, which implements it.
	Common() *Peer

	// Send queues m, sends it, or fails it. It returns false if the peer has left the table. In that case m
	// is untouched.
	Send(m *lnd.Tx) bool
	// Connected reports whether the peer has a connection that carries messages or soon will. Busy reports
	// whether it has any connection, or an attempt of either side is in progress. The lock is held.
	Connected() bool
	Busy() bool
	// Detach ends all attempts of this node to connect. It returns a function that closes all connections
	// because of cause, and that is called without the lock. Detach is called with the lock held.
	Detach(cause error) (closeAll func())
	// Recall removes the matching messages from the queues of connections. It returns them, unless it has
	// completed them itself.
	Recall(match func(*lnd.Tx) bool) []*lnd.Tx
	// Renew starts the timeouts of connections over.
	Renew(now time.Time)
	// Restarted is called when a restart has been reported to the node. Connections may have waited for it.
	Restarted()

	// Probe makes the peer give a sign of life on the connections that are in doubt, and remembers their
	// state. It returns false if no connection exists. Answered reports whether a sign of life has followed.
	// CloseStale closes them, because it has not.
	Probe(now time.Time) bool
	Answered() bool
	CloseStale()
}

// Common implements Member.
func (p *Peer) Common() *Peer { return p }

// Unreported reports whether there are restarts that are still to be reported. Until then no connection may
// begin to carry messages. The lock is held.
func (p *Peer) Unreported() bool { return p.restarts > 0 }

// listens reports whether the peer is a node, which has incarnations and is reported to this one. Other
// processes can only be reached over the connections that they have opened.
func (p *Peer) listens() bool { return p.ID.PID == lnet.PIDLustre }
