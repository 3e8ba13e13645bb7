package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interrupted is the cause of the end of a context that UntilSignal has canceled.
type Interrupted struct{ Signal syscall.Signal }

// Error returns the name of the signal.
func (e Interrupted) Error() string { return e.Signal.String() }

// Status returns the exit status of a program that the signal has ended, as shells report it: 128 plus the number of
// the signal.
func (e Interrupted) Status() int { return 128 + int(e.Signal) }

// UntilSignal returns a context that is canceled by SIGTERM or SIGINT, with an Interrupted as its cause. Before, it
// calls heard, if that is not nil. A second signal ends the program immediately. The returned function ends the
// handling of signals.
func UntilSignal(heard func(syscall.Signal)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		for first := true; ; first = false {
			select {
			case s := <-signals:
				by := Interrupted{s.(syscall.Signal)}
				if !first {
					os.Exit(by.Status())
				}
				if heard != nil {
					heard(by.Signal)
				}
				cancel(by)
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel(nil) }
}
