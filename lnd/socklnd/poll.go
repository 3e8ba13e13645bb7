package socklnd

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Busy polling. To be woken costs more than a message does. With busy_poll, therefore, a
// connection is watched for a while before anybody sleeps for what it brings: by its reader,
// and by a caller who waits for an answer, who so finds it himself and has nobody to wake.
// Who watches has the reader's role, which the reader leaves to a caller who wants it, and
// keeps the stream quiet: what comes wakes nobody besides.

// polling is what a connection needs for it. One without a stream is not polled, and the
// role is its reader's for good.
type polling struct {
	stream Pollable
	caller atomic.Bool // a caller watches, or is about to

	role     role  // the reader's; who has it may use the rest
	byCaller bool  // a caller has it
	watching bool  // the stream is quiet, and who has the role is enrolled
	left     error // what a caller has come to that is for the reader
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
	// errPanic is what a caller leaves whose handlers have panicked.
	errPanic = errors.New("a handler of the program has panicked")
)

// setUp makes a connection polled, if it can and shall be; false: it is not.
func (p *polling) setUp(s Stream, patience time.Duration) bool {
	stream, ok := s.(Pollable)
	if patience <= 0 || !ok {
		return false
	}
	p.stream, p.role = stream, make(role, 1)
	return true
}

// begin begins to watch; false: not now. The caller has the role.
func (p *polling) begin() bool {
	if p.watching = enroll(); p.watching {
		p.stream.Quiet(true)
	}
	return p.watching
}

// end ends what begin has begun.
func (p *polling) end() {
	if p.watching {
		p.watching = false
		dismiss()
		p.stream.Quiet(false)
	}
}

// watch reads what there is and what comes, until stop is set or nothing has come for the
// interface's busy_poll; a caller has so long in all. The caller has the role. The error ends the
// connection, or is errUnplaced.
func (c *conn) watch(stop *atomic.Bool) error {
	p := &c.poll
	defer p.end()
	patience := c.peer.i.options.Load().busyPoll
	since := time.Now()
	for looks := 1; ; looks++ {
		n, err := p.stream.TryRead(c.rx.Buffers())
		found := n > 0 || err != nil
		if found {
			if err := c.digest(n, err); err != nil {
				return err
			}
			c.peer.noticePolled(c)
		}
		switch {
		case stop.Load():
			return nil
		case found && !p.byCaller:
			since = time.Now()
		case time.Since(since) >= patience:
			return nil
		case !found && !p.wait(looks):
			return nil
		}
	}
}

// wait has a watcher wait a little after a look in vain; false: he shall watch no longer.
func (p *polling) wait(looks int) bool {
	if !p.watching {
		return p.begin() // and there may be something by now
	}
	return pause(looks)
}

// noticePolled remembers that a message has come by c.
func (p *peer) noticePolled(c *conn) {
	if p.polled.Load() != c {
		p.polled.Store(c)
	}
}

// readPolled is readMessages of a connection that is polled. The reader has the role first,
// and for good at the end: nothing is read then.
func (c *conn) readPolled() error {
	p := &c.poll
	for {
		err := c.takeOver()
		if err == nil {
			err = c.watch(&p.caller)
		}
		if err == nil {
			p.role.give()
			woken := p.stream.AwaitReadable()
			p.role.take()
			if woken != nil && p.left == nil { // what is left comes first
				err = c.digest(0, woken)
			}
		}
		if err != nil {
			c.peer.polled.CompareAndSwap(c, nil)
			return err
		}
	}
}

// takeOver goes on where a caller has left off.
func (c *conn) takeOver() error {
	err := c.poll.left
	c.poll.left = nil
	if errors.Is(err, errUnplaced) {
		return c.work(true)
	}
	return err
}

// rolesTried is how often a caller tries to have the role: a reader that watches leaves it
// at once, and one that works has no need of him.
const rolesTried = 100

// watchFor has a caller who waits for over watch the connection.
func (c *conn) watchFor(over *atomic.Bool) {
	p := &c.poll
	if !p.caller.CompareAndSwap(false, true) {
		return // one is enough
	}
	defer p.caller.Store(false)
	for tried := 0; !p.role.try(); tried++ {
		if tried == rolesTried || over.Load() {
			return
		}
		runtime.Gosched()
	}
	defer c.leave()
	if p.left == nil {
		p.byCaller, p.left = true, errPanic
		p.left = c.watch(over)
	}
}

// leave has a caller give the role back, and the reader see to what is left.
func (c *conn) leave() {
	c.poll.byCaller = false
	if c.poll.left != nil {
		_ = c.stream.SetReadDeadline(time.Unix(1, 0)) // wakes the reader; of a closed stream it is awake
	}
	c.poll.role.give()
}

// Polls implements lnd.Poller.
func (i *Interface) Polls() bool { return i.options.Load().busyPoll > 0 }

// Poll implements lnd.Poller: it watches the connection that the peer's last message came
// by.
func (i *Interface) Poll(nid lnet.NID, over *atomic.Bool) {
	if !i.Polls() {
		return
	}
	i.mu.RLock()
	p := i.peers[lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}]
	i.mu.RUnlock()
	if p == nil {
		return
	}
	if c := p.polled.Load(); c != nil {
		c.watchFor(over)
	}
}

var _ lnd.Poller = (*Interface)(nil)
