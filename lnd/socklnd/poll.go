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

// Polling by callers that wait for answers. A reader that receives an answer has to wake the waiting
// goroutine. This costs more than the message, because Go's scheduler also wakes a thread. Therefore
// the caller takes over the reader's role and sleeps on the socket itself. Meanwhile the reader sleeps
// on a muted bell. A connection is shared in this way after several callers have waited for messages
// that came by it.
//
// With busy_poll, the holder of the role polls the socket for a while before it sleeps (pollers.go).

// polling is a connection's state for sharing the reader's role. The reader of a connection that is not
// shared needs no role.
type polling struct {
	stream    Pollable     // nil if the connection cannot be shared
	calls     atomic.Int32 // calls of Poll for which sharing would have paid
	shared    atomic.Bool  // the following fields are set
	bell      Bell
	caller    atomic.Bool // a caller has the role or is about to take it
	releasing atomic.Bool // the reader was woken to release its buffer

	role        role  // the reader's role; its holder may use the fields below
	byCaller    bool  // a caller has the role
	answersOnly bool  // the caller leaves requests to the reader
	counted     bool  // the stream is quiet, and the holder is counted in pollers
	left        error // work that a caller has left to the reader
	broken      error // error of the bell
	sleeper     lnd.Sleeper
}

// role is a token. It is in the channel while the role is free.
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
	// errUnplaced makes a caller leave a message to the reader, which waits for the placement.
	errUnplaced = errors.New("the placement is yet to come")
	// errRequest makes a caller leave a message that is not an answer.
	errRequest = errors.New("a request has come")
	// errPanic is left by a caller in which a handler has panicked.
	errPanic = errors.New("a handler of the program has panicked")
)

const (
	// callsToShare is how many callers have to wait for messages of a connection before it is shared,
	// since sharing takes a file descriptor. It is also how many have to wait before another one sleeps
	// there, after one did not find its answer: the answer came by another connection, or behind a
	// request.
	callsToShare = 16
	// maxNap is how long a caller sleeps on a socket, since it also has to check for other events.
	maxNap = MaxBusyPoll
)

// pastDeadline is a deadline that wakes a sleeper immediately.
var pastDeadline = time.Unix(1, 0)

// share makes the connection readable by callers, if this is useful and possible. Only its reader calls
// it.
func (c *conn) share() bool {
	p := &c.poll
	if p.stream == nil || p.calls.Load() < callsToShare && c.busyPoll() == 0 {
		return false
	}
	bell, err := p.stream.Bell()
	if err != nil { // no file descriptor is free: do not share
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

// noteReceived records that the connection received something.
func (c *conn) noteReceived() {
	if c.poll.stream != nil && c.peer.lastReceiver.Load() != c {
		c.peer.lastReceiver.Store(c)
	}
}

// busyPoll returns how long the connection is polled before a goroutine sleeps on it.
func (c *conn) busyPoll() time.Duration { return c.peer.i.options.Load().BusyPoll }

// wakeReader wakes a sleeping reader to check for work other than messages.
func (c *conn) wakeReader() {
	if c.poll.shared.Load() {
		c.poll.releasing.Store(true)
		c.poll.bell.Ring()
		return
	}
	_ = c.stream.SetReadDeadline(pastDeadline) // on a closed stream the reader is awake
}

// readShared is readAlone for a shared connection. When it returns, the reader keeps the role, so that
// nothing is read any more.
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

// readAll reads what is available. The reader has the role.
func (c *conn) readAll() error {
	p := &c.poll
	if err := c.resumeReading(); err != nil {
		return err
	}
	if c.busyPoll() == 0 {
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
	// Ring again for remaining bytes, which the caller may not read.
	if err := errors.Join(p.bell.Mute(true), p.bell.Mute(false)); err != nil {
		return c.readError(err)
	}
	return nil
}

// resumeReading continues where a caller stopped.
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

// pollOnce reads what is available and reports whether there was anything. The caller has the role. An
// error ends the connection or is left to the reader.
func (c *conn) pollOnce() (found bool, err error) {
	n, err := c.poll.stream.TryRead(c.rx.Buffers())
	if n == 0 && err == nil {
		return false, nil
	}
	return true, c.digest(n, err)
}

// rolesTried is how often a caller tries to take the role of a polling reader, which releases it
// immediately. A reader that processes messages does not need the caller.
const rolesTried = 100

// readFor lets a caller that waits for w read the connection.
func (c *conn) readFor(w *lnd.Wait) {
	p := &c.poll
	if !p.caller.CompareAndSwap(false, true) {
		return // one caller is enough
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

// readAsCaller reads the connection for a caller that has the role.
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

// sleepAsCaller lets a caller sleep until something arrives, and read it, until w has ended or maxNap has passed.
// It leaves requests to the reader, because their handlers may acquire locks that the caller holds.
func (c *conn) sleepAsCaller(w *lnd.Wait) error {
	p := &c.poll
	if c.open && !isAnswer(&c.m.Header) {
		return nil
	}
	p.answersOnly = true
	_ = c.stream.SetReadDeadline(time.Now().Add(maxNap)) // Read reports a closed stream
	for w.Sleep(&p.sleeper) {
		n, err := c.stream.Read(c.rx.Buffers())
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

// isAnswer reports whether a message is one that callers may wait for.
func isAnswer(h *lnet.Header) bool { return h.Type == lnet.MsgAck || h.Type == lnet.MsgReply }

// leave releases a caller's role and makes the reader handle the remaining work.
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
