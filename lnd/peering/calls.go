package peering

import "container/list"

// A call to a peer that does not answer lasts as long as the LND timeout. It takes a descriptor
// or a queue pair, and perhaps one of few source ports. So an interface makes at most MaxCalls at
// once, of which at most MaxCallsOfKind go to callees of one kind.
const (
	MaxCalls       = 256
	MaxCallsOfKind = MaxCalls * 3 / 4
)

// Callee is a kind of peers that are called.
type Callee uint8

// The kinds of callees.
const (
	Strangers     Callee = iota // others may have made them up
	Acquaintances               // met before, or vouched for by the node
	callees       = iota
)

// Calls decides whose turn it is to be called. Peers of each kind wait in the order in which they
// came. Of the two kinds, the one with fewer calls under way comes first, so that neither has to
// wait until the other has no more calls to make. T identifies a waiting call. The zero value has
// no calls. Calls is not safe for concurrent use.
type Calls[T any] struct {
	underWay [callees]int
	waiting  [callees]list.List // of T
}

// Add adds a call that waits for its turn. The result is for Remove.
func (c *Calls[T]) Add(to Callee, call T) *list.Element { return c.waiting[to].PushBack(call) }

// Remove removes a call that waits.
func (c *Calls[T]) Remove(to Callee, place *list.Element) { c.waiting[to].Remove(place) }

// Next removes the call whose turn it is and counts it as under way until Done. It reports false
// if no call waits or too many are under way.
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
