package socklnd

import "github.com/lnetd/lnetd/lnd/socklnd/protocol"

// connSet is an immutable snapshot of a peer's connections. Senders use it to select a connection
// without a lock.
type connSet struct {
	version protocol.Version
	// missing means that connections are still to be opened and no opener is running. The sender must
	// take the slow path.
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

// forMessage selects the connection for an LNet message of n bytes on the wire, including framing and
// header. It returns nil if no connection is suitable (socklnd 12.2).
func (s *connSet) forMessage(n, minBulk int) *conn {
	large := n >= minBulk
	if s.version >= protocol.V3 {
		if large {
			return leastLoadedOf(s.bulkOut, nil, s.control, nil)
		}
		return leastLoadedOf(s.control, nil, s.bulkOut, nil)
	}
	if large {
		return leastLoadedOf(s.untyped, s.bulkOut, s.control, s.bulkIn)
	}
	return leastLoadedOf(s.untyped, s.control, s.bulkIn, s.bulkOut)
}

// forNoop selects the connection for a NOOP. A non-blocking NOOP goes to the peer's BULK_OUT, which is
// our BULK_IN. If there is no such connection, any other is used, because the peer's request must be
// answered (socklnd 10.3).
func (s *connSet) forNoop(nonblocking bool) *conn {
	switch {
	case s.version < protocol.V3:
		return leastLoadedOf(s.untyped, s.control, s.bulkIn, s.bulkOut)
	case nonblocking:
		return leastLoadedOf(s.bulkIn, nil, s.control, s.bulkOut)
	}
	return leastLoadedOf(s.control, nil, s.bulkIn, s.bulkOut)
}

// leastLoadedOf selects from the first two lists, or from the fallback lists if the first two are empty.
func leastLoadedOf(yes1, yes2, fallback1, fallback2 []*conn) *conn {
	if len(yes1)+len(yes2) > 0 {
		return leastLoaded(yes1, yes2)
	}
	return leastLoaded(fallback1, fallback2)
}

// leastLoaded returns the connection with the fewest queued bytes. Among equals, it returns the least
// recently used one (socklnd 12.3). Bytes already in the socket are not counted, since that would cost
// a system call per message.
func leastLoaded(a, b []*conn) *conn {
	if len(a) == 1 && len(b) == 0 {
		return a[0]
	}
	var best *conn
	for _, list := range [2][]*conn{a, b} {
		for _, c := range list {
			if best == nil || c.lessLoadedThan(best) {
				best = c
			}
		}
	}
	if best != nil {
		best.lastUse.Store(best.peer.turn.Add(1))
	}
	return best
}

// lessLoadedThan reports whether leastLoaded prefers c to o.
func (c *conn) lessLoadedThan(o *conn) bool {
	x, y := c.queuedBytes.Load(), o.queuedBytes.Load()
	if x != y {
		return x < y
	}
	return c.peer.i.driver.config.RoundRobin && c.lastUse.Load() < o.lastUse.Load()
}

// takes reports whether a new connection of type t can carry the messages that wait for a connection.
func takes(v protocol.Version, t protocol.ConnType) bool {
	return v < protocol.V3 || t == protocol.Control || t == protocol.BulkOut
}
