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

// EventsOf returns the set that contains the given types.
func EventsOf(types ...portals.EventType) EventSet {
	var s EventSet
	for _, t := range types {
		s |= 1 << t
	}
	return s
}

// AllEvents is the set of all event types.
const AllEvents EventSet = 0xff

// EventQueue is a portals.Handler that queues events for goroutines that wait for them.
// The zero value queues all events; NewEventQueue returns a queue for selected types.
//
// The queue is unbounded. If an MD accepts requests from untrusted peers, limit the MD's
// threshold or read the events quickly. An MD that still exists when its node closes
// delivers no event, so pass a context to Next that ends when the node closes. Waiting
// costs at most one switch between goroutines. The queue allocates memory only when it
// grows.
type EventQueue struct {
	unwanted EventSet

	mu       sync.Mutex      // guards the fields below; the first caller of lock creates wake
	wake     chan struct{}   // has one token while the queue is not empty
	events   []portals.Event // ring buffer
	first    int
	count    int
	pollPath pollPath

	nonEmpty lnd.Wait    // pollers stop while count is not 0
	canPoll  atomic.Bool // pollPath allows polling
	polling  atomic.Bool // a goroutine is polling on pollPath
}

// NewEventQueue returns a queue for events of the wanted types. The queue also accepts any
// event that reports an error or is the last one of its MD. With EventAck only, for
// example, a caller that waits for an ACK is not woken by the SEND event.
func NewEventQueue(wanted EventSet) *EventQueue {
	return &EventQueue{unwanted: ^wanted}
}

// HandleEvent implements portals.Handler. It adds the event to the queue if the queue
// accepts it, and wakes a goroutine that waits in Next.
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
	q.nonEmpty.End()
	q.mu.Unlock()
	q.nonEmpty.Wake()
	q.signal()
}

// setPollPath implements poller.
func (q *EventQueue) setPollPath(l pollPath) {
	if l.by == nil && !q.canPoll.Load() {
		return // the usual case if the driver is not a Poller; needs no lock
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pollPath = l
	q.canPoll.Store(l.by != nil)
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

// signal wakes a goroutine that waits in Next. If the channel has a token already, signal
// does nothing.
func (q *EventQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// TryNext removes the oldest event from the queue, stores it in e and returns true. If the
// queue is empty, it returns false and does not modify e.
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
		q.nonEmpty.Reset()
		select {
		case <-q.wake: // the token of the event that was just removed
		default:
		}
	}
	q.mu.Unlock()
	if more {
		q.signal() // several goroutines may be waiting
	}
	return true
}

// poll polls for the answer to the latest request, if that is possible and no other
// goroutine does so. It reports whether the queue has an event.
func (q *EventQueue) poll() bool {
	if !q.canPoll.Load() || !q.polling.CompareAndSwap(false, true) {
		return false
	}
	defer q.polling.Store(false)
	q.mu.Lock()
	where := q.pollPath
	q.mu.Unlock()
	where.poll(&q.nonEmpty)
	return q.nonEmpty.Over()
}

// Next waits for an event and stores it in e. If ctx ends first, it returns ctx's error
// and does not modify e. It returns no other errors; the result of the operation is in
// e.Err. A handler must not call Next but can call TryNext: Next might wait for an event
// that can only be delivered after the handler has returned, and does not detect that.
// Next may poll the connection itself, with the consequences described at Node.PutWait.
func (q *EventQueue) Next(ctx context.Context, e *portals.Event) error {
	done := ctx.Done()
	for !q.TryNext(e) {
		if ctx.Err() == nil && q.poll() {
			continue
		}
		if done == nil { // a receive is cheaper than a select
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
