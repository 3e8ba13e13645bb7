package transport

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// Start begins to start it, at nid:pid:portal:tmid, or with * for the highest number that
// is free (transport 6.3): a TMEvent tells StateStarted or StateFailed, perhaps before
// Start returns. An error means StateFailed with no event, if it was StateInitialized;
// EINVAL: it was not, or the address is malformed.
func (tm *TransferMachine) Start(address string) error {
	a, malformed := ParseAddress(address)
	tm.mu.Lock()
	if err := tm.initialized("start"); err != nil {
		tm.mu.Unlock()
		return err
	}
	tm.state = StateStarting
	if malformed != nil {
		tm.state, tm.failure = StateFailed, malformed
	} else {
		tm.startWorker(a)
	}
	tm.mu.Unlock()
	tm.channel.Signal()
	return malformed
}

// Stop begins to stop it: nothing can be added any more, and a TMEvent tells StateStopped
// when the queues are empty and no callback runs. With abort it cancels what is queued;
// else what is queued ends by itself, or by Cancel, or never. EINVAL: it is stopping
// already, or over.
func (tm *TransferMachine) Stop(abort bool) error {
	tm.mu.Lock()
	was := tm.state
	if was < StateInitialized || was > StateStarted || tm.closing {
		tm.mu.Unlock()
		return fmt.Errorf("transport: stop: the TM is %v: %w", was, syscall.EINVAL)
	}
	tm.state = StateStopping
	tm.contented()
	switch was {
	case StateInitialized:
		tm.startWorker(Address{})
	case StateStarting:
		tm.cancelStart()
	}
	if abort {
		tm.abort()
	} else {
		tm.unlock()
	}
	tm.channel.Signal()
	return nil
}

// abort cancels what is queued. mu is held, and released.
func (tm *TransferMachine) abort() {
	bt := tm.takeBatch()
	for q := range tm.queues {
		for b := tm.queues[q].first; b != nil; b = b.state.next {
			tm.cancel(bt, b)
		}
	}
	tm.finish(bt)
}

// Close ends a TM that is stopped, has failed, or was never started, and returns when its
// worker has ended. EBUSY: somebody holds references to end points of it, and nothing has
// happened; EINVAL: it runs. No callback of it may call it.
func (tm *TransferMachine) Close() error {
	tm.mu.Lock()
	if s := tm.state; tm.closing || s != StateStopped && s != StateFailed && s != StateInitialized {
		tm.mu.Unlock()
		return fmt.Errorf("transport: close: the TM is %v: %w", s, syscall.EINVAL)
	}
	held := tm.endPoints.held
	if tm.self != nil {
		held--
	}
	if held > 0 {
		tm.mu.Unlock()
		return fmt.Errorf("transport: close: %d references to end points: %w", held, syscall.EBUSY)
	}
	tm.closing = true
	done := tm.done
	tm.mu.Unlock()
	if done != nil {
		<-done
	}
	tm.leave()
	d := tm.domain
	d.mu.Lock()
	delete(d.tms, tm)
	d.mu.Unlock()
	tm.mu.Lock()
	tm.state = StateUndefined
	tm.mu.Unlock()
	tm.channel.Signal()
	return nil
}

// Shutdown stops the TM with abort, waits until it is stopped, and closes it. With
// synchronous delivery somebody else has to deliver. The error is ctx's, or Close's.
func (tm *TransferMachine) Shutdown(ctx context.Context) error {
	if tm.State() == StateInitialized {
		return tm.Close()
	}
	if err := tm.Stop(true); err != nil {
		tm.mu.Lock()
		if tm.state == StateStopping {
			tm.abort() // somebody has stopped it, perhaps without
		} else {
			tm.mu.Unlock()
		}
	}
	err := tm.Await(ctx, StateStopped)
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return err
	}
	return tm.Close()
}

// Await waits until the state is s and the callback of its event has returned; so no
// callback may call it. It returns ctx's error, or, if the TM can no longer reach s, why it
// failed, or EINVAL.
func (tm *TransferMachine) Await(ctx context.Context, s State) error {
	for {
		changed := tm.channel.Wait()
		tm.mu.Lock()
		state, telling, failure := tm.state, tm.telling, tm.failure
		tm.mu.Unlock()
		switch {
		case state == s && !telling:
			return nil
		case state != s && !reachable(state, s) && failure != nil:
			return failure
		case state != s && !reachable(state, s):
			return fmt.Errorf("transport: wait until the TM is %v: it is %v: %w", s, state, syscall.EINVAL)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("transport: wait until the TM is %v: %w", s, withErrno(ctx.Err()))
		}
	}
}

// reachable tells whether a TM can come from one state to another (transport 3.5).
func reachable(from, to State) bool {
	switch {
	case from == StateUndefined:
		return false
	case to == StateUndefined:
		return true
	case to == StateFailed:
		return from < StateStopped
	}
	return from < to && from != StateFailed
}
