// Command lnet-mpi-proxy connects the processes of an MPI application with the lnetd of its host: it is a rank of the
// application's job, and serves an NI of lnetd.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailure = 1   // MPI or lnetd has failed
	exitUsage   = 2   // the command line is invalid
	exitSignal  = 128 // plus the number of the signal that has ended the program
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the program with the arguments args and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal()
	defer stop()
	o := newOptions()
	understood := false
	cmd := o.command(func() error {
		understood = true
		log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.Level(o.level)}))
		return o.serve(ctx, log)
	})
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.Explain(err) })
	err := cmd.Execute()
	var by interrupted
	switch {
	case err == nil:
		return exitOK
	case errors.As(context.Cause(ctx), &by):
		fmt.Fprintf(stderr, "lnet-mpi-proxy: ended by signal: %s\n", by)
		return exitSignal + int(by.signal)
	case understood:
		fmt.Fprintf(stderr, "lnet-mpi-proxy: %v\n", err)
		return exitFailure
	}
	fmt.Fprintf(stderr, "lnet-mpi-proxy: %v\nTry 'lnet-mpi-proxy --help'.\n", err)
	return exitUsage
}

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ signal syscall.Signal }

func (e interrupted) Error() string { return e.signal.String() }

// untilSignal returns a context that is canceled by SIGTERM or SIGINT. A second signal ends the program at once. The
// returned function ends the handling of signals.
func untilSignal() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		for first := true; ; first = false {
			select {
			case s := <-signals:
				n, _ := s.(syscall.Signal)
				if !first {
					os.Exit(exitSignal + int(n))
				}
				cancel(interrupted{n})
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel(nil) }
}
