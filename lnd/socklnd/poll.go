package socklnd

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Polling by callers that wait for answers. Normally the reader that receives an answer has to wake the
// goroutine that waits for it. This costs more than the message, because Go's scheduler also wakes a thread.
// Therefore the waiting goroutine (the caller of Poll) takes over the reader's role: it reads the socket and
// sleeps on it. Meanwhile the reader sleeps on a muted bell. A connection can be shared in this way after
// several callers have waited for messages that arrived on it.
//
// With busy_poll, the goroutine that has the role polls the socket for a while before it sleeps (pollers.go).

// sharing is a connection's state for sharing the reader's role between its reader and callers of Poll. While
// the connection is not shared, its reader reads it without the role.
type sharing struct {
	stream    Pollable     // nil if the connection cannot be shared
	calls     atomic.Int32 // calls of Poll, up to callsToShare; 0 again after a caller has slept without getting its answer
	shared    atomic.Bool  // the connection is shared; bell and role are set
	caller    atomic.Bool  // a caller of Poll has the reader's role or is about to acquire it
	releasing atomic.Bool  // the reaper has woken the reader to release its buffer

	// Only the goroutine that has the reader's role uses the fields from byCaller to sleeper.
	byCaller    bool // a caller of Poll has the role
	answersOnly bool // a caller of Poll has the role, sleeps, and leaves requests to the reader
	counted     bool // the goroutine that has the role is busy polling: the stream is quiet (Pollable), and the goroutine has a place (polling.Acquire)
	bell        Bell // the reader sleeps on it
	role        role
	left        error       // what a caller has left to the reader: errUnplaced, errRequest, errPanic, or a failure
	broken      error       // error of the bell, which the reader has to process
	sleeper     lnd.Sleeper // wakes a caller that sleeps on the socket
}

// role is the right to do something, which one goroutine has at a time. The channel contains a token while no
// goroutine has the role.
type role chan struct{}

func (r role) acquire() { <-r }
func (r role) release() { r <- struct{}{} }

func (r role) tryAcquire() bool {
	select {
	case <-r:
		return true
	default:
		return false
	}
}

var (
	// errUnplaced makes a caller leave the current message to the reader, which then waits for its placement.
	errUnplaced = errors.New("the message has no placement yet")
	// errRequest makes a caller leave the current message to the reader because it is not an answer.
	errRequest = errors.New("the message is a request")
	// errPanic ends the connection after a handler has panicked in a caller's goroutine.
	errPanic = errors.New("a handler of the program has panicked")
)

const (
	// callsToShare is how many callers must wait for messages of a connection before it is shared, because
	// sharing takes a file descriptor. If a caller sleeps there and does not find its answer, which came on
	// another connection or after a request, then this many callers must wait again before the next one
	// sleeps there.
	callsToShare = 16
	// maxNap is how long a caller sleeps on a socket at most. Then it also has to check for other events.
	maxNap = MaxBusyPoll
)

// pastDeadline is a deadline that makes a blocked call return immediately.
var pastDeadline = time.Unix(1, 0)

// share makes the connection readable by callers of Poll, if this is useful and possible, and reports whether
// it has. Only the connection's reader calls it.
func (c *conn) share() bool {
	p := &c.poll
	if p.stream == nil || p.calls.Load() < callsToShare && c.busyPoll() == 0 {
		return false
	}
	bell, err := p.stream.Bell()
	if err != nil { // no file descriptor is free, so the connection is not shared
		c.peer.i.Log.Debug("cannot share a connection with callers that wait for its messages", "peer", c.peer.ID.String(), "cause", err)
		p.stream = nil
		return false
	}
	p.bell, p.role = bell, make(role, 1)
	p.sleeper.Wake = func() { _ = c.stream.SetReadDeadline(pastDeadline) }
	p.role.release()
	p.shared.Store(true)
	return true
}

// noteReceived makes the connection the one that Poll reads, because it has received something. It does
// nothing if the connection cannot be shared.
func (c *conn) noteReceived() {
	if c.poll.stream != nil && c.peer.lastReceiver.Load() != c {
		c.peer.lastReceiver.Store(c)
	}
}

// busyPoll returns how long the connection is polled before a goroutine sleeps on it.
func (c *conn) busyPoll() time.Duration { return c.peer.i.options.Load().BusyPoll }

// wakeReader wakes the reader if it sleeps. If the connection is shared, the reader then releases its large
// buffer. Otherwise it also releases it, and then tries to share the connection with callers of Poll.
func (c *conn) wakeReader() {
	if c.poll.shared.Load() {
		c.poll.releasing.Store(true)
		c.poll.bell.Ring()
		return
	}
	_ = c.stream.SetReadDeadline(pastDeadline) // fails only on a closed stream, whose reader is awake
}

// readShared reads a shared connection until it ends, as readAlone does for one that is not shared. When it
// returns, the reader still has the role, so that no caller reads any more.
func (c *conn) readShared() error {
	p := &c.poll
	defer p.bell.Close()
	for {
		var err error
		rung := p.bell.Attend(func() bool {
			p.role.acquire()
			if err = c.readAll(); err != nil {
				return true
			}
			p.role.release()
			return false
		})
		if err == nil && !errors.Is(rung, os.ErrDeadlineExceeded) {
			p.role.acquire()
			err = c.readError(rung)
		}
		if err == nil && p.releasing.Swap(false) {
			p.role.acquire()
			if err = c.releaseBuffer(); err == nil {
				p.role.release()
			}
		}
		if err != nil {
			return err
		}
	}
}

// readAll reads and processes all available bytes. With busy_poll it continues until nothing has arrived for
// that time, or until a caller wants the role. The reader has the role.
func (c *conn) readAll() error {
	if err := c.resumeReading(); err != nil {
		return err
	}
	p := &c.poll
	if c.busyPoll() == 0 {
		c.waited = true
		for {
			if found, err := c.pollOnce(); !found || err != nil {
				return err
			}
		}
	}
	called := false
	err := c.watch(func() bool {
		called = p.caller.Load()
		return called
	})
	if err != nil || !called {
		return err
	}
	// Muting and unmuting makes the bell ring again if bytes are available, because the caller may leave them
	// unread.
	if err := errors.Join(p.bell.Mute(true), p.bell.Mute(false)); err != nil {
		return c.readError(err)
	}
	return nil
}

// resumeReading does what a caller has left to the reader: it continues with the current message, or returns
// the error that ends the connection.
func (c *conn) resumeReading() error {
	p := &c.poll
	err := p.left
	p.left = nil
	switch {
	case errors.Is(err, errUnplaced):
		err = c.work(c.place)
	case errors.Is(err, errRequest):
		err = c.work(c.arrive)
	}
	if err == nil && p.broken != nil {
		err = c.readError(p.broken)
	}
	return err
}

// pollOnce reads and processes the available bytes without blocking. It reports whether there were any. The
// goroutine that calls it has the role. For a reader, an error ends the connection. A caller of Poll leaves
// the error to the reader.
func (c *conn) pollOnce() (found bool, err error) {
	n, err := c.poll.stream.TryRead(c.rx.Buffers())
	if n == 0 && err == nil {
		return false, nil
	}
	err = c.digest(n, err)
	c.waited = false
	return true, err
}

// rolesTried is how often a caller of Poll tries to acquire the role while a polling reader has it. A reader
// that polls releases the role soon when a caller asks for it. A reader that processes messages does not, but
// it will also receive the answer.
const rolesTried = 100

// readFor lets a caller of Poll that waits for w read the connection. It returns immediately if another
// caller is reading it, and without reading if the reader does not release the role.
func (c *conn) readFor(w *lnd.Wait) {
	p := &c.poll
	if !p.caller.CompareAndSwap(false, true) {
		return // another caller is reading the connection
	}
	defer p.caller.Store(false)
	patience := c.busyPoll()
	for tried := 0; !p.role.tryAcquire(); tried++ {
		if tried == rolesTried || patience == 0 || w.Over() {
			return
		}
		runtime.Gosched()
	}
	defer c.leave()
	if p.left == nil && p.broken == nil {
		p.byCaller, p.left = true, errPanic
		p.left = c.readAsCaller(w, patience)
	}
}

// readAsCaller reads the connection in a caller's goroutine until w has ended or the time is over: patience
// for polling, then maxNap for sleeping. The caller has the role. A returned error is left to the reader.
func (c *conn) readAsCaller(w *lnd.Wait, patience time.Duration) (err error) {
	p := &c.poll
	if p.broken = p.bell.Mute(true); p.broken != nil {
		return nil
	}
	if patience > 0 {
		err = c.watch(w.Over)
	}
	if err == nil {
		err = c.sleepAsCaller(w)
	}
	p.broken = p.bell.Mute(false)
	return err
}

// sleepAsCaller sleeps on the socket and processes what arrives, until w has ended or nothing has arrived
// until maxNap has passed. It leaves requests to the reader, because their handlers may acquire locks that
// the caller holds.
func (c *conn) sleepAsCaller(w *lnd.Wait) error {
	p := &c.poll
	if c.open && !isAnswer(&c.m.Header) {
		return nil
	}
	p.answersOnly = true
	_ = c.stream.SetReadDeadline(time.Now().Add(maxNap)) // Read reports a closed stream
	for w.Sleep(&p.sleeper) {
		n, err := c.stream.Read(c.rx.Buffers())
		c.waited = p.stream.Waited()
		w.Rise()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.calls.Store(0)
			return nil
		}
		if err := c.digest(n, err); err != nil {
			p.calls.Store(0)
			return err
		}
	}
	return nil
}

// isAnswer reports whether a message is an ACK or a REPLY, which callers of Poll may wait for.
func isAnswer(h *lnet.Header) bool { return h.Type == lnet.MsgAck || h.Type == lnet.MsgReply }

// leave releases the role that a caller of Poll has. If the caller has left work, it wakes the reader.
func (c *conn) leave() {
	p := &c.poll
	p.byCaller, p.answersOnly = false, false
	if p.left != nil || p.broken != nil {
		p.bell.Ring()
	}
	p.role.release()
}

// Poll implements lnd.Poller. It reads the connection that received the peer's last message.
func (i *Interface) Poll(nid lnet.NID, w *lnd.Wait) {
	p := i.Find(lnet.ProcessID{NID: nid, PID: lnet.PIDLustre})
	if p == nil {
		return
	}
	c := p.lastReceiver.Load()
	switch {
	case c == nil:
	case c.poll.calls.Load() < callsToShare && c.busyPoll() == 0:
		if c.poll.calls.Add(1) == callsToShare && !c.poll.shared.Load() {
			c.wakeReader()
		}
	case c.poll.shared.Load():
		c.readFor(w)
	}
}

var _ lnd.Poller = (*Interface)(nil)
