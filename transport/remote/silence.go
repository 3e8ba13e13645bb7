package remote

import (
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
)

// maxSilence is how long lnetd may send nothing while a cancelled op has not ended. After that the op ends
// for the program, by this process's clock. So deadlines, Cancel and Shutdown do not depend on an lnetd that
// is stopped or hangs (transport 9.10). If lnetd answers, the op continues, because a transfer may be in
// progress. lnetd may still write into the buffer of an op that has ended in this way. So the buffer stays
// busy until lnetd has ended the op as well, or the TM is stopped.
const maxSilence = time.Second

// errSilent is the error of a cancelled op that has ended because lnetd does not answer.
var errSilent = fmt.Errorf("remote: the operation was canceled, because lnetd does not answer: %w", syscall.ECANCELED)

// cancels holds the cancelled ops of a TM that lnetd has not ended yet. The TM's mu guards it.
type cancels struct {
	buffers []*buffer
	// abandoned is the number of buffers with abandoned set: their ops have ended for the program.
	// abandonRest means that the remaining ops must end for the program as well.
	abandoned   int
	abandonRest bool

	// timer calls checkLiveness, which alternately sends a NOP and checks for an answer. running means that
	// the timer is set or checkLiveness is running. nopSent means that the next call checks for an answer.
	// lastReceived is the value of connection.recordsReceived before the NOP.
	timer        *time.Timer
	running      bool
	nopSent      bool
	lastReceived uint64
}

// add adds a buffer whose op was cancelled.
func (c *cancels) add(b *buffer) {
	c.buffers = append(c.buffers, b)
	b.cancelled = len(c.buffers)
}

// remove removes a buffer whose op lnetd has ended.
func (c *cancels) remove(b *buffer) {
	if b.cancelled == 0 {
		return
	}
	last := len(c.buffers) - 1
	moved := c.buffers[last]
	c.buffers[b.cancelled-1], moved.cancelled = moved, b.cancelled
	c.buffers[last] = nil
	c.buffers = c.buffers[:last]
	if b.abandoned {
		c.abandoned--
	}
	b.cancelled, b.abandoned = 0, false
}

// waiting reports whether the program still waits for the end of a cancelled op.
func (c *cancels) waiting() bool { return len(c.buffers) > c.abandoned }

// finish ends for the program the ops that lnetd has not ended, as far as dst has room for their completions.
// It returns the number of completions.
func (c *cancels) finish(dst []transport.Completion) (n int) {
	for _, b := range c.buffers {
		switch {
		case b.abandoned:
		case n == len(dst):
			return n
		default:
			dst[n] = transport.Completion{Token: b.token, Sequence: b.sequence, Final: true, Err: errSilent, Time: time.Now()}
			b.abandoned = true
			c.abandoned++
			n++
		}
	}
	c.abandonRest = false
	return n
}

// livenessDelays returns how long checkLiveness waits before it sends a NOP, and how long lnetd has to
// answer.
func (t *tm) livenessDelays() (before, answer time.Duration) {
	answer = min(maxSilence, t.domain.connection.patience)
	return answer / 2, answer
}

// watchCancels starts the timer that calls checkLiveness, unless it is running. mu is held.
func (t *tm) watchCancels() {
	if t.cancels.running {
		return
	}
	t.cancels.running, t.cancels.nopSent = true, false
	t.domain.timers.Add(1)
	before, _ := t.livenessDelays()
	if t.cancels.timer == nil {
		t.cancels.timer = time.AfterFunc(before, t.checkLiveness)
	} else {
		t.cancels.timer.Reset(before)
	}
}

// unwatchCancels stops the timer. mu is held.
func (t *tm) unwatchCancels() {
	if t.cancels.running && t.cancels.timer.Stop() {
		t.cancels.running = false
		t.domain.timers.Done()
	}
}

// checkLiveness sends a NOP, and on its next call checks whether lnetd has sent anything since. If lnetd has
// not, the cancelled ops end for the program. It runs in the timer's goroutine.
func (t *tm) checkLiveness() {
	connection := t.domain.connection
	t.mu.Lock()
	c := &t.cancels
	if !c.waiting() || t.stopped || t.ended() {
		c.running = false
		t.mu.Unlock()
		t.domain.timers.Done()
		return
	}
	asked, heard := c.nopSent, c.lastReceived
	t.mu.Unlock()
	silent := asked && connection.recordsReceived.Load() == heard && !connection.readable()
	if !asked {
		heard = connection.recordsReceived.Load()
		connection.ensureNop()
	}
	t.mu.Lock()
	c.nopSent, c.lastReceived = !asked, heard
	if silent {
		c.abandonRest = true
		t.hasExtra.Store(!t.drained.Load())
	}
	before, answer := t.livenessDelays()
	if c.nopSent {
		before = answer
	}
	c.timer.Reset(before)
	t.mu.Unlock()
	if silent {
		t.Wake()
	}
}
