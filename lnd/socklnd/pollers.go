package socklnd

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Busy polling: a goroutine reads a socket repeatedly instead of sleeping. It has the connection's reader's
// role, and keeps the stream quiet (Pollable), so that incoming bytes wake no other goroutine.

// watch polls the connection: it reads and processes what arrives until stop returns true, or until nothing
// has arrived for the interface's busy_poll. If a caller of Poll has the role, busy_poll limits the total
// time instead. watch also ends if polling is not possible now. The goroutine that calls watch has the role.
// An error ends the connection or, from a caller of Poll, is left to the reader.
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

// begin starts polling: it counts the goroutine in pollers and makes the stream quiet. It returns false if
// the process must not poll now. The goroutine has the role.
func (p *polling) begin() bool {
	if p.counted = addPoller(); p.counted {
		p.stream.Quiet(true)
	}
	return p.counted
}

// end ends polling and undoes begin. It does nothing if polling has not begun.
func (p *polling) end() {
	if p.counted {
		p.counted = false
		removePoller()
		p.stream.Quiet(false)
	}
}

// wait pauses after a poll that has found nothing; looks is the number of polls so far. The first call begins
// polling instead of pausing. wait returns false if polling has to stop.
func (p *polling) wait(looks int) bool {
	if !p.counted {
		return p.begin() // no pause: bytes may have arrived before the stream was quiet
	}
	return pause(looks)
}

// pollers counts the goroutines of the process that poll a socket. There are always fewer than processors
// (GOMAXPROCS); otherwise Go's poller would not run, and nothing would be read from other sockets.
var pollers atomic.Int32

// A poll that finds nothing is followed by a yield of the processor to other goroutines or processes; one of
// them may be the one that sends the answer. If the processor comes back only after longTurn, other work
// needs it, and no goroutine of the process polls for the time recess.
const (
	longTurn = 300 * time.Microsecond
	recess   = 100 * time.Millisecond
)

var (
	started    = time.Now()
	recessEnds atomic.Int64 // when the last recess ends, in nanoseconds after started
)

// addPoller adds one to pollers. It returns false, and adds nothing, during a recess or if there are as many
// pollers as permitted.
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

// removePoller undoes addPoller.
func removePoller() { pollers.Add(-1) }

// looksPerTurn is how often a goroutine polls until it yields to other goroutines (Gosched). After the polls
// between, it yields to other processes.
const looksPerTurn = 16

// pause yields the processor after a poll that has found nothing; looks is the number of polls so far. It
// returns false, and begins a recess, if the processor did not come back within longTurn.
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
