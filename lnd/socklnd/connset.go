package socklnd

import "github.com/lnetd/lnetd/lnd/socklnd/protocol"

// connSet is an immutable picture of a peer's connections, by which senders
// choose without a lock.
type connSet struct {
	version protocol.Version
	// missing tells that connections are still to be opened and nobody is at
	// it: the sender must look closer.
	missing bool
	untyped []*conn
	control []*conn
	bulkIn  []*conn
	bulkOut []*conn
}

func newConnSet(version protocol.Version, conns []*conn, missing bool) *connSet {
	s := &connSet{version: version, missing: missing}
	for _, c := range conns {
		if c.reserved {
			continue
		}
		switch c.typ {
		case protocol.Control:
			s.control = append(s.control, c)
		case protocol.BulkIn:
			s.bulkIn = append(s.bulkIn, c)
		case protocol.BulkOut:
			s.bulkOut = append(s.bulkOut, c)
		default:
			s.untyped = append(s.untyped, c)
		}
	}
	return s
}

// forMessage chooses the connection for an LNet message of n bytes on the wire,
// framing and header included; nil if none is suitable (socklnd 12.2).
func (s *connSet) forMessage(n, minBulk int) *conn {
	large := n >= minBulk
	if s.version >= protocol.V3 {
		if large {
			return firstOf(s.bulkOut, nil, s.control, nil)
		}
		return firstOf(s.control, nil, s.bulkOut, nil)
	}
	if large {
		return firstOf(s.untyped, s.bulkOut, s.control, s.bulkIn)
	}
	return firstOf(s.untyped, s.control, s.bulkIn, s.bulkOut)
}

// forNoop chooses the connection for a NOOP. A non-blocking one goes to the
// peer's BULK_OUT; where there is none, any connection will do: the peer's
// request must not stay unanswered (socklnd 10.3).
func (s *connSet) forNoop(nonblocking bool) *conn {
	switch {
	case s.version < protocol.V3:
		return firstOf(s.untyped, s.control, s.bulkIn, s.bulkOut)
	case nonblocking:
		return firstOf(s.bulkIn, nil, s.control, s.bulkOut)
	}
	return firstOf(s.control, nil, s.bulkIn, s.bulkOut)
}

// firstOf picks from the connections of its first pair of lists that has any.
func firstOf(yes1, yes2, fallback1, fallback2 []*conn) *conn {
	if len(yes1)+len(yes2) > 0 {
		return leastLoaded(yes1, yes2)
	}
	return leastLoaded(fallback1, fallback2)
}

// leastLoaded returns the connection with the fewest bytes queued, of equal
// ones the least recently used (socklnd 12.3). What the socket has taken does
// not count: to ask it would cost a system call a message.
func leastLoaded(a, b []*conn) *conn {
	if len(a) == 1 && len(b) == 0 {
		return a[0]
	}
	var best *conn
	for _, list := range [2][]*conn{a, b} {
		for _, c := range list {
			if best == nil || c.lighterThan(best) {
				best = c
			}
		}
	}
	if best != nil {
		best.lastUse.Store(best.peer.turn.Add(1))
	}
	return best
}

// lighterThan orders connections for leastLoaded.
func (c *conn) lighterThan(o *conn) bool {
	x, y := c.queuedBytes.Load(), o.queuedBytes.Load()
	if x != y {
		return x < y
	}
	return c.peer.i.driver.config.RoundRobin && c.lastUse.Load() < o.lastUse.Load()
}

// takes tells whether a fresh connection of type t takes over messages that
// waited for one.
func takes(v protocol.Version, t protocol.ConnType) bool {
	return v < protocol.V3 || t == protocol.Control || t == protocol.BulkOut
}
