package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// PutWait sends b and waits until it is acknowledged, with o.Ack, or has left.
// It returns how much of it the target took, which without an acknowledgement
// nobody can know: then it is len(b). An error is that of the message, ctx's
// if it ends first, ErrTimedOut if no acknowledgement comes within one and a quarter
// transaction timeouts, ErrRestarted if the target has begun a new life, or ErrClosed.
//
// When it returns b is the caller's again, with one exception: if the error is an
// *InFlightError, ctx has ended or the node closes, and the driver still has the
// message. b must then stay as it is until InFlightError.Done is closed.
//
// ErrInHandler: a handler has called it.
//
// A caller may find his answer himself (lnd.Poller). Handlers of others' answers and of messages
// that leave may run in his goroutine then, and if the driver polls (socklnd.Config.BusyPoll) those
// of requests, too: it must hold no lock that they take. And PutWait may return 20 ms later than ctx
// ends.
func (n *Node) PutWait(ctx context.Context, b []byte, to lnet.ProcessID, o PutOptions) (int, error) {
	last := portals.EventSend
	if o.Ack {
		last = portals.EventAck
	}
	return n.wait(ctx, b, last, portals.TrackResponse, func(h lnet.Handle) error { return n.Put(h, to, o) })
}

// GetWait fetches into b and waits for the data. It returns how many bytes
// came; what is longer than b is cut off. Errors are as with PutWait: with an
// *InFlightError the data may still come, into b, until InFlightError.Done is closed.
// In no other case does anything come after GetWait has returned.
func (n *Node) GetWait(ctx context.Context, b []byte, to lnet.ProcessID, o GetOptions) (int, error) {
	return n.wait(ctx, b, portals.EventReply, portals.TrackResponse, func(h lnet.Handle) error { return n.Get(h, to, o) })
}

// InFlightError is how PutWait and GetWait end that cannot wait until the driver is
// through with the caller's memory. It wraps why: the context's error or ErrClosed.
type InFlightError struct {
	// Err is why the call did not wait any longer.
	Err  error
	done <-chan struct{}
}

func (e *InFlightError) Error() string {
	return e.Err.Error() + ": the message is still under way, and its memory in use"
}

// Unwrap gives Err.
func (e *InFlightError) Unwrap() error { return e.Err }

// Done is closed when nobody reads or writes the memory any more: when the driver is
// through with the message, or gives it up, and at the latest when Node.Close has
// returned nil. What became of the message, nobody knows.
func (e *InFlightError) Done() <-chan struct{} { return e.done }

// waiter waits for an MD's end, and hears its events. What its MD's events leave in
// it belongs to the handler until ended has a token, and then to who waits, who uses it again.
type waiter struct {
	node   *Node
	answer portals.EventType
	room   int           // of the caller's memory
	length int           // that the answer tells; -1: none came
	err    error         // of the last event that told of one
	ended  chan struct{} // has a token when the memory is free
	over   lnd.Wait      // until there is one, or is about to be
	where  lookout

	left   atomic.Bool   // it is among the node's flights, or was
	landed chan struct{} // of one that has left; closed when the memory is free
}

// HandleEvent implements portals.Handler.
func (w *waiter) HandleEvent(e *portals.Event) {
	switch {
	case e.Err != nil:
		w.err = e.Err
		_ = w.node.table.Unlink(e.MD) // not found: it is the last event, or will be
	case e.Type == w.answer:
		w.length = min(max(e.Length, 0), w.room) // a peer may say what it likes
	}
	if e.Unlinked {
		w.end()
	}
}

// seek implements seeker, before there can be an answer.
func (w *waiter) seek(l lookout) { w.where = l }

// end says that the memory is free.
func (w *waiter) end() {
	if !w.over.End() {
		return
	}
	w.over.Wake()
	if w.left.Load() {
		w.node.flights.remove(w)
		close(w.landed)
	}
	w.ended <- struct{}{} // the last that the handler does
}

// outcome is what a wait has come to that has ended. It is the last that its caller does.
func (w *waiter) outcome() (int, error) {
	length, err := w.length, w.err
	w.err, w.where = nil, lookout{}
	w.over.Reset()
	w.node.waiters.Put(w)
	switch {
	case length >= 0: // even if the driver could not tell that it had left
		return length, nil
	case err != nil:
		return 0, err
	}
	return 0, ErrTimedOut
}

// wait makes an MD of b, starts a request with it, and waits for the event
// that brings the answer and for the MD's end.
func (n *Node) wait(
	ctx context.Context, b []byte, answer portals.EventType, tracking portals.MDOptions, start func(lnet.Handle) error,
) (int, error) {
	if err := n.mayWait(); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	threshold := 2
	if answer == portals.EventSend {
		threshold = 1
	}
	w, ok := n.waiters.Get().(*waiter)
	if !ok {
		w = &waiter{node: n, ended: make(chan struct{}, 1)}
	}
	w.answer, w.room, w.length = answer, len(b), -1
	h, err := n.Bind(portals.MD{
		Bytes: b, Threshold: threshold, Options: portals.Truncate | tracking, Handler: w, Unlink: true,
	})
	if err != nil {
		return 0, err
	}
	if err := start(h); err != nil {
		_ = n.Unlink(h) // not found: it is closed
		return 0, err
	}
	w.where.look(&w.over)
	select {
	case <-w.ended:
		return w.outcome()
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-n.ctx.Done():
		err = ErrClosed
	}
	select {
	case <-w.ended: // at the same moment
		return w.outcome()
	default:
	}
	return 0, w.leave(h, err)
}

// leave ends a wait early. What has not left the node will not, and what has not come
// will not be taken.
func (w *waiter) leave(h lnet.Handle, why error) error {
	n := w.node
	_ = n.Unlink(h) // not found: it is about to end, or the node is closed
	w.landed = make(chan struct{})
	w.left.Store(true)
	if !n.flights.add(w) {
		w.end()
	}
	if w.over.Over() {
		n.flights.remove(w)
		return why
	}
	return &InFlightError{Err: why, done: w.landed}
}

// flights are waits that have ended before the driver was through with the memory.
type flights struct {
	mu     sync.Mutex // a leaf; guards live and closed
	live   map[*waiter]struct{}
	closed bool // no driver is left
}

// add adds a wait; false: no driver is left.
func (f *flights) add(w *waiter) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	if f.live == nil {
		f.live = make(map[*waiter]struct{})
	}
	f.live[w] = struct{}{}
	return true
}

func (f *flights) remove(w *waiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.live, w)
}

// end ends the waits whose MDs have gone without an event, as those do that are left
// when the node closes.
func (f *flights) end() {
	f.mu.Lock()
	live := f.live
	f.live, f.closed = nil, true
	f.mu.Unlock()
	for w := range live {
		w.end()
	}
}

// landed is the error of a wait for memory that nobody will use again.
func landed(err error) error {
	var f *InFlightError
	if errors.As(err, &f) {
		return f.Err
	}
	return err
}
