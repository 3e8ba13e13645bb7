package node

import (
	"context"
	"sync"

	"github.com/lnetd/lnetd/lnet/portals"
)

// EventSet is a set of event types.
type EventSet uint8

// EventsOf returns the set of the given types.
func EventsOf(types ...portals.EventType) EventSet {
	var s EventSet
	for _, t := range types {
		s |= 1 << t
	}
	return s
}

// AllEvents is the set of all types.
const AllEvents EventSet = 0xff

// EventQueue is a portals.Handler that keeps events for goroutines that block until
// one comes. NewEventQueue makes it. It grows as events come and are not taken:
// whoever shares an MD with peers that are not trusted bounds the MD's threshold
// or takes them fast. An MD that is left when its node closes sends no event;
// give Next a context that ends then. Waiting costs one hand-over between goroutines, and no
// allocation once the queue has grown to its working size.
type EventQueue struct {
	wanted EventSet
	wake   chan struct{} // one token while the queue is not empty

	mu     sync.Mutex      // guards events, first and count
	events []portals.Event // ring
	first  int
	count  int
}

// NewEventQueue makes a queue that keeps events of the types in wanted, and
// besides all that tell of an error or are the last of their MD. So a caller
// who waits for an ACK need not be woken for the SEND.
func NewEventQueue(wanted EventSet) *EventQueue {
	return &EventQueue{wanted: wanted, wake: make(chan struct{}, 1), events: make([]portals.Event, 4)}
}

// HandleEvent implements portals.Handler.
func (q *EventQueue) HandleEvent(e *portals.Event) {
	if q.wanted&(1<<e.Type) == 0 && e.Err == nil && !e.Unlinked {
		return
	}
	q.mu.Lock()
	if q.count == len(q.events) {
		q.grow()
	}
	q.events[(q.first+q.count)%len(q.events)] = *e
	q.count++
	q.mu.Unlock()
	q.signal()
}

func (q *EventQueue) grow() {
	events := make([]portals.Event, 2*len(q.events))
	k := copy(events, q.events[q.first:])
	copy(events[k:], q.events[:q.first])
	q.events, q.first = events, 0
}

// signal leaves a token for a waiter, if there is none yet.
func (q *EventQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// TryNext stores the oldest event in e and returns true, or returns false if
// there is none.
func (q *EventQueue) TryNext(e *portals.Event) bool {
	q.mu.Lock()
	if q.count == 0 {
		q.mu.Unlock()
		return false
	}
	*e = q.events[q.first]
	q.events[q.first] = portals.Event{}
	q.first = (q.first + 1) % len(q.events)
	q.count--
	more := q.count > 0
	q.mu.Unlock()
	if more {
		q.signal() // several may wait
	}
	return true
}

// Next waits for an event and stores it in e. It returns ctx's error if that
// comes first.
func (q *EventQueue) Next(ctx context.Context, e *portals.Event) error {
	done := ctx.Done()
	for !q.TryNext(e) {
		if done == nil { // a plain receive is cheaper than a select
			<-q.wake
			continue
		}
		select {
		case <-q.wake:
		case <-done:
			return ctx.Err()
		}
	}
	return nil
}
