package protocol

import "fmt"

// Credits counts the messages that each side of a connection may send (o2iblnd 9). Each credit of a side stands
// for a receive buffer that the other side has posted. When the other side has processed the message and posted
// the buffer again, it owes the credit, and returns it with a later message.
type Credits struct {
	version Version
	depth   int
	// high is the number of credits owed to the peer at which a NOOP returns them.
	high int
	// sends is the maximum number of SENDs that are posted and have not completed.
	sends int

	credits     int // messages that this node may still send
	outstanding int // credits owed to the peer: their buffers have been posted again
	held        int // received messages whose credits have not been returned to the peer
	reserved    int // requests (PUT_REQ, GET_REQ) that may still begin
	posted      int // SENDs that are posted and have not completed
	noops       int // NOOPs that are posted and have not completed
}

// Flow contains the tunables of Credits (o2iblnd 15). The zero value selects the defaults.
type Flow struct {
	// PeerCredits and HighWater (peer_credits, peer_credits_hiw) determine when a NOOP returns credits: when
	// HighWater/PeerCredits of the queue depth is owed to the peer.
	PeerCredits, HighWater int
	// ConcurrentSends is concurrent_sends. 0 means the value of PeerCredits.
	ConcurrentSends int
}

// Bounds and defaults (o2iblnd 15, 8).
const (
	minPeerCredits = 8
	v1HighWater    = 7
	v1MinSends     = 4
	v1MaxSends     = 16
)

// Resolved returns f with defaults filled in and limits applied.
func (f Flow) Resolved() Flow {
	if f.PeerCredits <= 0 {
		f.PeerCredits = minPeerCredits
	}
	f.PeerCredits = min(max(f.PeerCredits, minPeerCredits), MaxDepth)
	f.HighWater = min(max(f.HighWater, f.PeerCredits/2), f.PeerCredits-1)
	if f.ConcurrentSends <= 0 {
		f.ConcurrentSends = f.PeerCredits
	}
	f.ConcurrentSends = min(max(f.ConcurrentSends, f.PeerCredits/2), 2*f.PeerCredits)
	return f
}

// highWater returns the number of owed credits at which a NOOP returns them. It is never 0, because that would
// cause an endless exchange of NOOPs (o2iblnd 18, row 3). It is always more than a third of the queue depth. So
// a peer that has not processed earlier messages yet receives no more NOOPs than it has buffers for (o2iblnd
// 9.6), and the device never reports RNR (receiver not ready).
func (f Flow) highWater(v Version, depth int) int {
	if v == V1 {
		return v1HighWater
	}
	return max(depth*f.HighWater/f.PeerCredits, depth/(noopBuffers+1)+1)
}

// concurrent returns the maximum number of SENDs that are posted and have not completed.
func (f Flow) concurrent(v Version) int {
	if v == V1 {
		return min(max(f.ConcurrentSends, v1MinSends), v1MaxSends)
	}
	return f.ConcurrentSends
}

// NewCredits returns the credits of a new connection with the given version and queue depth.
func NewCredits(v Version, depth int, f Flow) Credits {
	f = f.Resolved()
	return Credits{
		version: v, depth: depth, high: f.highWater(v, depth), sends: f.concurrent(v),
		credits: depth, reserved: depth,
	}
}

// MayPost reports whether another SEND may be posted.
func (c *Credits) MayPost() bool { return c.posted < c.sends }

// MaySend reports whether a message of type t may be sent: it needs no credit, or a credit is available. In V1
// the last credit is kept for a NOOP.
func (c *Credits) MaySend(t Type) bool {
	switch {
	case !t.Credit(c.version):
		return true
	case c.version == V1 && t != Noop:
		return c.credits > 1
	}
	return c.credits > 0
}

// MayReserve reports whether a PUT_REQ or GET_REQ may begin, because a receive buffer is available for its
// answer.
func (c *Credits) MayReserve() bool { return c.reserved > 0 }

// Reserve reserves a receive buffer for the answer to a request that begins, until Answered (o2iblnd 9.3).
func (c *Credits) Reserve() { c.reserved-- }

// Answered ends a reservation, because the answer has arrived and its buffer has been posted again, or because
// the request was canceled.
func (c *Credits) Answered() { c.reserved++ }

// Post counts a SEND of type t that is about to be posted. It returns the number of credits that the message
// returns to the peer.
func (c *Credits) Post(t Type) (carried uint8) {
	if t.Credit(c.version) {
		c.credits--
	}
	if t == Noop {
		c.noops++
	}
	c.posted++
	carried = uint8(c.outstanding)
	c.held -= c.outstanding
	c.outstanding = 0
	return carried
}

// Posted counts a SEND that has completed.
func (c *Credits) Posted(t Type) {
	c.posted--
	if t == Noop {
		c.noops--
	}
}

// Returned adds the n credits that a message from the peer returns. It returns a *Failure if this node has not
// spent so many (o2iblnd 9.4).
func (c *Credits) Returned(n uint8) error {
	if c.credits+int(n) > c.depth {
		return broken("the message returns %d credits, but only %d are in use", n, c.depth-c.credits)
	}
	c.credits += int(n)
	return nil
}

// Took counts a received message of type t. It returns a *Failure if the peer had no credit for the message.
func (c *Credits) Took(t Type) error {
	if !t.Credit(c.version) {
		return nil
	}
	if c.held == c.depth {
		return broken("%v without a credit: the peer has used all %d", t, c.depth)
	}
	c.held++
	return nil
}

// Owe counts a credit that is now owed to the peer: the receive buffer of a message that used a credit has been
// posted again.
func (c *Credits) Owe() { c.outstanding++ }

// NoopDue reports whether a NOOP must be sent now, because enough credits are owed to the peer or idle is set.
// idle means that nothing was sent for so long that a NOOP must show the peer that this node is alive (o2iblnd
// 9.5). The caller asks only if it can send no other message.
func (c *Credits) NoopDue(idle bool) bool {
	if c.outstanding < c.high && !idle {
		return false
	}
	return c.MayPost() && c.MaySend(Noop) && c.noops < c.maxNoops()
}

// maxNoops returns the maximum number of NOOPs that are posted and have not completed. In V1 only the credits
// limit them.
func (c *Credits) maxNoops() int {
	if c.version == V1 {
		return c.depth
	}
	return noopBuffers
}

// String returns a text for scripts and displays: "credits 8, owed 0, reserved 8, posted 0".
func (c *Credits) String() string {
	return fmt.Sprintf("credits %d, owed %d, reserved %d, posted %d", c.credits, c.outstanding, c.reserved, c.posted)
}
