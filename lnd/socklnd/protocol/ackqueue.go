package protocol

import "slices"

// AckQueue holds the acknowledgements that wait to be sent on one connection,
// merged into as few NOOPs as the encoding allows (socklnd 10.4). The zero
// value is an empty queue of a V3 or V4 connection.
//
// The caller bounds Len: a peer that sends requests and reads nothing makes
// the queue grow.
type AckQueue struct {
	// Single keeps every cookie in a NOOP of its own, the only form that V2
	// knows. Set it before the first Add.
	Single bool

	// queued[head:] wait. Popping moves head, so that a queue in a steady
	// state allocates nothing.
	queued []pendingAck
	head   int
}

// pendingAck is a queued NOOP: its cookies, and whether it takes more. What
// a and b mean is what they mean on the wire (Cookies): 0,b one; a>b two;
// a<b a range.
type pendingAck struct {
	a, b   uint64
	closed bool
}

// Add queues the acknowledgement of the cookie k. No request (0) is nothing;
// KeepaliveCookie queues a keepalive unless something waits already or the
// peer does not know keepalives (Single). A duplicate of what the last queued NOOP
// acknowledges is dropped.
func (q *AckQueue) Add(k uint64) {
	if k == 0 || k == KeepaliveCookie && q.Single {
		return
	}
	if q.Len() > 0 {
		if k == KeepaliveCookie || q.queued[len(q.queued)-1].merge(k, q.Single) {
			return
		}
	} else {
		q.queued, q.head = q.queued[:0], 0
	}
	if len(q.queued) == cap(q.queued) && 2*q.head >= len(q.queued) {
		q.queued = slices.Delete(q.queued, 0, q.head)
		q.head = 0
	}
	q.queued = append(q.queued, pendingAck{b: k})
}

// Len is the number of NOOPs that wait.
func (q *AckQueue) Len() int { return len(q.queued) - q.head }

// Next takes the next NOOP out of the queue; false when it is empty.
func (q *AckQueue) Next() (Frame, bool) {
	if q.Len() == 0 {
		return Frame{}, false
	}
	p := q.queued[q.head]
	q.head++
	return Frame{Type: FrameNoop, Request: p.a, Ack: p.b}, true
}

// TakePiggyback takes one cookie out of the queue, to ride in the Ack of an
// LNET frame; false when none waits. A keepalive stays: it cannot ride.
func (q *AckQueue) TakePiggyback() (uint64, bool) {
	if q.Len() == 0 || q.queued[q.head].b == KeepaliveCookie {
		return 0, false
	}
	p := &q.queued[q.head]
	var k uint64
	switch {
	case p.a == 0:
		q.head++
		return p.b, true
	case p.a > p.b: // the lower of two
		k, p.b = p.b, p.a
		p.a = 0
	default: // the first of a range
		k = p.a
		p.a++
		if p.a == p.b {
			p.a = 0
		}
	}
	p.closed = false
	return k, true
}

// merge takes the cookie k, which is not 0 or 1, in if it can.
func (p *pendingAck) merge(k uint64, single bool) bool {
	switch {
	case p.b == KeepaliveCookie:
		p.b = k
		return true
	case p.contains(k):
		return true
	case p.closed || single:
		return false
	case p.a == 0:
		p.a, p.b = max(p.b, k), min(p.b, k)
		p.closed = p.a-p.b > 2
		return true
	case p.a > p.b:
		return p.fillPair(k)
	case k == p.a-1:
		p.a = k
		return true
	case k == p.b+1:
		p.b = k
		return true
	}
	return false
}

// fillPair makes two cookies a range of three if k completes one.
func (p *pendingAck) fillPair(k uint64) bool {
	lo, hi := p.b, p.a
	switch {
	case hi == lo+2 && k == lo+1:
	case hi == lo+1 && k == lo-1:
		lo = k
	case hi == lo+1 && k == hi+1:
		hi = k
	default:
		return false
	}
	p.a, p.b = lo, hi
	return true
}

func (p *pendingAck) contains(k uint64) bool {
	if p.a != 0 && p.a <= p.b {
		return p.a <= k && k <= p.b
	}
	return k == p.a || k == p.b
}
