package transport

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// Start starts the TM in the background, at the address nid:pid:portal:tmid. If the tmid is *, the TM gets a
// free number, the highest one that is available (transport 6.3). A TMEvent reports StateStarted or
// StateFailed, possibly before Start returns. Start returns EINVAL if the TM is not in StateInitialized, or
// if the address is malformed. In the latter case the TM enters StateFailed without an event.
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

// Stop begins to stop the TM. From then on, Add returns EINVAL. Queued buffers stay queued until they
// complete or the program cancels them. When the queues are empty and no callback runs, a TMEvent reports
// StateStopped. Stop returns EINVAL if the TM is already stopping or has ended.
func (tm *TransferMachine) Stop() error {
	err := tm.beginStop()
	if err == nil {
		tm.unlock()
		tm.channel.Signal()
	}
	return err
}

// Abort begins to stop the TM as Stop does, and cancels the operations of all queued buffers.
func (tm *TransferMachine) Abort() error {
	err := tm.beginStop()
	if err == nil {
		tm.abort()
		tm.channel.Signal()
	}
	return err
}

// beginStop sets the state to StateStopping. If it returns nil, mu is held, and the caller must release it.
func (tm *TransferMachine) beginStop() error {
	tm.mu.Lock()
	was := tm.state
	if was < StateInitialized || was > StateStarted || tm.closing {
		tm.mu.Unlock()
		return fmt.Errorf("transport: stop: the TM is %v: %w", was, syscall.EINVAL)
	}
	tm.state = StateStopping
	tm.resetDeficit()
	switch was {
	case StateInitialized:
		tm.startWorker(Address{})
	case StateStarting:
		tm.cancelStart()
	}
	return nil
}

// abort cancels the operations of all queued buffers. mu is held on entry and released on return.
func (tm *TransferMachine) abort() {
	bt := tm.getBatch()
	for q := range tm.queues {
		for b := tm.queues[q].first; b != nil; b = b.state.next {
			tm.cancel(bt, b)
		}
	}
	tm.finish(bt)
}

// Close closes a TM that is stopped, has failed, or was never started, and waits until its worker has ended.
// It returns EBUSY if the program holds references to end points of the TM, and EINVAL if the TM is in
// another state; in these cases nothing has changed. Callbacks of the TM must not call Close.
func (tm *TransferMachine) Close() error {
	tm.mu.Lock()
	if s := tm.state; tm.closing || s != StateStopped && s != StateFailed && s != StateInitialized {
		tm.mu.Unlock()
		return fmt.Errorf("transport: close: the TM is %v: %w", s, syscall.EINVAL)
	}
	held := tm.endPoints.references
	if tm.self != nil {
		held--
	}
	if held > 0 {
		tm.mu.Unlock()
		return fmt.Errorf("transport: close: %d references to end points of the TM are still held: %w", held, syscall.EBUSY)
	}
	tm.closing = true
	done := tm.done
	tm.mu.Unlock()
	if done != nil {
		<-done
	}
	tm.detachPool()
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

// Shutdown stops the TM as Abort does, waits until it is stopped, and closes it. With synchronous delivery,
// another goroutine must call DeliverAll during this time. Shutdown returns the error of ctx or of Close.
func (tm *TransferMachine) Shutdown(ctx context.Context) error {
	if tm.State() == StateInitialized {
		return tm.Close()
	}
	if err := tm.Abort(); err != nil {
		tm.mu.Lock()
		if tm.state == StateStopping {
			tm.abort() // already stopping, perhaps by Stop, which does not cancel buffers
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

// Await waits until the state is s and the callback for this state has returned. So a callback of the TM must
// not call it. If ctx ends first, Await returns its error. If the TM can no longer reach s, Await returns the
// reason why the TM failed, or EINVAL if it did not fail.
func (tm *TransferMachine) Await(ctx context.Context, s State) error {
	for {
		changed := tm.channel.Wait()
		tm.mu.Lock()
		state, telling, failure := tm.state, tm.inStateCallback, tm.failure
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

// reachable reports whether a TM can change from one state to another, directly or not (transport 3.5).
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
