package socklnd

import (
	"container/list"
	"context"
	"sync"
)

// Whoever has us send to destinations that do not answer has us call them, each for
// as long as T. A call under way takes a descriptor, and a port of which there may be
// few: so an interface makes maxCalls at once, of which those to strangers, and those
// to acquaintances, may be maxCallsOfKind. Others wait for their turn.
const (
	maxCalls       = 256
	maxCallsOfKind = maxCalls * 3 / 4
)

// callee says to which peers a call goes.
type callee uint8

const (
	strangers     callee = iota
	acquaintances        // met at their own address before, or vouched for by the node
	callees       = iota
)

// calls are the calls that an interface has under way, and the queues of those that
// wait, each in the order in which they came. Of the two queues the one that has less
// under way is served first, so that neither waits for the other to run dry. The zero
// value is ready.
type calls struct {
	mu       sync.Mutex // guards underWay and waiting
	underWay [callees]int
	waiting  [callees]list.List // of chan struct{}, closed when the turn has come
}

// take waits for a place, which give gives back; false means that ctx ended before.
func (c *calls) take(ctx context.Context, to callee) bool {
	turn := make(chan struct{})
	c.mu.Lock()
	place := c.waiting[to].PushBack(turn)
	c.admit()
	c.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-turn: // at the same moment
		c.underWay[to]--
		c.admit()
	default:
		c.waiting[to].Remove(place)
	}
	return false
}

// give gives a place back.
func (c *calls) give(to callee) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay[to]--
	c.admit()
}

// admit gives the next one its turn, if there is a place: no more than one has been
// added to those that wait, or one place given back, since it was last called. mu is
// held.
func (c *calls) admit() {
	next, found := callee(0), false
	for k := range callee(callees) {
		if c.waiting[k].Len() > 0 && c.underWay[k] < maxCallsOfKind && (!found || c.underWay[k] < c.underWay[next]) {
			next, found = k, true
		}
	}
	if !found || c.underWay[strangers]+c.underWay[acquaintances] >= maxCalls {
		return
	}
	c.underWay[next]++
	q := &c.waiting[next]
	close(q.Remove(q.Front()).(chan struct{}))
}

// queued is how many wait.
func (c *calls) queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting[strangers].Len() + c.waiting[acquaintances].Len()
}
