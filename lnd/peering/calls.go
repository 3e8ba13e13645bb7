package peering

import "container/list"

// Limits on simultaneous attempts to connect. An attempt to reach a peer that does not answer lasts as
// long as the LND timeout. It occupies a descriptor or a queue pair, and perhaps one of a few source
// ports. So an interface makes at most MaxCalls at once, of which at most MaxCallsOfKind go to callees
// of one kind.
const (
	MaxCalls       = 256
	MaxCallsOfKind = MaxCalls * 3 / 4
)

// Callee is a kind of peer to connect to.
type Callee uint8

// The kinds of callees.
const (
	Strangers     Callee = iota // unverified peers; another node may have invented them
	Acquaintances               // peers met before, or vouched for by the node
	callees       = iota
)

// Calls schedules attempts to connect. Each kind of callee has a FIFO queue. The kind with fewer
// attempts in progress goes first, so that neither kind can starve the other. T identifies a waiting
// call. The zero value has no calls. Calls is not safe for concurrent use.
type Calls[T any] struct {
	underWay [callees]int
	waiting  [callees]list.List // elements are of type T
}

// Add queues a call. Pass the result to Remove to cancel it.
func (c *Calls[T]) Add(to Callee, call T) *list.Element { return c.waiting[to].PushBack(call) }

// Remove cancels a waiting call.
func (c *Calls[T]) Remove(to Callee, place *list.Element) { c.waiting[to].Remove(place) }

// Next removes the next call from its queue and counts it as in progress until Done. It returns false
// if no call waits or the limit is reached.
func (c *Calls[T]) Next() (call T, to Callee, ok bool) {
	for k := range Callee(callees) {
		if c.waiting[k].Len() > 0 && c.underWay[k] < MaxCallsOfKind && (!ok || c.underWay[k] < c.underWay[to]) {
			to, ok = k, true
		}
	}
	if !ok || c.underWay[Strangers]+c.underWay[Acquaintances] >= MaxCalls {
		return call, 0, false
	}
	c.underWay[to]++
	q := &c.waiting[to]
	return q.Remove(q.Front()).(T), to, true
}

// Done ends a call that Next returned.
func (c *Calls[T]) Done(to Callee) { c.underWay[to]-- }

// Waiting returns how many calls wait.
func (c *Calls[T]) Waiting() int { return c.waiting[Strangers].Len() + c.waiting[Acquaintances].Len() }
