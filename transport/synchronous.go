package transport

import (
	"fmt"
	"syscall"
)

// DeliverSynchronously has the TM call callbacks of buffers in DeliverAll alone, for as
// long as it lives; its own events still come in the worker (transport 3.14). A program's
// event loop, which ends when somebody has stopped the TM and all was delivered, is:
//
//	for {
//		wake := tm.Channel().Wait()
//		if tm.State() > StateStopping {
//			break
//		}
//		if !tm.Pending() {
//			tm.Notify(tm.Channel())
//			select {
//			case <-wake:
//			case <-work:
//			}
//		}
//		tm.DeliverAll()
//	}
//
// Wait allocates each time; a loop that must not takes tokens ([Channel.Tokens]).
//
// Where there are several TMs, one Channel of the loop's own takes the place of theirs,
// and their TMEvents signal it.
//
// StateInitialized only, once. ENOSYS: the Core has no such thing.
func (tm *TransferMachine) DeliverSynchronously() error {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	if err := tm.initialized("deliver synchronously"); err != nil {
		return err
	}
	if !tm.domain.limits.Synchronous {
		return fmt.Errorf("transport: deliver synchronously: not with %s: %w", tm.domain.core.Name(), syscall.ENOSYS)
	}
	if tm.synchronous {
		return fmt.Errorf("transport: deliver synchronously: it does: %w", syscall.EINVAL)
	}
	tm.synchronous = true
	return nil
}

// Pending tells whether there are events to deliver. It never blocks, and is cheap enough
// to be called in a loop. It is false without synchronous delivery.
func (tm *TransferMachine) Pending() bool { return tm.asked.Load() && tm.pending() }

// pending is Pending of a TM that is started and delivers synchronously.
func (tm *TransferMachine) pending() bool {
	return tm.inner.Pending() || tm.abandoned.Load() || tm.left.Load()
}

// Notify has c signalled once, when there are events to deliver, at once if there are.
// The next Notify takes its place; with nil, none does. EINVAL without synchronous
// delivery, or unless the TM is started or stopping.
func (tm *TransferMachine) Notify(c *Channel) error {
	tm.mu.Lock()
	if err := tm.delivers("notify"); err != nil {
		tm.mu.Unlock()
		return err
	}
	tm.notify = c
	if c != nil && tm.pending() {
		tm.notifyNow()
	}
	// The worker may rest where it does not see events.
	tm.rousing = tm.notify != nil && tm.rest == restAside
	tm.unlock()
	return nil
}

// notifyNow signals who is to be notified, if anybody; mu is held.
func (tm *TransferMachine) notifyNow() {
	if tm.notify != nil {
		tm.notify.Signal()
		tm.notify = nil
	}
}

// delivers tells whether DeliverAll and Notify make sense now; mu is held.
func (tm *TransferMachine) delivers(what string) error {
	if !tm.synchronous {
		return fmt.Errorf("transport: %s: delivery is not synchronous: %w", what, syscall.EINVAL)
	}
	if !tm.asked.Load() {
		return fmt.Errorf("transport: %s: the TM is %v: %w", what, tm.state, syscall.EINVAL)
	}
	return nil
}

// DeliverAll calls the callbacks of all events that are pending, those that come meanwhile
// included, in this goroutine, and returns their number. One goroutine at a time delivers,
// the others wait; so no callback may call it. While the TM is stopping it has to be called
// until that is stopped. EINVAL without synchronous delivery, or unless the TM is started or
// stopping.
func (tm *TransferMachine) DeliverAll() (int, error) {
	tm.mu.Lock()
	for tm.delivering {
		tm.turn.Wait()
	}
	if err := tm.delivers("deliver"); err != nil {
		tm.mu.Unlock()
		return 0, err
	}
	tm.delivering = true
	tm.mu.Unlock()
	events := tm.deliverAll()
	tm.mu.Lock()
	tm.delivering = false
	tm.turn.Signal()
	tm.unlock()
	return events, nil
}

// deliverAll is DeliverAll of who has his turn.
func (tm *TransferMachine) deliverAll() (events int) {
	defer tm.leaveOff()
	for {
		n, more := tm.deliver()
		if !more {
			return events
		}
		events += n
	}
}

// leaveOff gives the turn back when a callback does not return: it has called
// runtime.Goexit, or panics. Who delivers next goes on behind its event.
func (tm *TransferMachine) leaveOff() {
	if !tm.calling {
		return // all is done, or the engine itself panics, and locks may be held
	}
	tm.mu.Lock()
	tm.returned()
	tm.left.Store(true)
	if tm.down != nil {
		tm.abandoned.Store(true)
	}
	tm.delivering = false
	tm.turn.Signal()
	tm.notifyNow()
	tm.unlock()
}
