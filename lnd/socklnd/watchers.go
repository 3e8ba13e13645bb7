package socklnd

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Busy polling. Whoever watches a socket has the reader's role, and keeps the stream quiet: what
// comes wakes nobody besides.

// watch reads what there is and what comes, until stop tells so or nothing has come for the
// interface's busy_poll; a caller has so long in all. Who calls it has the role. The error ends the
// connection, or is for the reader.
func (c *conn) watch(stop func() bool) error {
	p := &c.poll
	defer p.end()
	patience := c.patience()
	since := time.Now()
	for looks := 1; ; looks++ {
		found, err := c.look()
		if err != nil {
			return err
		}
		switch {
		case stop():
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

// wait has a watcher wait a little after a look in vain; false: he shall watch no longer.
func (p *polling) wait(looks int) bool {
	if !p.watching {
		return p.begin() // and there may be something by now
	}
	return pause(looks)
}

// watchers counts those of the process who watch a socket. They leave a processor to
// everybody else: while all are busy nobody hears the other sockets.
var watchers atomic.Int32

// Who looks in vain lets other processes have the processor, which may be what he waits for.
// If that takes longTurn there is no processor to spare, and nobody watches for recess.
const (
	longTurn = 300 * time.Microsecond
	recess   = 100 * time.Millisecond
)

var (
	started    = time.Now()
	recessEnds atomic.Int64 // nanoseconds after started
)

// enroll makes the caller a watcher; false: there are enough, or it is recess.
func enroll() bool {
	if int64(time.Since(started)) < recessEnds.Load() {
		return false
	}
	if int(watchers.Add(1)) >= runtime.GOMAXPROCS(0) {
		watchers.Add(-1)
		return false
	}
	return true
}

// dismiss ends what enroll has begun.
func dismiss() { watchers.Add(-1) }

// looksPerTurn is how often a watcher looks before other goroutines may have its processor.
const looksPerTurn = 16

// pause lets others have the processor after a number of looks in vain, and tells whether it
// came back soon.
func pause(looks int) bool {
	began := time.Now()
	if looks%looksPerTurn == 0 {
		runtime.Gosched()
	} else {
		_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // it does not fail
	}
	if time.Since(began) < longTurn {
		return true
	}
	recessEnds.Store(int64(time.Since(started) + recess))
	return false
}
