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

// PutWait sends b. With o.Ack it waits until the message is acknowledged, otherwise until
// it was sent. It returns the number of bytes that the target accepted; without o.Ack
// that is unknown, and it returns len(b).
//
// It returns the error of the message; ctx's error if ctx ends first; ErrTimedOut if no
// acknowledgement arrives within one and a quarter transaction timeouts; ErrRestarted if
// the target has restarted; ErrClosed; or ErrInHandler if a handler calls it.
//
// When PutWait returns, b is the caller's again, unless the error is an *InFlightError.
// Then ctx has ended or the node is closing while the driver still has the message, and b
// must not be modified until InFlightError.Done is closed.
//
// PutWait may poll the connection for the answer itself (lnd.Poller). The calling
// goroutine may then run handlers of other answers and of sent messages, and if the
// driver polls (socklnd.Config.BusyPoll) also those of requests. The caller must not hold
// a lock that these handlers acquire. PutWait may return up to 20 ms after ctx ends.
func (n *Node) PutWait(ctx context.Context, b []byte, to lnet.ProcessID, o PutOptions) (int, error) {
	last := portals.EventSend
	if o.Ack {
		last = portals.EventAck
	}
	return n.wait(ctx, b, last, portals.TrackResponse, func(h lnet.Handle) error { return n.Put(h, to, o) })
}

// GetWait requests data into b and waits for it. It returns the number of bytes received;
// data beyond len(b) is cut off. The errors are those of PutWait. With an *InFlightError,
// data may still arrive in b until InFlightError.Done is closed. In all other cases b is
// not written after GetWait has returned.
func (n *Node) GetWait(ctx context.Context, b []byte, to lnet.ProcessID, o GetOptions) (int, error) {
	return n.wait(ctx, b, portals.EventReply, portals.TrackResponse, func(h lnet.Handle) error { return n.Get(h, to, o) })
}

// InFlightError is the error of PutWait and GetWait if they return while the driver still
// uses the caller's memory. It wraps the reason: the context's error or ErrClosed.
type InFlightError struct {
	// Err is the reason why the call did not wait any longer.
	Err  error
	done <-chan struct{}
}

func (e *InFlightError) Error() string {
	return e.Err.Error() + ": the message is still in flight, and its memory is in use"
}

// Unwrap returns Err.
func (e *InFlightError) Unwrap() error { return e.Err }

// Done returns a channel that is closed when the memory is no longer read or written:
// when the driver has finished or dropped the message, and at the latest when Node.Close
// has returned nil. The outcome of the message is unknown.
func (e *InFlightError) Done() <-chan struct{} { return e.done }

// waiter waits for the end of an MD and is the handler of its events. The handler owns
// the fields that it sets until ended has a token; then the waiting goroutine owns the
// waiter and returns it to the pool.
type waiter struct {
	node     *Node
	answer   portals.EventType
	room     int           // size of the caller's memory
	length   int           // length in the answer; -1 before it arrives
	err      error         // error of the last event with one
	ended    chan struct{} // has a token when the memory is free
	wait     lnd.Wait      // over when the token is there or about to be
	pollPath pollPath

	inFlight   atomic.Bool   // it was added to the node's flights
	memoryFree chan struct{} // set if left; closed when the memory is free
}

// HandleEvent implements portals.Handler.
func (w *waiter) HandleEvent(e *portals.Event) {
	switch {
	case e.Err != nil:
		w.err = e.Err
		_ = w.node.table.Unlink(e.MD) // not found: it is the last event, or will be
	case e.Type == w.answer:
		w.length = min(max(e.Length, 0), w.room) // a peer may send any number
	}
	if e.Unlinked {
		w.end()
	}
}

// setPollPath implements poller. It is called before an answer can arrive.
func (w *waiter) setPollPath(l pollPath) { w.pollPath = l }

// end signals that the memory is free.
func (w *waiter) end() {
	if !w.wait.End() {
		return
	}
	w.wait.Wake()
	if w.inFlight.Load() {
		w.node.flights.remove(w)
		close(w.memoryFree)
	}
	w.ended <- struct{}{} // must be last: the waiter may be reused afterwards
}

// outcome returns the result of a wait that has ended. The caller must not use w
// afterwards.
func (w *waiter) outcome() (int, error) {
	length, err := w.length, w.err
	w.err, w.pollPath = nil, pollPath{}
	w.wait.Reset()
	w.node.waiters.Put(w)
	switch {
	case length >= 0: // even if the driver reported an error for the send
		return length, nil
	case err != nil:
		return 0, err
	}
	return 0, ErrTimedOut
}

// wait binds an MD to b, starts a request with it, and waits for the event with the
// answer and for the MD's end.
func (n *Node) wait(
	ctx context.Context, b []byte, answer portals.EventType, tracking portals.MDOptions, start func(lnet.Handle) error,
) (int, error) {
	if err := n.checkMayBlock(); err != nil {
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
		_ = n.Unlink(h) // not found: the node is closed
		return 0, err
	}
	w.pollPath.poll(&w.wait)
	select {
	case <-w.ended:
		return w.outcome()
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-n.ctx.Done():
		err = ErrClosed
	}
	select {
	case <-w.ended: // ended at the same moment
		return w.outcome()
	default:
	}
	return 0, w.leave(h, err)
}

// leave ends a wait early. A message that was not sent yet will not be sent, and an
// answer that has not arrived will not be accepted.
func (w *waiter) leave(h lnet.Handle, why error) error {
	n := w.node
	_ = n.Unlink(h) // not found: it is about to end, or the node is closed
	w.memoryFree = make(chan struct{})
	w.inFlight.Store(true)
	if !n.flights.add(w) {
		w.end()
	}
	if w.wait.Over() {
		n.flights.remove(w)
		return why
	}
	return &InFlightError{Err: why, done: w.memoryFree}
}

// flights are waits that ended while the driver still used the memory.
type flights struct {
	mu     sync.Mutex // a leaf lock; guards live and closed
	live   map[*waiter]struct{}
	closed bool // no driver is left
}

// add adds a wait. It returns false if no driver is left.
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

// end ends the waits whose MDs have ended without an event, as the remaining MDs do when
// the node closes.
func (f *flights) end() {
	f.mu.Lock()
	live := f.live
	f.live, f.closed = nil, true
	f.mu.Unlock()
	for w := range live {
		w.end()
	}
}

// unwrapInFlight unwraps an *InFlightError, for callers that will not use the memory again.
func unwrapInFlight(err error) error {
	var f *InFlightError
	if errors.As(err, &f) {
		return f.Err
	}
	return err
}
