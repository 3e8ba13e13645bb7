package socklnd

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Busy polling. The goroutine that polls a socket has the reader's role and keeps the stream quiet, so
// that incoming bytes wake no other goroutine.

// watch reads what arrives until stop returns true, or until nothing has come for the interface's
// busy_poll. If a caller has the role, busy_poll limits the total time. The caller of watch has the
// role. An error ends the connection or is left to the reader.
func (c *conn) watch(stop func() bool) error {
	p := &c.poll
	defer p.end()
	patience := c.busyPoll()
	since := time.Now()
	for looks := 1; ; looks++ {
		found, err := c.pollOnce()
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

// begin starts polling. It returns false if the process must not poll now. The caller has the role.
func (p *polling) begin() bool {
	if p.counted = addPoller(); p.counted {
		p.stream.Quiet(true)
	}
	return p.counted
}

// end undoes begin.
func (p *polling) end() {
	if p.counted {
		p.counted = false
		removePoller()
		p.stream.Quiet(false)
	}
}

// wait pauses between two polls of which the first found nothing. It returns false if polling has to
// stop.
func (p *polling) wait(looks int) bool {
	if !p.counted {
		return p.begin() // something may have arrived meanwhile
	}
	return pause(looks)
}

// pollers counts the goroutines of the process that poll a socket. They leave at least one processor
// to other goroutines; otherwise Go's poller would not run and the other sockets would get no service.
var pollers atomic.Int32

// A poll that finds nothing yields the processor to other processes, which may include the one that
// sends the answer. If the yield takes longTurn, no processor is free, and polling stops for the time
// recess.
const (
	longTurn = 300 * time.Microsecond
	recess   = 100 * time.Millisecond
)

var (
	started    = time.Now()
	recessEnds atomic.Int64 // nanoseconds after started
)

// addPoller counts the caller in pollers. It returns false if there are enough pollers or during a
// recess.
func addPoller() bool {
	if int64(time.Since(started)) < recessEnds.Load() {
		return false
	}
	if int(pollers.Add(1)) >= runtime.GOMAXPROCS(0) {
		pollers.Add(-1)
		return false
	}
	return true
}

// removePoller undoes enroll.
func removePoller() { pollers.Add(-1) }

// looksPerTurn is how often a goroutine polls before it yields its processor to other goroutines.
const looksPerTurn = 16

// pause yields the processor after a number of unsuccessful polls. It reports whether it got the
// processor back soon.
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
