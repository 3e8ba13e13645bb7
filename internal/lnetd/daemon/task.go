package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Task is an independently running part of the daemon.
type Task interface {
	// Run does the task's work until ctx is done. It then cleans up and returns nil. It is called
	// once.
	Run(ctx context.Context) error
	// Ready returns a channel that is closed when other tasks can rely on this one.
	Ready() <-chan struct{}
	// String returns the name of the task for messages.
	String() string
}

// errUnfinished is the error of tasks that did not end in time.
var errUnfinished = errors.New("did not stop in time")

// running is a task that has been started.
type running struct {
	task   Task
	cancel context.CancelFunc
	err    error         // the result of Run; valid once done is closed
	done   chan struct{} // closed when Run has returned
}

// run starts the tasks one after the other, each when the task before it is ready, and then calls
// started. When ctx is done or any task ends, run calls stopping and stops the tasks in the opposite
// order, each after the previous one has ended. If this takes longer than patience, run returns without
// waiting for the rest. It returns the joined errors of the tasks.
func run(ctx context.Context, tasks []Task, started, stopping func(), patience time.Duration) error {
	ended := make(chan struct{}, len(tasks))
	var up []*running
	all := true
	for _, t := range tasks {
		r := start(ctx, t, ended)
		up = append(up, r)
		select {
		case <-t.Ready():
			continue
		case <-ended:
		case <-ctx.Done():
		}
		all = false
		break
	}
	if all {
		started()
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
	// A task that ended before it was stopped is a failure, even if it returned no error.
	for _, r := range up {
		select {
		case <-r.done:
			if r.err == nil && ctx.Err() == nil {
				r.err = errors.New("ended unexpectedly")
			}
		default:
		}
	}
	stopping()
	return stop(up, patience)
}

func start(ctx context.Context, t Task, ended chan<- struct{}) *running {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{task: t, cancel: cancel, done: make(chan struct{})}
	go func() {
		r.err = t.Run(ctx)
		close(r.done)
		ended <- struct{}{}
	}()
	return r
}

func stop(up []*running, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var errs []error
	for i := len(up) - 1; i >= 0; i-- {
		r := up[i]
		r.cancel()
		select {
		case <-r.done:
			if r.err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", r.task, r.err))
			}
		case <-timer.C:
			var left []string
			for _, r := range up[:i+1] {
				r.cancel()
				left = append(left, r.task.String())
			}
			errs = append(errs, fmt.Errorf("%s: %w", strings.Join(left, ", "), errUnfinished))
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}
