package transport

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// rest is where the worker waits for work.
type rest uint8

const (
	restNone  rest = iota // working, or woken
	restCore              // in CoreTM.Wait, which also sees events
	restAside             // on TransferMachine.wake, because the program polls for events
)

// startWorker starts the worker of a TM that is starting at a, or that is stopped without having been
// started. mu is held.
func (tm *TransferMachine) startWorker(a Address) {
	tm.done = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	tm.cancelStart = cancel
	go tm.work(ctx, a, tm.state == StateStarting)
}

// work is the main function of the worker. If a callback calls runtime.Goexit, work panics, because the TM
// could never end. A panic is not recovered. In both cases done stays open, so that no waiting goroutine
// continues as if the TM had ended.
func (tm *TransferMachine) work(ctx context.Context, a Address, starting bool) {
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
	tm.live(ctx, a, starting)
	over = true
	tm.cancelStart()
	close(tm.done)
}

// live runs from the start to the last event.
func (tm *TransferMachine) live(ctx context.Context, a Address, starting bool) {
	var inner CoreTM
	err := error(nil)
	if starting {
		inner, err = tm.startCore(ctx, a)
	}
	tm.mu.Lock()
	tm.inner, tm.room = inner, firstRoom
	switch {
	case inner == nil && tm.state == StateStopping:
		tm.enter(StateStopped, nil)
		return
	case inner == nil:
		tm.enter(StateFailed, err)
		return
	case tm.state == StateStarting:
		tm.self = tm.endPoints.hold(tm, inner.Address())
		tm.matchBits = inner.MatchBits()
		tm.asked.Store(tm.synchronous)
		tm.enter(StateStarted, nil)
	default: // Stop was called during the start
		tm.unlock()
	}
	for tm.step() {
		continue
	}
}

// startCore starts the TM in the Core. If the TM is confined, it first confines the worker's thread.
func (tm *TransferMachine) startCore(ctx context.Context, a Address) (CoreTM, error) {
	if !validPortal(uint64(a.Portal)) {
		return nil, fmt.Errorf("transport: start %v: portal %d, not 1 to %d: %w", a, a.Portal, lnet.Portals-1, syscall.EINVAL)
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

// enter changes the state and reports it to the program (transport 3.5). mu is held on entry and released
// on return.
func (tm *TransferMachine) enter(s State, err error) {
	tm.state, tm.failure = s, err
	e := &tm.told
	*e = TMEvent{Type: TMStateChange, TM: tm, Time: time.Now(), Err: err, Next: s}
	if s == StateStarted {
		e.EndPoint = tm.self
	} else {
		tm.contented()
	}
	tm.telling = true
	tm.callbacks++
	tm.unlock()
	tm.channel.Signal()
	tm.callback(e)
	*e = TMEvent{}
	if s == StateStarted {
		tm.filler.pool.call(tm.refill())
	}
	tm.mu.Lock()
	tm.telling = false
	tm.calledBack()
	tm.unlock()
}

// step does the pending work, or rests until some arrives. It reports whether the TM continues.
func (tm *TransferMachine) step() bool {
	busy := false
	if !tm.synchronous {
		_, busy = tm.deliver()
	}
	tm.mu.Lock()
	tm.expire()
	tm.retry()
	tm.tell()
	if tm.notify != nil && tm.pending() {
		tm.notifyNow()
	}
	switch {
	case tm.over():
		tm.end()
		return false
	case busy, tm.abandoned.Load() && !tm.synchronous: // set since deliver checked
		tm.unlock()
	default:
		tm.takeRest()
	}
	return true
}

// tell reports the pending events of the TM to the program. mu is held, but released during callbacks.
func (tm *TransferMachine) tell() {
	for len(tm.news) > 0 {
		e := &tm.told
		*e = tm.news[0]
		tm.news[0] = TMEvent{}
		tm.news = tm.news[1:]
		tm.callbacks++
		tm.unlock()
		tm.callback(e)
		*e = TMEvent{}
		tm.mu.Lock()
		tm.calledBack()
	}
	tm.news = nil
}

// over reports whether the TM can end. mu is held.
func (tm *TransferMachine) over() bool {
	if tm.state != StateStopping && tm.down == nil {
		return false
	}
	// The worker calls over, so it is not in a callback. DeliverAll may be running callbacks.
	return tm.queued == 0 && tm.calls == 0 && !tm.delivering
}

// end stops the TM in the Core and enters the final state. mu is held on entry and released on return.
func (tm *TransferMachine) end() {
	tm.delivering = true // prevents later calls of DeliverAll
	tm.asked.Store(false)
	tm.mu.Unlock()
	err := tm.inner.Stop()
	tm.mu.Lock()
	tm.delivering = false
	tm.turn.Broadcast()
	tm.notifyNow() // no event will follow
	switch {
	case tm.down != nil:
		tm.enter(StateFailed, tm.down)
	case err != nil:
		tm.enter(StateFailed, fmt.Errorf("transport: stop: %w", err))
	default:
		tm.enter(StateStopped, nil)
	}
}

// takeRest waits for events, for the next deadline, or until unlock wakes the worker. mu is held on entry
// and released on return.
func (tm *TransferMachine) takeRest() {
	until := tm.nextDeadline()
	tm.rest, tm.restsUntil = restCore, until
	if tm.synchronous && tm.notify == nil {
		tm.rest = restAside
	}
	where := tm.rest
	tm.mu.Unlock()
	if where == restCore {
		tm.inner.Wait(until)
	} else {
		tm.restAside(until)
	}
	tm.mu.Lock()
	tm.rest = restNone
	tm.mu.Unlock()
}

// restAside waits for wake, or until a time unless it is zero.
func (tm *TransferMachine) restAside(until time.Time) {
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
