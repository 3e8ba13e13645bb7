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

// Callers who wait for answers. A reader that finds an answer has to wake the goroutine that
// waits for it, which costs more than a message does: Go's scheduler wakes a thread besides.
// Therefore the caller takes the reader's role, and sleeps at the socket himself, while
// the reader sleeps at a bell that does not ring meanwhile. A connection is shared so when callers
// have waited for what it brings several times.
//
// With busy_poll whoever has the role watches the socket for a while before he sleeps
// (watchers.go).

// polling is what a connection needs for it. One that is not shared is its reader's alone.
type polling struct {
	stream Pollable     // nil: it is not to be shared
	calls  atomic.Int32 // of Poll, since that would have paid
	shared atomic.Bool  // what follows is there
	bell   Bell
	caller atomic.Bool // a caller has the role, or is about to
	tired  atomic.Bool // the reader is rung for to rest

	role     role  // the reader's; who has it may use the rest
	byCaller bool  // a caller has it
	choosy   bool  // and leaves requests to the reader
	watching bool  // the stream is quiet, and who has the role is enrolled
	left     error // what a caller has come to that is for the reader
	broken   error // what the bell has come to
	sleeper  lnd.Sleeper
}

// role is a token: in the channel while nobody has it.
type role chan struct{}

func (r role) take() { <-r }
func (r role) give() { r <- struct{}{} }

func (r role) try() bool {
	select {
	case <-r:
		return true
	default:
		return false
	}
}

var (
	// errUnplaced has a caller leave a message to the reader, who waits for its placement.
	errUnplaced = errors.New("the placement is yet to come")
	// errRequest has him leave one that is no answer.
	errRequest = errors.New("a request has come")
	// errPanic is what a caller leaves whose handlers have panicked.
	errPanic = errors.New("a handler of the program has panicked")
)

const (
	// callsToShare is how many callers wait for what a connection brings before it is shared,
	// which takes a file descriptor; and before another sleeps there after one who did not
	// find his answer, since it came by another connection, or behind a request.
	callsToShare = 16
	// maxNap is how long a caller sleeps at a socket: he has more to wait for.
	maxNap = MaxBusyPoll
)

// longAgo is a deadline that wakes who sleeps.
var longAgo = time.Unix(1, 0)

// share makes the connection one that callers may read, if that is called for and can be had.
// Its reader calls it.
func (c *conn) share() bool {
	p := &c.poll
	if p.stream == nil || p.calls.Load() < callsToShare && c.patience() == 0 {
		return false
	}
	bell, err := p.stream.Bell()
	if err != nil { // there are no file descriptors: the reader goes on alone
		c.peer.i.log.Debug("callers cannot read a connection", "peer", c.peer.id.String(), "cause", err)
		p.stream = nil
		return false
	}
	p.bell, p.role = bell, make(role, 1)
	p.sleeper.Wake = func() { _ = c.stream.SetReadDeadline(longAgo) }
	p.role.give()
	p.shared.Store(true)
	return true
}

// heard remembers that something has come by the connection.
func (c *conn) heard() {
	if c.poll.stream != nil && c.peer.talking.Load() != c {
		c.peer.talking.Store(c)
	}
}

// patience is how long the connection is watched before anybody sleeps.
func (c *conn) patience() time.Duration { return c.peer.i.options.Load().busyPoll }

// wakeReader has a reader that sleeps look what there is besides messages.
func (c *conn) wakeReader() {
	if c.poll.shared.Load() {
		c.poll.tired.Store(true)
		c.poll.bell.Ring()
		return
	}
	_ = c.stream.SetReadDeadline(longAgo) // of a closed stream he is awake
}

// readShared is readAlone of a connection that is shared. The reader has the role for good
// at the end: nothing is read then.
func (c *conn) readShared() error {
	p := &c.poll
	defer p.bell.Close()
	for {
		var err error
		rung := p.bell.Attend(func() bool {
			p.role.take()
			if err = c.readAll(); err != nil {
				return true
			}
			p.role.give()
			return false
		})
		if err == nil && !errors.Is(rung, os.ErrDeadlineExceeded) {
			p.role.take()
			err = c.readError(rung)
		}
		if err == nil && p.tired.Swap(false) {
			p.role.take()
			if err = c.rest(); err == nil {
				p.role.give()
			}
		}
		if err != nil {
			return err
		}
	}
}

// readAll reads what there is. The reader has the role.
func (c *conn) readAll() error {
	p := &c.poll
	if err := c.takeOver(); err != nil {
		return err
	}
	if c.patience() == 0 {
		for {
			if found, err := c.look(); !found || err != nil {
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
	// There may be something left, which the caller need not read.
	if err := errors.Join(p.bell.Mute(true), p.bell.Mute(false)); err != nil {
		return c.readError(err)
	}
	return nil
}

// takeOver goes on where a caller has left off.
func (c *conn) takeOver() error {
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

// look reads what there is now, and tells whether there was anything. The caller has the role. The
// error ends the connection, or is for the reader.
func (c *conn) look() (found bool, err error) {
	n, err := c.poll.stream.TryRead(c.rx.Buffers())
	if n == 0 && err == nil {
		return false, nil
	}
	return true, c.digest(n, err)
}

// rolesTried is how often a caller tries to have the role of a reader that watches, and leaves it
// at once. One that works has no need of him.
const rolesTried = 100

// readFor has a caller read the connection who waits for w.
func (c *conn) readFor(w *lnd.Wait) {
	p := &c.poll
	if !p.caller.CompareAndSwap(false, true) {
		return // one is enough
	}
	defer p.caller.Store(false)
	patience := c.patience()
	for tried := 0; !p.role.try(); tried++ {
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

// readAsCaller is what a caller does who has the role.
func (c *conn) readAsCaller(w *lnd.Wait, patience time.Duration) (err error) {
	p := &c.poll
	if p.broken = p.bell.Mute(true); p.broken != nil {
		return nil
	}
	if patience > 0 {
		err = c.watch(w.Over)
	}
	if err == nil {
		err = c.nap(w)
	}
	p.broken = p.bell.Mute(false)
	return err
}

// nap has a caller sleep until something comes, and read it, until w is over or he has slept for
// long. Requests are the reader's: their handlers may take locks that the caller holds.
func (c *conn) nap(w *lnd.Wait) error {
	p := &c.poll
	if c.open && !isAnswer(&c.m.Header) {
		return nil
	}
	p.choosy = true
	_ = c.stream.SetReadDeadline(time.Now().Add(maxNap)) // of a closed stream Read tells
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

// isAnswer tells whether a message is one that somebody may wait for.
func isAnswer(h *lnet.Header) bool { return h.Type == lnet.MsgAck || h.Type == lnet.MsgReply }

// leave has a caller give the role back, and the reader see to what is left.
func (c *conn) leave() {
	p := &c.poll
	p.byCaller, p.choosy = false, false
	if p.left != nil || p.broken != nil {
		p.bell.Ring()
	}
	p.role.give()
}

// Poll implements lnd.Poller: it reads the connection that the peer's last message came
// by.
func (i *Interface) Poll(nid lnet.NID, w *lnd.Wait) {
	i.mu.RLock()
	p := i.peers[lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}]
	i.mu.RUnlock()
	if p == nil {
		return
	}
	c := p.talking.Load()
	switch {
	case c == nil:
	case c.poll.calls.Load() < callsToShare && c.patience() == 0:
		if c.poll.calls.Add(1) == callsToShare && !c.poll.shared.Load() {
			c.wakeReader()
		}
	case c.poll.shared.Load():
		c.readFor(w)
	}
}

var _ lnd.Poller = (*Interface)(nil)
