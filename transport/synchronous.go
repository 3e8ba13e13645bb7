package transport

import (
	"fmt"
	"syscall"
)

// DeliverSynchronously makes the TM call the callbacks of buffers only in DeliverAll, until the TM is closed.
// The worker still delivers the events of the TM itself (transport 3.14). The following event loops end when
// the TM has stopped and all events have been delivered. The shortest one is also the fastest (Wait):
//
//	for tm.Wait(time.Time{}) == nil {
//		tm.DeliverAll()
//	}
//
// A loop that waits for a Go channel as well, here work:
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
// Channel.Wait allocates in each round. Use [Channel.Tokens] to avoid that.
//
// A loop that serves several TMs uses one Channel for all of them in place of tm.Channel(), and signals it in
// their TMEvent callbacks.
//
// DeliverSynchronously may be called once, in StateInitialized. It returns ENOSYS if the Core does not
// support synchronous delivery.
func (tm *TransferMachine) DeliverSynchronously() error {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	if err := tm.initialized("deliver synchronously"); err != nil {
		return err
	}
	if !tm.domain.limits.Synchronous {
		return fmt.Errorf("transport: deliver synchronously: not supported by %s: %w", tm.domain.core.Name(), syscall.ENOSYS)
	}
	if tm.synchronous {
		return fmt.Errorf("transport: deliver synchronously: already enabled: %w", syscall.EINVAL)
	}
	tm.synchronous = true
	return nil
}

// Pending reports whether there are events for DeliverAll to deliver. It never blocks, and is cheap enough to
// be called in a loop. Without synchronous delivery it returns false.
func (tm *TransferMachine) Pending() bool { return tm.pollsCore.Load() && tm.pending() }

// pending implements Pending. The TM must be started or stopping, with synchronous delivery.
func (tm *TransferMachine) pending() bool {
	return tm.inner.Pending() || tm.coreLost.Load() || tm.moreEvents.Load()
}

// Notify makes the TM signal c once, when there are events to deliver. If there are some already, c is
// signalled during the call. Another call of Notify replaces c; a nil c cancels the notification. Notify
// returns EINVAL if delivery is not synchronous, or if the TM is neither started nor stopping.
func (tm *TransferMachine) Notify(c *Channel) error {
	tm.mu.Lock()
	if err := tm.checkDelivery("notify"); err != nil {
		tm.mu.Unlock()
		return err
	}
	tm.notify = c
	if c != nil && tm.pending() {
		tm.notifyNow()
	}
	// A worker that waits in waitWake does not see events. Wake it, so that it waits in the Core instead, unless a
	// goroutine of the program does.
	tm.wakeNeeded = tm.notify != nil && tm.waiting == waitWake && !tm.programWaits.Load()
	tm.unlock()
	return nil
}

// notifyNow signals the channel that was given to Notify, if any, and forgets it. mu is held.
func (tm *TransferMachine) notifyNow() {
	if tm.notify != nil {
		tm.notify.Signal()
		tm.notify = nil
	}
}

// checkDelivery returns an error if DeliverAll and Notify are not allowed in the current state. mu is held.
func (tm *TransferMachine) checkDelivery(what string) error {
	if !tm.synchronous {
		return fmt.Errorf("transport: %s: delivery is not synchronous: %w", what, syscall.EINVAL)
	}
	if !tm.pollsCore.Load() {
		return fmt.Errorf("transport: %s: the TM is %v: %w", what, tm.state, syscall.EINVAL)
	}
	return nil
}

// DeliverAll calls the callbacks of all pending events in the calling goroutine, including events that arrive
// meanwhile, and returns their number. Only one goroutine delivers at a time; further callers wait until it
// has finished. So a callback must not call DeliverAll. While the TM is stopping, the program must keep
// calling DeliverAll until the TM is stopped. DeliverAll returns EINVAL if delivery is not synchronous, or if
// the TM is neither started nor stopping.
func (tm *TransferMachine) DeliverAll() (int, error) {
	tm.mu.Lock()
	for tm.delivering {
		tm.deliveryEnded.Wait()
	}
	if err := tm.checkDelivery("deliver"); err != nil {
		tm.mu.Unlock()
		return 0, err
	}
	tm.delivering = true
	tm.mu.Unlock()
	events := tm.deliverAll()
	tm.mu.Lock()
	tm.delivering = false
	tm.deliveryEnded.Signal()
	tm.unlock()
	return events, nil
}

// deliverAll delivers events until no event is pending. The caller has set tm.delivering.
func (tm *TransferMachine) deliverAll() (events int) {
	defer tm.stopDelivering()
	for {
		n, more := tm.deliver()
		if !more {
			return events
		}
		events += n
	}
}

// stopDelivering cleans up if a callback has ended DeliverAll by runtime.Goexit or a panic. The next
// DeliverAll continues after the event of this callback.
func (tm *TransferMachine) stopDelivering() {
	if !tm.inCallback {
		return // no callback was interrupted: finished normally, or the engine itself panicked with locks held
	}
	tm.mu.Lock()
	tm.afterCallback()
	tm.moreEvents.Store(true)
	if tm.down != nil {
		tm.coreLost.Store(true)
	}
	tm.delivering = false
	tm.deliveryEnded.Signal()
	tm.notifyNow()
	tm.unlock()
	tm.wakeProgram()
}
