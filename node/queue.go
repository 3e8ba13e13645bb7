package node

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
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
// one comes. The zero value keeps all events, NewEventQueue makes one that is choosy.
// It grows as events come and are not taken:
// whoever shares an MD with peers that are not trusted bounds the MD's threshold
// or takes them fast. An MD that is left when its node closes sends no event;
// give Next a context that ends then. Waiting costs at most one hand-over between goroutines, and no
// allocation once the queue has grown to its working size.
type EventQueue struct {
	unwanted EventSet

	mu     sync.Mutex      // guards the rest; wake is there once it has been held
	wake   chan struct{}   // one token while the queue is not empty
	events []portals.Event // ring
	first  int
	count  int
	where  lookout

	some    lnd.Wait    // is over while count is not 0
	looks   atomic.Bool // where is somewhere
	looking atomic.Bool // somebody looks there
}

// NewEventQueue makes a queue that keeps events of the types in wanted, and
// besides all that tell of an error or are the last of their MD. So a caller
// who waits for an ACK need not be woken for the SEND.
func NewEventQueue(wanted EventSet) *EventQueue {
	return &EventQueue{unwanted: ^wanted}
}

// HandleEvent implements portals.Handler.
func (q *EventQueue) HandleEvent(e *portals.Event) {
	if q.unwanted&(1<<e.Type) != 0 && e.Err == nil && !e.Unlinked {
		return
	}
	q.lock()
	if q.count == len(q.events) {
		q.grow()
	}
	q.events[(q.first+q.count)%len(q.events)] = *e
	q.count++
	q.some.End()
	q.mu.Unlock()
	q.some.Wake()
	q.signal()
}

// seek implements seeker.
func (q *EventQueue) seek(l lookout) {
	if l.by == nil && !q.looks.Load() {
		return // as with drivers that are no Pollers, and without a lock
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.where = l
	q.looks.Store(l.by != nil)
}

func (q *EventQueue) grow() {
	events := make([]portals.Event, max(4, 2*len(q.events)))
	k := copy(events, q.events[q.first:])
	copy(events[k:], q.events[:q.first])
	q.events, q.first = events, 0
}

func (q *EventQueue) lock() {
	q.mu.Lock()
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
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
	q.lock()
	if q.count == 0 {
		q.mu.Unlock()
		return false
	}
	*e = q.events[q.first]
	q.events[q.first] = portals.Event{}
	q.first = (q.first + 1) % len(q.events)
	q.count--
	more := q.count > 0
	if !more {
		q.some.Reset()
		select {
		case <-q.wake: // for an event that is gone
		default:
		}
	}
	q.mu.Unlock()
	if more {
		q.signal() // several may wait
	}
	return true
}

// lookOut looks for an event where the latest request went, and tells whether there is one.
func (q *EventQueue) lookOut() bool {
	if !q.looks.Load() || !q.looking.CompareAndSwap(false, true) {
		return false
	}
	defer q.looking.Store(false)
	q.mu.Lock()
	where := q.where
	q.mu.Unlock()
	where.look(&q.some)
	return q.some.Over()
}

// Next waits for an event and stores it in e. It returns ctx's error, and no other, if
// that comes first; e is then as it was. How the operation went that the event is of,
// e.Err says. A handler must not call it, which might be what brings the event, and
// nothing tells: for handlers there is TryNext. What Node.PutWait says of callers who find their
// answers themselves holds for Next.
func (q *EventQueue) Next(ctx context.Context, e *portals.Event) error {
	done := ctx.Done()
	for !q.TryNext(e) {
		if ctx.Err() == nil && q.lookOut() {
			continue
		}
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
