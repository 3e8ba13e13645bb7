package peering

import (
	"container/list"
	"sync"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Limits on simultaneous attempts to connect. An attempt to reach a peer that does not answer lasts as long
// as the LND timeout. Meanwhile it occupies a descriptor or a queue pair, and perhaps one of a few source
// ports. So an interface makes at most MaxCalls attempts at once, and at most MaxCallsOfKind of them go to
// known peers, or to the peers of the other two kinds together (Callee).
const (
	MaxCalls       = 256
	MaxCallsOfKind = MaxCalls * 3 / 4
)

// Callee is a kind of peer to connect to.
type Callee uint8

// The kinds of callees.
const (
	UnknownPeers Callee = iota // unverified peers; another node may have invented them
	FailedPeers                // known peers that the last attempt could not connect to
	KnownPeers                 // peers met at their own address, or vouched for by the node
	callees      = iota
)

// calleeFor returns the kind of the peer nid. home reports whether the peer was met at the address that its
// NID contains. A peer that was met at another address has only claimed the NID; it remains unknown unless
// the node vouches for it. failed reports whether the last attempt to connect has failed. The node is asked
// (Upper.Vouched), so no lock may be held.
func calleeFor(u lnd.Upper, nid lnet.NID, home, failed bool) Callee {
	switch {
	case !home && !u.Vouched(nid):
		return UnknownPeers
	case failed:
		return FailedPeers
	}
	return KnownPeers
}

// Calls schedules attempts to connect. Each kind of callee has a FIFO queue. The kind with the fewest attempts
// in progress goes first, so that no kind can starve another, and peers that probably do not answer leave room
// for those that do. T is what the driver attaches to each call (Call.Of). The zero value has no calls. Calls
// is safe for concurrent use.
type Calls[T any] struct {
	mu       sync.Mutex         // guards the fields below, and the fields of each Call
	underWay [callees]int       // calls in progress, by kind
	waiting  [callees]list.List // elements are of type *Call[T]
}

// Call is an attempt to connect that waits in a queue of Calls or is in progress.
type Call[T any] struct {
	Of T // what the driver passed to Calls.Add

	to    Callee
	place *list.Element // in the queue; nil if the call is in progress or has ended
	ended bool
}

// Add queues a call to a peer of the given kind. The caller then calls Next, because a call may be allowed to
// start at once.
func (c *Calls[T]) Add(to Callee, of T) *Call[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := &Call[T]{Of: of, to: to}
	call.place = c.waiting[to].PushBack(call)
	return call
}

// Next removes the next call from its queue and counts it as in progress until End. It returns nil if
// no call waits or the limit is reached.
func (c *Calls[T]) Next() *Call[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	to, ok := Callee(0), false
	for k := range Callee(callees) {
		if c.waiting[k].Len() > 0 && c.room(k) && (!ok || c.underWay[k] < c.underWay[to]) {
			to, ok = k, true
		}
	}
	if !ok {
		return nil
	}
	c.underWay[to]++
	q := &c.waiting[to]
	call := q.Remove(q.Front()).(*Call[T])
	call.place = nil
	return call
}

// room reports whether another call to a peer of the given kind may start. mu is held.
func (c *Calls[T]) room(to Callee) bool {
	known, others := c.underWay[KnownPeers], c.underWay[UnknownPeers]+c.underWay[FailedPeers]
	ofKind := others
	if to == KnownPeers {
		ofKind = known
	}
	return ofKind < MaxCallsOfKind && known+others < MaxCalls
}

// End ends a call that is in progress, or cancels a call that waits. It does nothing if the call has already
// ended. The caller then calls Next, because the end may allow other calls to start.
func (c *Calls[T]) End(call *Call[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case call.ended:
	case call.place != nil:
		c.waiting[call.to].Remove(call.place)
		call.place = nil
	default:
		c.underWay[call.to]--
	}
	call.ended = true
}

// Waiting returns the number of calls that wait in a queue.
func (c *Calls[T]) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for k := range c.waiting {
		n += c.waiting[k].Len()
	}
	return n
}
