package protocol

import "slices"

// AckQueue contains the acknowledgements that are to be sent on one connection. It merges them into as few
// NOOPs as the encoding allows (socklnd 10.4). The zero value is an empty queue of a V3 or V4 connection.
//
// The caller must limit Len. Otherwise a peer that sends requests but reads no acknowledgements could make the
// queue grow without bound.
type AckQueue struct {
	// Single makes Add use a separate NOOP for every cookie, which is the only form that V2 supports. Set it
	// before the first Add.
	Single bool

	// queued[head:] is the queue. Removing an element increments head, so that a queue whose length changes
	// little allocates nothing.
	queued []pendingAck
	head   int
}

// pendingAck is a queued NOOP. a and b have the same meaning as on the wire (see Acknowledged): if a is 0, the
// cookie b; if a > b, the two cookies a and b; if a < b, the range from a to b. If closed is set, no more
// cookies are merged into it.
type pendingAck struct {
	a, b   uint64
	closed bool
}

// Add queues the acknowledgement of the cookie k. It does nothing if k is 0, or if the last queued NOOP already
// acknowledges k. KeepaliveCookie queues a keepalive. Add drops a keepalive if the queue is not empty, because
// any NOOP has the same effect, or if the peer does not support keepalives (Single).
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

// Len returns the number of queued NOOPs.
func (q *AckQueue) Len() int { return len(q.queued) - q.head }

// Next removes the next NOOP from the queue and returns its frame. It returns false if the queue is empty.
func (q *AckQueue) Next() (Frame, bool) {
	if q.Len() == 0 {
		return Frame{}, false
	}
	p := q.queued[q.head]
	q.head++
	return Frame{Type: FrameNoop, Request: p.a, Ack: p.b}, true
}

// TakePiggyback removes one cookie from the queue, which the caller sends in the Ack field of an LNET frame. It
// returns false if the queue is empty or begins with a keepalive. A keepalive stays in the queue, because an
// LNET frame cannot carry it.
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
	case p.a > p.b: // take the lower of two cookies
		k, p.b = p.b, p.a
		p.a = 0
	default: // take the first cookie of a range
		k = p.a
		p.a++
		if p.a == p.b {
			p.a = 0
		}
	}
	p.closed = false
	return k, true
}

// merge adds the cookie k to p; k is neither 0 nor KeepaliveCookie. It returns false if the encoding does not
// permit it.
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

// fillPair makes p a range of three cookies if k and the two cookies of p are consecutive. Otherwise it returns
// false.
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

// contains reports whether p acknowledges the cookie k.
func (p *pendingAck) contains(k uint64) bool {
	if p.a != 0 && p.a <= p.b {
		return p.a <= k && k <= p.b
	}
	return k == p.a || k == p.b
}
