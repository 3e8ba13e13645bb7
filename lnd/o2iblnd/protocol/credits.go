package protocol

import "fmt"

// Credits counts the messages that may be sent on a connection (o2iblnd 9). Each credit represents
// a receive buffer that the other side has posted.
type Credits struct {
	version Version
	depth   int
	// high is the number of owed credits at which a NOOP returns them.
	high int
	// sends is the maximum number of SENDs that are posted and not completed.
	sends int

	credits     int // messages that may still be sent
	outstanding int // credits owed to the peer
	held        int // received messages whose credits were not returned yet
	reserved    int // requests that may still begin
	posted      int // SENDs not completed, at most sends
	noops       int // NOOPs not completed
}

// Flow holds the tunables of Credits (o2iblnd 15). The zero value has the defaults.
type Flow struct {
	// PeerCredits and HighWater (peer_credits, peer_credits_hiw) determine the fraction of a queue
	// at which credits are returned.
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

// highWater returns the number of owed credits at which a NOOP returns them. It is never 0, because
// that would cause an endless exchange of NOOPs (o2iblnd 18, row 3). It is always more than a third
// of the queue. Therefore a peer that has not yet handled what was sent is not sent more NOOPs than
// it has buffers (o2iblnd 9.6), and RNR does not occur.
func (f Flow) highWater(v Version, depth int) int {
	if v == V1 {
		return v1HighWater
	}
	return max(depth*f.HighWater/f.PeerCredits, depth/(noopBuffers+1)+1)
}

// concurrent returns the maximum number of SENDs in progress.
func (f Flow) concurrent(v Version) int {
	if v == V1 {
		return min(max(f.ConcurrentSends, v1MinSends), v1MaxSends)
	}
	return f.ConcurrentSends
}

// NewCredits returns the credits of a new connection.
func NewCredits(v Version, depth int, f Flow) Credits {
	f = f.Resolved()
	return Credits{
		version: v, depth: depth, high: f.highWater(v, depth), sends: f.concurrent(v),
		credits: depth, reserved: depth,
	}
}

// MayPost reports whether another SEND may be posted.
func (c *Credits) MayPost() bool { return c.posted < c.sends }

// MaySend reports whether a message of type t has the credit that it needs, if it needs one. In V1
// the last credit is reserved for a NOOP.
func (c *Credits) MaySend(t Type) bool {
	switch {
	case !t.Credit(c.version):
		return true
	case c.version == V1 && t != Noop:
		return c.credits > 1
	}
	return c.credits > 0
}

// MayReserve reports whether a PUT_REQ or GET_REQ may begin.
func (c *Credits) MayReserve() bool { return c.reserved > 0 }

// Reserve counts a request that begins. From now on it has a place in the queue (o2iblnd 9.3).
func (c *Credits) Reserve() { c.reserved-- }

// Answered counts an answer that has arrived and whose buffer has been posted again.
func (c *Credits) Answered() { c.reserved++ }

// Post counts a SEND that is being posted, and returns the number of credits that it carries.
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

// Returned adds the credits that a message returns. It returns a *Failure if more are returned than
// were spent (o2iblnd 9.4).
func (c *Credits) Returned(n uint8) error {
	if c.credits+int(n) > c.depth {
		return broken("credits %d: %d of %d are here already", n, c.credits, c.depth)
	}
	c.credits += int(n)
	return nil
}

// Took counts a received message. It returns a *Failure if the peer had no credit for the message.
func (c *Credits) Took(t Type) error {
	if !t.Credit(c.version) {
		return nil
	}
	if c.held == c.depth {
		return broken("%v without a credit: %d are spent", t, c.depth)
	}
	c.held++
	return nil
}

// Owe counts a reposted buffer of a message that had consumed a credit.
func (c *Credits) Owe() { c.outstanding++ }

// NoopDue reports whether to send a NOOP. The caller asks only if it can send nothing else: the
// queue of messages without credits is empty, and the other one is empty or waits for credits. idle
// means that nothing was sent for so long that a NOOP must show the peer that we are alive (o2iblnd
// 9.5).
func (c *Credits) NoopDue(idle bool) bool {
	if c.outstanding < c.high && !idle {
		return false
	}
	return c.MayPost() && c.MaySend(Noop) && c.noops < c.maxNoops()
}

// maxNoops returns the maximum number of NOOPs in progress. In V1 the credits limit them.
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
