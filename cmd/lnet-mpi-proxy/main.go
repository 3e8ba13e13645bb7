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

	"github.com/lnetd/lnetd/cmd/internal/cli"
)

// Exit statuses, besides that of cli.Interrupted.
const (
	exitOK      = 0
	exitFailure = 1 // MPI or lnetd has failed
	exitUsage   = 2 // the command line is invalid
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the program with the arguments args and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := cli.UntilSignal(nil)
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
	cli.ExplainOptions(cmd)
	err := cmd.Execute()
	var by cli.Interrupted
	switch {
	case err == nil:
		return exitOK
	case errors.As(context.Cause(ctx), &by):
		fmt.Fprintf(stderr, "lnet-mpi-proxy: ended by signal: %s\n", by)
		return by.Status()
	case understood:
		fmt.Fprintf(stderr, "lnet-mpi-proxy: %v\n", err)
		return exitFailure
	}
	fmt.Fprintf(stderr, "lnet-mpi-proxy: %v\nTry 'lnet-mpi-proxy --help'.\n", err)
	return exitUsage
}
