package socklnd

import (
	"runtime"
	"time"

	"github.com/lnetd/lnetd/memory/polling"
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

// begin starts polling: it acquires a place (polling.Acquire) and makes the stream quiet. It returns false if the
// process must not poll now. The goroutine has the role.
func (p *sharing) begin() bool {
	if p.counted = !polling.Resting(time.Now()) && polling.Acquire(); p.counted {
		p.stream.Quiet(true)
	}
	return p.counted
}

// end ends polling and undoes begin. It does nothing if polling has not begun.
func (p *sharing) end() {
	if p.counted {
		p.counted = false
		polling.Release()
		p.stream.Quiet(false)
	}
}

// looksPerTurn is how often a goroutine polls until it lets other goroutines run, which it may have woken.
const looksPerTurn = 16

// wait pauses after a poll that has found nothing; looks is the number of polls so far. The first call begins
// polling instead of pausing. wait returns false if polling has to stop.
func (p *sharing) wait(looks int) bool {
	if !p.counted {
		return p.begin() // no pause: bytes may have arrived before the stream was quiet
	}
	if looks%looksPerTurn == 0 {
		runtime.Gosched()
		return true
	}
	return polling.Yield()
}
