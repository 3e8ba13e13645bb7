package protocol

import "fmt"

// Credits counts what may be sent on a connection (o2iblnd 9). Each credit stands for
// a receive buffer that the other side has posted.
type Credits struct {
	version Version
	depth   int
	// high is how many owed credits are returned by a NOOP.
	high int
	// sends is how many SENDs may be posted and not completed.
	sends int

	credits     int // messages that may still be sent
	outstanding int // credits owed to the peer
	held        int // messages of the peer's whose credits it does not have back
	reserved    int // requests that may still be begun
	posted      int // SENDs not completed, at most sends
	noops       int // NOOPs not completed
}

// Flow are the tunables of Credits (o2iblnd 15); the zero value has the defaults.
type Flow struct {
	// PeerCredits and HighWater say at which share of a queue credits are returned:
	// peer_credits, peer_credits_hiw.
	PeerCredits, HighWater int
	// ConcurrentSends is concurrent_sends; 0: as many as PeerCredits.
	ConcurrentSends int
}

// Bounds and defaults (o2iblnd 15, 8).
const (
	minPeerCredits = 8
	v1HighWater    = 7
	v1MinSends     = 4
	v1MaxSends     = 16
)

// Resolved is f with defaults and bounds.
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

// highWater is how many owed credits are worth a NOOP. It is never 0, which would
// make NOOPs without end (o2iblnd 18, row 3), and always more than a third of the
// queue: a peer that has not got around to what was sent so far then cannot be sent
// more NOOPs than it has buffers for (o2iblnd 9.6), so that RNR does not happen.
func (f Flow) highWater(v Version, depth int) int {
	if v == V1 {
		return v1HighWater
	}
	return max(depth*f.HighWater/f.PeerCredits, depth/(noopBuffers+1)+1)
}

// concurrent is how many SENDs may be under way.
func (f Flow) concurrent(v Version) int {
	if v == V1 {
		return min(max(f.ConcurrentSends, v1MinSends), v1MaxSends)
	}
	return f.ConcurrentSends
}

// NewCredits are those of a new connection.
func NewCredits(v Version, depth int, f Flow) Credits {
	f = f.Resolved()
	return Credits{
		version: v, depth: depth, high: f.highWater(v, depth), sends: f.concurrent(v),
		credits: depth, reserved: depth,
	}
}

// MayPost tells whether one more SEND may be under way.
func (c *Credits) MayPost() bool { return c.posted < c.sends }

// MaySend tells whether there is a credit for a message, if it needs one. In V1 the
// last one is kept for a NOOP.
func (c *Credits) MaySend(t Type) bool {
	switch {
	case !t.Credit(c.version):
		return true
	case c.version == V1 && t != Noop:
		return c.credits > 1
	}
	return c.credits > 0
}

// MayReserve tells whether a PUT_REQ or GET_REQ may be begun.
func (c *Credits) MayReserve() bool { return c.reserved > 0 }

// Reserve begins one: it has a place in the queue from now on (o2iblnd 9.3).
func (c *Credits) Reserve() { c.reserved-- }

// Answered notes that its answer has come and that the buffer is posted again.
func (c *Credits) Answered() { c.reserved++ }

// Post counts a SEND that is posted now, and returns the credits that it carries.
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

// Posted notes that a SEND has completed.
func (c *Credits) Posted(t Type) {
	c.posted--
	if t == Noop {
		c.noops--
	}
}

// Returned takes the credits that a message carries. The error, a *Failure, is that
// there are more of them than were spent (o2iblnd 9.4).
func (c *Credits) Returned(n uint8) error {
	if c.credits+int(n) > c.depth {
		return broken("credits %d: %d of %d are here already", n, c.credits, c.depth)
	}
	c.credits += int(n)
	return nil
}

// Took counts a message that has come. The error, a *Failure, is that the peer had no
// credit for it.
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

// Owe notes that the buffer of a message that had consumed a credit is posted again.
func (c *Credits) Owe() { c.outstanding++ }

// NoopDue tells whether a NOOP is to be sent, when nothing else can be: the queue of
// what needs no credit is empty, and the other one is so, or waits for credits. idle:
// nothing was sent for so long that the peer is to be shown that we live
// (o2iblnd 9.5).
func (c *Credits) NoopDue(idle bool) bool {
	if c.outstanding < c.high && !idle {
		return false
	}
	return c.MayPost() && c.MaySend(Noop) && c.noops < c.maxNoops()
}

// maxNoops is how many NOOPs may be under way. In V1 credits bound them.
func (c *Credits) maxNoops() int {
	if c.version == V1 {
		return c.depth
	}
	return noopBuffers
}

// String is for scripts and displays: "credits 8, owed 0, reserved 8, posted 0".
func (c *Credits) String() string {
	return fmt.Sprintf("credits %d, owed %d, reserved %d, posted %d", c.credits, c.outstanding, c.reserved, c.posted)
}
