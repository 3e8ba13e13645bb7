package transport

import (
	"fmt"
	"syscall"
	"time"
)

// With synchronous delivery a goroutine of the program can wait for events in the Core itself (Wait). Otherwise the
// worker waits there, if the program has called Notify, and has to wake the program's goroutine for each event. Only
// one of the two waits in the Core at a time.

// Wait blocks until there are events for DeliverAll to deliver, until Wake is called, until the TM has ended, or until
// the given time, where zero means no time limit. It may return early. The calling goroutine waits in the Core itself,
// which is faster than Notify, where the worker has to wake it.
//
// Wait returns EBUSY if another goroutine is in Wait, and EINVAL if delivery is not synchronous, or if the TM is neither
// started nor stopping. A channel that was given to Notify is signalled as usual. Wait allocates nothing.
func (tm *TransferMachine) Wait(until time.Time) error {
	tm.mu.Lock()
	if err := tm.checkDelivery("wait"); err != nil {
		tm.mu.Unlock()
		return err
	}
	if tm.programWaits.Load() {
		tm.mu.Unlock()
		return fmt.Errorf("transport: wait: another goroutine waits: %w", syscall.EBUSY)
	}
	tm.programWaits.Store(true)
	if tm.workerInCore {
		tm.wakeNeeded = true
		tm.unlock()
		tm.mu.Lock()
		for tm.workerInCore { // it does not enter the Core again, because programWaits is set
			tm.leftCore.Wait()
		}
	}
	tm.mu.Unlock()
	// Whatever sets what is checked here then calls Wake of the Core, because programWaits is set.
	if !tm.interrupted.Swap(false) && !tm.pending() {
		tm.inner.Wait(until)
		tm.interrupted.Store(false)
	}
	tm.mu.Lock()
	tm.programWaits.Store(false)
	tm.leftCore.Broadcast()
	if tm.notify != nil {
		tm.wakeNeeded = true // the worker signals, or waits for events in place of this goroutine
	}
	tm.unlock()
	return nil
}

// Wake ends the call of Wait that is in progress. If none is in progress, the next one returns immediately. Wake does not
// block, and callbacks may call it.
func (tm *TransferMachine) Wake() {
	tm.interrupted.Store(true)
	tm.wakeProgram()
}

// wakeProgram ends the call of Wait that is in progress, if there is one. The caller has changed what Wait checks before
// it waits in the Core.
func (tm *TransferMachine) wakeProgram() {
	if tm.programWaits.Load() {
		tm.inner.Wake()
	}
}

// evictProgram waits until no goroutine is in Wait. mu is held, but released meanwhile. The state does not permit other
// calls of Wait.
func (tm *TransferMachine) evictProgram() {
	for tm.programWaits.Load() {
		tm.mu.Unlock()
		tm.Wake()
		tm.mu.Lock()
		if tm.programWaits.Load() {
			tm.leftCore.Wait()
		}
	}
}
