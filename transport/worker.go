package transport

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// waitState states whether the worker of a TM waits for work, and where.
type waitState uint8

const (
	waitNone waitState = iota // not waiting, or already woken
	waitCore                  // in CoreTM.Wait, which also returns when there are events
	waitWake                  // on TransferMachine.wake; the worker does not see events, because the program polls for them
)

// startWorker starts the worker. In StateStarting the worker starts the TM at a. In StateStopping, of a TM
// that was never started, it only reports StateStopped. mu is held.
func (tm *TransferMachine) startWorker(a Address) {
	tm.done = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	tm.cancelStart = cancel
	go tm.runWorker(ctx, a, tm.state == StateStarting)
}

// runWorker is the main function of the worker goroutine. If a callback calls runtime.Goexit, runWorker
// panics, because the TM could never end. It does not suppress a panic of a callback. In both cases done
// stays open, so that no waiting goroutine continues as if the TM had ended.
func (tm *TransferMachine) runWorker(ctx context.Context, a Address, starting bool) {
	over := false
	defer func() {
		switch cause := recover(); {
		case over:
		case cause != nil:
			panic(cause)
		default:
			panic("transport: a callback has called runtime.Goexit, perhaps by testing's FailNow, in the worker of a TM")
		}
	}()
	tm.run(ctx, a, starting)
	over = true
	tm.cancelStart()
	close(tm.done)
}

// run starts the TM, does its work, and returns when the TM has stopped or failed and the last event has been
// reported.
func (tm *TransferMachine) run(ctx context.Context, a Address, starting bool) {
	var inner CoreTM
	err := error(nil)
	if starting {
		inner, err = tm.startCore(ctx, a)
	}
	tm.mu.Lock()
	tm.inner, tm.room = inner, firstRoom
	switch {
	case inner == nil && tm.state == StateStopping:
		tm.setState(StateStopped, nil)
		return
	case inner == nil:
		tm.setState(StateFailed, err)
		return
	case tm.state == StateStarting:
		tm.self = tm.endPoints.acquire(tm, inner.Address())
		tm.matchBits = inner.MatchBits()
		tm.pollsCore.Store(tm.synchronous)
		tm.setState(StateStarted, nil)
	default: // Stop was called during the start
		tm.unlock()
	}
	for tm.step() {
		continue
	}
}

// startCore starts the TM in the Core. If the program has called Confine, it first binds the worker's thread.
func (tm *TransferMachine) startCore(ctx context.Context, a Address) (CoreTM, error) {
	if !validPortal(uint64(a.Portal)) {
		return nil, fmt.Errorf("transport: start %v: portal %d is not within 1 to %d: %w", a, a.Portal, lnet.Portals-1, syscall.EINVAL)
	}
	if len(tm.processors) > 0 {
		if err := confine(tm.processors); err != nil {
			return nil, fmt.Errorf("transport: start %v: confine to processors %v: %w", a, tm.processors, err)
		}
	}
	inner, err := tm.domain.inner.StartTM(ctx, a, firstRoom)
	if err != nil {
		return nil, fmt.Errorf("transport: start %v: %w", a, withErrno(err))
	}
	return inner, nil
}

// setState changes the state and reports it to the program (transport 3.5). mu is held on entry and released
// on return.
func (tm *TransferMachine) setState(s State, err error) {
	tm.state, tm.failure = s, err
	e := &tm.tmEvent
	*e = TMEvent{Type: TMStateChange, TM: tm, Time: time.Now(), Err: err, Next: s}
	if s == StateStarted {
		e.EndPoint = tm.self
	} else {
		tm.resetDeficit()
	}
	tm.inStateCallback = true
	tm.callbacks++
	tm.unlock()
	tm.channel.Signal()
	tm.callback(e)
	*e = TMEvent{}
	if s == StateStarted {
		tm.provisioning.pool.call(tm.refill())
	}
	tm.mu.Lock()
	tm.inStateCallback = false
	tm.endCallback()
	tm.unlock()
}

// step does the pending work of the worker, or waits for work if nothing is pending. It returns false when
// the TM has ended.
func (tm *TransferMachine) step() bool {
	busy := false
	if !tm.synchronous {
		_, busy = tm.deliver()
	}
	tm.mu.Lock()
	tm.cancelExpired()
	tm.refillAfterPause()
	tm.reportTMEvents()
	if tm.notify != nil && tm.pending() {
		tm.notifyNow()
	}
	switch {
	case tm.canEnd():
		tm.finishStop()
		return false
	case busy, tm.coreLost.Load() && !tm.synchronous: // coreLost may have been set after deliver checked it
		tm.unlock()
	default:
		tm.waitForWork()
	}
	return true
}

// reportTMEvents calls the TM's callback for each pending TMEvent. mu is held, but released during callbacks.
func (tm *TransferMachine) reportTMEvents() {
	for len(tm.tmEvents) > 0 {
		e := &tm.tmEvent
		*e = tm.tmEvents[0]
		tm.tmEvents[0] = TMEvent{}
		tm.tmEvents = tm.tmEvents[1:]
		tm.callbacks++
		tm.unlock()
		tm.callback(e)
		*e = TMEvent{}
		tm.mu.Lock()
		tm.endCallback()
	}
	tm.tmEvents = nil
}

// canEnd reports whether the TM is stopping or its Core is gone, and nothing is in progress any more. mu is
// held.
func (tm *TransferMachine) canEnd() bool {
	if tm.state != StateStopping && tm.down == nil {
		return false
	}
	// The worker calls canEnd, so no callback runs in the worker. One may run in DeliverAll.
	return tm.queued == 0 && tm.batchesInUse == 0 && !tm.delivering
}

// finishStop stops the TM in the Core and sets the final state, StateStopped or StateFailed. mu is held on
// entry and released on return.
func (tm *TransferMachine) finishStop() {
	tm.delivering = true // makes calls of DeliverAll wait until the state has changed
	tm.pollsCore.Store(false)
	tm.evictProgram()
	tm.mu.Unlock()
	err := tm.inner.Stop()
	tm.mu.Lock()
	tm.delivering = false
	tm.deliveryEnded.Broadcast()
	tm.notifyNow() // a program that waits for an event would wait forever
	switch {
	case tm.down != nil:
		tm.setState(StateFailed, tm.down)
	case err != nil:
		tm.setState(StateFailed, fmt.Errorf("transport: stop: %w", err))
	default:
		tm.setState(StateStopped, nil)
	}
}

// waitForWork waits for events, for the next deadline, or until unlock wakes the worker. mu is held on entry
// and released on return.
func (tm *TransferMachine) waitForWork() {
	until := tm.nextDeadline()
	tm.waiting, tm.waitsUntil = waitCore, until
	if tm.synchronous && (tm.notify == nil || tm.programWaits.Load()) {
		tm.waiting = waitWake
	}
	where := tm.waiting
	tm.workerInCore = where == waitCore
	tm.mu.Unlock()
	if where == waitCore {
		// Callbacks may have woken goroutines, which run first: a Core may wait without giving up the processor.
		runtime.Gosched()
		tm.inner.Wait(until)
	} else {
		tm.waitForWake(until)
	}
	tm.mu.Lock()
	tm.waiting = waitNone
	if tm.workerInCore {
		tm.workerInCore = false
		tm.leftCore.Broadcast()
	}
	tm.mu.Unlock()
}

// waitForWake waits until unlock wakes the worker, or until the given time, where zero means no time limit.
func (tm *TransferMachine) waitForWake(until time.Time) {
	if until.IsZero() {
		<-tm.wake
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-tm.wake:
	case <-timer.C:
	}
}
