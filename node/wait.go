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

// PutWait sends b. If o.Ack is set, it waits until the message is acknowledged, and
// returns the number of bytes that the target accepted. Otherwise it waits until the
// driver has sent the message, and returns len(b), because the number of accepted bytes is
// unknown.
//
// It returns the error of the message; ctx's error if ctx ends first; ErrTimedOut if no
// acknowledgement arrives within one and a quarter transaction timeouts; ErrRestarted if
// the target has restarted; ErrClosed; or ErrInHandler if a handler calls it.
//
// When PutWait returns, b belongs to the caller again, unless the error is an
// *InFlightError. This error means that ctx has ended or the node is closing while the
// driver still uses b. The caller must then not modify b until InFlightError.Done is
// closed.
//
// PutWait may poll the connection for the answer itself (lnd.Poller). The calling
// goroutine may then run handlers of other answers and of sent messages. If the driver
// polls (socklnd.Config.BusyPoll), it may also run handlers of requests. The caller must
// not hold a lock that these handlers acquire. PutWait may return up to 20 ms after ctx
// ends.
func (n *Node) PutWait(ctx context.Context, b []byte, to lnet.ProcessID, o PutOptions) (int, error) {
	last := portals.EventSend
	if o.Ack {
		last = portals.EventAck
	}
	a, err := n.wait(ctx, b, last, portals.TrackResponse, func(h lnet.Handle) error { return n.Put(h, to, o) })
	return a.length, err
}

// GetWait requests data from the target and waits until the data is in b. It returns the
// number of bytes received; data beyond len(b) is cut off. The errors are those of
// PutWait. If the error is an *InFlightError, data may still arrive in b until
// InFlightError.Done is closed. In all other cases b is not written after GetWait has
// returned.
func (n *Node) GetWait(ctx context.Context, b []byte, to lnet.ProcessID, o GetOptions) (int, error) {
	a, err := n.wait(ctx, b, portals.EventReply, portals.TrackResponse, func(h lnet.Handle) error { return n.Get(h, to, o) })
	return a.length, err
}

// InFlightError is the error of PutWait and GetWait if the driver still uses the caller's
// memory when they return. It wraps the reason why they did not wait: the context's error
// or ErrClosed.
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

// Done returns a channel that is closed when the driver no longer reads or writes the
// memory. It is closed when the driver has finished or dropped the message, at the latest
// before Node.Close returns nil. It does not show whether the message was successful.
func (e *InFlightError) Done() <-chan struct{} { return e.done }

// waiter is the state of one call of PutWait or GetWait, and the handler of the events of
// its MD. The handler owns the fields that it sets until it sends the token to ended.
// After that, the waiting goroutine owns the waiter and returns it to the pool.
type waiter struct {
	node     *Node
	last     portals.EventType // of the answer
	room     int               // size of the caller's memory
	received answer            // its length is -1 before the answer arrives
	err      error             // error of the last event that reported one
	ended    chan struct{}     // has a token when the memory is free
	wait     lnd.Wait          // pollers stop when the token is in ended or about to be
	pollPath pollPath

	inFlight   atomic.Bool   // leave was called, so that end must close memoryFree
	memoryFree chan struct{} // set by leave; closed when the memory is free
}

// answer is what a request has received.
type answer struct {
	length int
	sender lnet.NID // neighbour from which it arrived
}

// HandleEvent implements portals.Handler. It records the result, and ends the wait with
// the last event of the MD.
func (w *waiter) HandleEvent(e *portals.Event) {
	switch {
	case e.Err != nil:
		w.err = e.Err
		_ = w.node.table.Unlink(e.MD) // not found: this is the last event, or the last event follows
	case e.Type == w.last:
		w.received = answer{min(max(e.Length, 0), w.room), e.Sender} // the length comes from the peer and may be invalid
	}
	if e.Unlinked {
		w.end()
	}
}

// setPollPath implements poller. The node calls it before an answer can arrive, so it
// needs no lock.
func (w *waiter) setPollPath(l pollPath) { w.pollPath = l }

// end signals that the driver no longer uses the memory. Only the first call has an
// effect.
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

// outcome returns the result of w, whose MD has ended, and returns w to the pool. The
// caller must not use w afterwards.
func (w *waiter) outcome() (answer, error) {
	a, err := w.received, w.err
	w.err, w.pollPath = nil, pollPath{}
	w.wait.Reset()
	w.node.waiters.Put(w)
	switch {
	case a.length >= 0: // even if the driver reported an error for the send
		return a, nil
	case err != nil:
		return answer{}, err
	}
	return answer{}, ErrTimedOut
}

// wait binds an MD to b, starts a request by calling start with its handle, and waits
// until the MD has ended. It returns what the event of type last has reported, or the
// error. PutWait and GetWait use it.
func (n *Node) wait(
	ctx context.Context, b []byte, last portals.EventType, tracking portals.MDOptions, start func(lnet.Handle) error,
) (answer, error) {
	if err := n.checkMayBlock(); err != nil {
		return answer{}, err
	}
	if ctx.Err() != nil {
		return answer{}, context.Cause(ctx)
	}
	threshold := 2
	if last == portals.EventSend {
		threshold = 1
	}
	w, ok := n.waiters.Get().(*waiter)
	if !ok {
		w = &waiter{node: n, ended: make(chan struct{}, 1)}
	}
	w.last, w.room, w.received = last, len(b), answer{length: -1}
	h, err := n.Bind(portals.MD{
		Bytes: b, Threshold: threshold, Options: portals.Truncate | tracking, Handler: w, Unlink: true,
	})
	if err != nil {
		return answer{}, err
	}
	if err := start(h); err != nil {
		_ = n.Unlink(h) // not found: the node is closed
		return answer{}, err
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
	case <-w.ended: // the wait ended after the first select
		return w.outcome()
	default:
	}
	return answer{}, w.leave(h, err)
}

// leave ends a wait early, for the reason why. If the message was not sent yet, it will
// not be sent, and an answer that has not arrived will not be accepted. If the driver
// still uses the memory, leave returns an *InFlightError, otherwise why.
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

// flights holds the waits that returned an *InFlightError and whose memory is still in
// use.
type flights struct {
	mu     sync.Mutex // a leaf lock; guards live and closed
	live   map[*waiter]struct{}
	closed bool // all drivers are closed
}

// add adds a wait. It returns false if all drivers are closed, so that the memory is no
// longer in use.
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

// end ends the waits that remain when the node has closed. Their MDs have ended without an
// event.
func (f *flights) end() {
	f.mu.Lock()
	live := f.live
	f.live, f.closed = nil, true
	f.mu.Unlock()
	for w := range live {
		w.end()
	}
}

// unwrapInFlight returns the reason in an *InFlightError, for callers that will not use
// the memory again. It returns any other error unchanged.
func unwrapInFlight(err error) error {
	var f *InFlightError
	if errors.As(err, &f) {
		return f.Err
	}
	return err
}
