package transport

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// rest is where the worker waits until there is something to do.
type rest uint8

const (
	restNone  rest = iota // it works, or was woken
	restCore              // in the Core: for events, too
	restAside             // beside it: the program looks for events itself
)

// startWorker starts the worker of a TM that is starting at a, or, since it was never
// started, stopping; mu is held.
func (tm *TransferMachine) startWorker(a Address) {
	tm.done = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	tm.cancelStart = cancel
	go tm.work(ctx, a, tm.state == StateStarting)
}

// work is the life of the worker. A callback must return to it: a panic is nobody's to
// recover, and runtime.Goexit would leave a TM that stays as it is for ever, so that is one,
// too. Then done stays open: nobody goes on as if the TM had ended.
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

// live is work from the start to the last event.
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
	default: // it was stopped before it was started
		tm.unlock()
	}
	for tm.step() {
		continue
	}
}

// startCore has the Core start the TM, in a thread of its own if it is confined.
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

// enter changes the state, and tells the program of it (transport 3.5). mu is held, and
// released.
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

// step does what there is to do, rests if there is nothing, and tells whether to go on.
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
	case busy, tm.abandoned.Load() && !tm.synchronous: // since deliver has looked
		tm.unlock()
	default:
		tm.takeRest()
	}
	return true
}

// tell tells the program the news. mu is held, but not during callbacks.
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

// over tells whether the TM has come to its end; mu is held.
func (tm *TransferMachine) over() bool {
	if tm.state != StateStopping && tm.down == nil {
		return false
	}
	// The worker asks, so no callback of its own runs; others run while somebody delivers.
	return tm.queued == 0 && tm.calls == 0 && !tm.delivering
}

// end ends the TM. mu is held, and released.
func (tm *TransferMachine) end() {
	tm.delivering = true // from now on nobody else does
	tm.asked.Store(false)
	tm.mu.Unlock()
	err := tm.inner.Stop()
	tm.mu.Lock()
	tm.delivering = false
	tm.turn.Broadcast()
	tm.notifyNow() // who waits for events waits in vain
	switch {
	case tm.down != nil:
		tm.enter(StateFailed, tm.down)
	case err != nil:
		tm.enter(StateFailed, fmt.Errorf("transport: stop: %w", err))
	default:
		tm.enter(StateStopped, nil)
	}
}

// takeRest waits for events, for deadlines, and until unlock wakes the worker. mu is held, and
// released.
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

// restAside waits for wake, and until a time unless it is zero.
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
