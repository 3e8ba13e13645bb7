package simulation

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
)

// loan is the use of a buffer by a transfer machine, from Add to the final event.
type loan struct {
	tracked  *trackedBuffer
	machine  *machine
	queue    transport.QueueType
	deadline time.Time
	endBy    time.Duration // the final event must come before; 0: no limit
	began    time.Duration
	message  *message   // being sent
	payload  *payload   // being sent, or offered to be fetched
	to       lnet.NID   // destination; zero if not used
	key      bufferKey  // for active bulk: the key of the peer's passive buffer
	wanted   int        // for an active receive: the length in the descriptor
	done     func(bool) // called after the final event; the argument reports success

	// Guarded by world.mu.
	taken     []delivery // received messages
	used      int        // bytes of these messages
	cancelled bool       // the program called Cancel
	refused   bool       // Add returned an error
	changes   int        // the value of life.changes when it began
	reading   bool       // addPassive still reads the descriptor; it returns the buffer itself if the loan ends now
	over, ok  bool       // over: the final event has come; ok: without an error
}

// delivery is a message in a receive buffer, and its place there.
type delivery struct {
	span
	message *message
}

func (l *loan) String() string {
	return fmt.Sprintf("%v's buffer on %v since %v", l.machine, l.queue, l.began)
}

// lend adds the loan's buffer to the machine with add, and returns the error of add. It sets the
// buffer's callbacks, queue and deadline; the caller has set its other fields.
func (m *machine) lend(l *loan, add func(*transport.Buffer) error) error {
	w, b := m.world(), l.tracked.buffer
	l.machine = m
	b.Queue, b.Callbacks, b.Deadline = l.queue, &m.callbacks, l.deadline
	w.mu.Lock()
	l.begin()
	w.mu.Unlock()
	err := add(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		return nil
	}
	if l.over {
		w.violate("%v: refused, but there was an event: %v", l, err)
	}
	l.refused, l.tracked.loan = true, nil
	m.loans--
	m.tallies[l.queue].Adds--
	if !m.mayRefuse(err) {
		w.violate("%v: refused: %v", l, err)
	}
	return err
}

// begin records that the machine uses the buffer, and determines when the final event must have come.
// w.mu is held.
func (l *loan) begin() {
	m, w := l.machine, l.machine.world()
	l.began = w.since()
	l.changes = m.layer.life.changes
	l.cancelled = l.tracked.cancelling > 0
	switch l.queue {
	case transport.MsgSend, transport.ActiveBulkRecv, transport.ActiveBulkSend:
		l.endBy = l.began + w.operationWithin()
	default:
		if !l.deadline.IsZero() {
			l.endBy = l.began + time.Until(l.deadline) + w.operationWithin()
		}
	}
	l.tracked.loan = l
	m.loans++
	m.tallies[l.queue].Adds++
}

// mayRefuse reports whether Add may return err for a valid buffer: the machine is stopping, or its node
// is closing. w.mu is held.
func (m *machine) mayRefuse(err error) bool {
	switch {
	case errors.Is(err, syscall.EINVAL):
		return m.stopping || m.layer.life.ending
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ESHUTDOWN):
		return m.layer.life.ending
	}
	return false
}

// cancel cancels the buffer of a loan that has not ended. If the loan ends and the buffer is lent again
// meanwhile, the next loan may be cancelled instead.
func (l *loan) cancel() {
	w, c := l.machine.world(), l.tracked
	w.mu.Lock()
	if c.loan != l {
		w.mu.Unlock()
		return
	}
	l.cancelled = true
	c.cancelling++
	if l.endBy == 0 {
		l.endBy = w.since() + w.operationWithin()
	}
	w.mu.Unlock()
	did := l.machine.tm.Cancel(c.buffer)
	w.mu.Lock()
	defer w.mu.Unlock()
	c.cancelling--
	if did {
		l.machine.tallies[l.queue].Cancels++
	}
	if next := c.loan; next != nil && next != l { // Cancel may have affected the next loan
		next.cancelled = true
	}
}

// bufferEvent is the callback for the events of the machine's buffers.
func (m *machine) bufferEvent(e *transport.BufferEvent) {
	w := m.world()
	if m.inCallback.Swap(true) {
		w.violate("%v: two callbacks at once", m)
	}
	defer m.inCallback.Store(false)
	w.mu.Lock()
	then := m.processEvent(e)
	w.mu.Unlock()
	for _, f := range then {
		f()
	}
}

// processEvent checks and counts an event. The caller must call the returned functions after it has
// released w.mu, which it holds now.
func (m *machine) processEvent(e *transport.BufferEvent) (then []func()) {
	w := m.world()
	c := m.layer.trackedOf(e.Buffer)
	l := c.loan
	if l == nil && e.Queue == transport.MsgRecv && c.region == nil { // the machine itself added a buffer of its pool
		l = &loan{tracked: c, machine: m, queue: e.Queue}
		c.loan = l
	}
	if l == nil || l.machine != m || l.queue != e.Queue || e.TM != m.tm {
		w.violate("%v: event of a buffer that is not lent: %+v", m, *e)
		return nil
	}
	w.addf("%v: %d bytes at %d, final %t, err %v", l, e.Length, e.Offset, e.Final, e.Err)
	if err := l.check(e); err != nil {
		w.violate("%v: %v; event %+v", l, err, *e)
	}
	m.tally(l, e)
	if e.Err == nil {
		then = l.handleSuccess(e)
	}
	if e.Final {
		then = append(then, l.end(e)...)
	}
	return then
}

// check returns an error if the event must not come now or contradicts itself. w.mu is held.
func (l *loan) check(e *transport.BufferEvent) error {
	m, w := l.machine, l.machine.world()
	queued := e.Buffer.Flags()&transport.FlagQueued != 0
	switch {
	case m.over:
		return errors.New("comes after the end of the machine")
	case e.Final == queued:
		return fmt.Errorf("final and the buffer's queued flag are both %t", queued)
	case e.Final && !e.Buffer.Deadline.IsZero():
		return errors.New("is final, but the buffer still has its deadline")
	case !e.Final && (l.queue != transport.MsgRecv || e.Err != nil):
		return errors.New("is not final")
	case e.Time.After(time.Now()) || e.Time.Sub(w.start) < l.began:
		return fmt.Errorf("has the time %v, which is before the loan or in the future", e.Time.Sub(w.start))
	case e.Final && l.endBy > 0 && w.since() > l.endBy:
		return fmt.Errorf("is %v late", w.since()-l.endBy)
	case e.Err != nil && (e.Length != 0 || e.Offset != 0 || e.EndPoint != nil):
		return errors.New("has an error, but also a length, an offset or an end point")
	}
	return l.mayFail(e.Err)
}

// mayFail returns an error if nothing explains that the loan ended with err. It also counts the kind of
// failure. w.mu is held.
func (l *loan) mayFail(err error) error {
	m, w := l.machine, l.machine.world()
	network, isNetwork := errors.AsType[*inproc.Error](err)
	late := !l.deadline.IsZero() && !time.Now().Before(l.deadline)
	switch {
	case err == nil:
	case errors.Is(err, syscall.ECANCELED):
		if !l.cancelled && !m.aborted && !m.layer.life.ending {
			return errors.New("was canceled, but neither the program nor the end of the machine or node did that")
		}
		w.result.Actions[ActionCancelled]++
	case isNetwork && network.Error() == node.ErrTimedOut.Error() && l.queue != transport.ActiveBulkRecv: // an active receive wraps the error of its GET, others must not have this error
		return errors.New("has the error of an MD that was unlinked, but must have ECANCELED")
	case isNetwork:
		switch {
		case m.layer.life.ending:
		case m.niWasAbsent(l.changes) && (network.Errno == syscall.EINVAL || network.Errno == syscall.ESHUTDOWN):
			// The NI was removed, so its NID was no longer a valid source, or the driver was closing.
		case l.queue == transport.ActiveBulkRecv && w.verbs.rails != nil && errors.Is(err, syscall.ENODATA):
			// The passive buffer was returned, which RDMA reports (o2iblnd 10.4).
		case w.faultless() && !l.toOtherNet():
			return errors.New("has a network error, but the scenario has no faults")
		case network.Errno != syscall.EIO && network.Errno != syscall.EHOSTUNREACH && network.Errno != syscall.ETIMEDOUT:
			return errors.New("has a network error with an errno that the network does not return")
		}
		w.result.Actions[ActionNetworkError]++
	case errors.Is(err, syscall.ETIMEDOUT) && late:
		if w.faultless() && time.Since(l.deadline) > immediateWithin {
			return fmt.Errorf("timed out %v late", time.Since(l.deadline))
		}
		w.result.Actions[ActionTimedOut]++
	case errors.Is(err, syscall.ETIMEDOUT) && l.queue == transport.ActiveBulkRecv && w.since() >= l.began+w.transaction:
		w.result.Actions[ActionNetworkError]++ // the node has given up
	default:
		return errors.New("has an error that nothing explains")
	}
	return nil
}

// niWasAbsent reports whether the machine's NI is absent or may have been absent since life.changes had
// the value since. w.mu is held.
func (m *machine) niWasAbsent(since int) bool {
	l := m.layer.life
	return m.rail != loopback && (!l.present[m.rail] || l.changes != since)
}

// toOtherNet reports whether the loan's message goes to another net and the scenario has no routers, so
// that the target may be unreachable. w.mu is held.
func (l *loan) toOtherNet() bool {
	return l.machine.world().routers == 0 && l.to.Net() != l.machine.address.NID.Net()
}

// tally adds an event to the statistics that the checker keeps for comparison with the machine's. w.mu
// is held.
func (m *machine) tally(l *loan, e *transport.BufferEvent) {
	t := &m.tallies[l.queue]
	if e.Final {
		m.finals[l.queue]++
	}
	if e.Err != nil {
		t.Failures++
		return
	}
	n := uint64(e.Length)
	switch l.queue {
	case transport.MsgSend, transport.PassiveBulkSend, transport.ActiveBulkSend:
		n = uint64(l.tracked.buffer.Length)
	}
	t.Successes++
	t.Bytes += n
	t.MaxBytes = max(t.MaxBytes, n)
}

// end ends the loan after its final event e. The caller must call the returned functions after it has
// released w.mu, which it holds now.
func (l *loan) end(e *transport.BufferEvent) (then []func()) {
	m, c, w := l.machine, l.tracked, l.machine.world()
	l.over, l.ok, c.loan = true, e.Err == nil, nil
	if c.region != nil {
		m.loans--
		if l.queue == transport.MsgRecv || l.queue == transport.PassiveBulkRecv || l.queue == transport.ActiveBulkRecv {
			c.sum = c.region.sum()
		}
	}
	if l.queue == transport.MsgRecv {
		l.checkUnchanged()
		return []func(){l.addAgain(e)}
	}
	if b := c.buffer; l.message != nil && !holds(b, 0, l.message.content) || l.payload != nil && c.region.sum() != c.sum {
		w.violate("%v: what was sent has changed", l)
	}
	reading := l.reading
	return []func(){func() {
		if !reading {
			m.layer.putFree(c)
		}
		if l.done != nil {
			l.done(l.ok)
		}
	}}
}

// checkStats compares the machine's statistics with the checker's. It is called after the machine has
// ended and all buffers were returned.
func (m *machine) checkStats() {
	w := m.world()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !m.over || m.loans != 0 || m.endPoints != 0 {
		w.violate("%v: over %t, %d buffers are lent, %d end points are held", m, m.over, m.loans, m.endPoints)
	}
	for q := range transport.QueueType(transport.QueueTypes) {
		got, want := m.stats[q], m.tallies[q]
		if m.pooled && q == transport.MsgRecv {
			want.Adds = m.finals[q]
		}
		bad := got.Adds != want.Adds || got.Adds != m.finals[q] || got.Successes != want.Successes ||
			got.Bytes != want.Bytes || got.MaxBytes != want.MaxBytes || got.Cancels < want.Cancels ||
			!m.aborted && got.Cancels != want.Cancels
		// Aborted messages and missing buffers also count as failures of receive queues.
		if bad || got.Failures < want.Failures || q != transport.MsgRecv && got.Failures != want.Failures {
			w.violate("%v: %v says %+v, not %+v with %d final events", m, q, got, want, m.finals[q])
		}
	}
}
