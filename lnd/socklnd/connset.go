package socklnd

import "github.com/lnetd/lnetd/lnd/socklnd/protocol"

// connSet is an immutable snapshot of a peer's connections. Senders use it to select a connection
// without a lock.
type connSet struct {
	version protocol.Version
	// missing means that connections have to be opened and no opener is running. A sender must then use
	// sendSlowly, which starts the opener.
	missing bool
	untyped []*conn
	control []*conn
	bulkIn  []*conn
	bulkOut []*conn
}

// newConnSet returns a snapshot of the connections that carry messages, sorted by type.
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

// forNoop selects the connection for a NOOP. A non-blocking NOOP uses a connection that is BULK_OUT for the
// peer, which is BULK_IN for us. Without such a connection, any other is used, because the peer's request must
// be answered (socklnd 10.3). forNoop returns nil if the peer has no connection.
func (s *connSet) forNoop(nonblocking bool) *conn {
	switch {
	case s.version < protocol.V3:
		return leastLoadedOf(s.untyped, s.control, s.bulkIn, s.bulkOut)
	case nonblocking:
		return leastLoadedOf(s.bulkIn, nil, s.control, s.bulkOut)
	}
	return leastLoadedOf(s.control, nil, s.bulkIn, s.bulkOut)
}

// leastLoadedOf selects the least loaded connection of the first two lists. If both are empty, it selects
// from the fallback lists.
func leastLoadedOf(yes1, yes2, fallback1, fallback2 []*conn) *conn {
	if len(yes1)+len(yes2) > 0 {
		return leastLoaded(yes1, yes2)
	}
	return leastLoaded(fallback1, fallback2)
}

// leastLoaded returns the connection with the fewest queued bytes in both lists, or nil if both are empty.
// Among connections with equally many bytes, it returns the one that was not used for longest (socklnd 12.3),
// or the first one if round_robin is off. It does not count bytes that are already in the socket, because
// that would cost a system call per message.
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

// takes reports whether a connection of type t with protocol version v may carry the messages that wait for a
// connection. With V3 and later, this node sends no messages on BULK_IN.
func takes(v protocol.Version, t protocol.ConnType) bool {
	return v < protocol.V3 || t == protocol.Control || t == protocol.BulkOut
}
