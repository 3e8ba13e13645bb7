package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/spelling"
	"github.com/lnetd/lnetd/internal/lnetd/systemd"
)

// Exit statuses, besides that of cli.Interrupted.
const (
	exitOK      = 0
	exitFailure = 1 // the command failed, or errors were counted
	exitUsage   = 2 // the command line is invalid
	exitMissed  = 3 // a goal of "compare" was missed
)

// endTime is the timeout for an orderly shutdown.
const endTime = 15 * time.Second

// program is one run of lnetperf.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// terminal reports whether stderr is a terminal, on which a line can be overwritten.
	terminal bool

	// Options of all commands.
	json      bool
	verbosity int
}

// usageError is an error of the command line.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errCounted is the error of a command that has printed its error counts.
var errCounted = errors.New("messages or transfers of the test failed")

// errMissed is the error of "compare" after it has printed which goals were missed.
var errMissed = errors.New("a goal was missed")

// run executes a command line, given without the program's name, and returns the exit status.
func (p *program) run(args []string) int {
	ctx, stop := cli.UntilSignal(nil)
	defer stop()
	out := &output{to: p.stdout}
	p.stdout = out
	understood := false
	root := p.commands()
	root.SetArgs(args)
	cli.Once(root)
	cli.ExplainOptions(root)
	root.PersistentPreRun = func(*cobra.Command, []string) { understood = true }
	err := root.ExecuteContext(ctx)
	if failed := out.failure(); err == nil && failed != nil {
		err, understood = failed, true
	}
	var by cli.Interrupted
	switch {
	case err == nil: // a signal is the normal end of a server
		return exitOK
	case errors.Is(err, errCounted):
		return exitFailure
	case errors.Is(err, errMissed):
		return exitMissed
	case errors.As(context.Cause(ctx), &by):
		if !errors.As(err, &by) {
			p.complain(err)
		}
		return by.Status()
	}
	p.complain(err)
	if wrong := (usageError{}); understood && !errors.As(err, &wrong) {
		return exitFailure
	}
	fmt.Fprintln(p.stderr, "Try 'lnetperf COMMAND --help'.")
	return exitUsage
}

// output is the writer for results. It stores the first error of writing in err, from which the exit status is
// determined.
type output struct {
	to io.Writer

	mu  sync.Mutex // guards the fields below
	err error
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.to.Write(b)
	o.err = cmp.Or(o.err, err)
	return n, err
}

func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// complain prints an error, which may have several lines.
func (p *program) complain(err error) {
	if question := spelling.MeantNetType(err); question != "" {
		err = fmt.Errorf("%w; %s", err, question)
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(p.stderr, "lnetperf: %s\n", strings.TrimSuffix(line, "\n"))
	}
}

func (p *program) commands() *cobra.Command {
	root := &cobra.Command{
		Use:   "lnetperf",
		Short: "test and measure transfer machines and LNet",
		Long: `lnetperf sends messages and bulk data between transfer machines, checks the received data,
and measures counts and times. "ping" corresponds to Motr's m0lnetping and m0bulkping,
"node" and "console" to its m0nettestd and m0nettest. "compare" compares lnetd with plain
TCP, and "trace" shows what happens during a request.

Each process runs its own LNet node over TCP. If lnetd runs on the same host, the node
needs another address or another port. With --through, the process uses that lnetd
instead. An end point is NID:12345:PORTAL:ID, such as 10.0.0.1@tcp:12345:42:300; * instead
of ID selects a free one.`,
		Version: api.BuildVersion(), SilenceErrors: true, SilenceUsage: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("'%s' is not a command", args[0])
			}
			return c.Help()
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetVersionTemplate("lnetperf {{.Version}}\n")
	root.SetHelpCommand(&cobra.Command{Hidden: true})
	help.Install(root)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	f := root.PersistentFlags()
	f.BoolVar(&p.json, "json", false, "print JSON")
	f.IntVarP(&p.verbosity, "verbose", "v", 0, "`LEVEL` of logging: 1 events, 2 everything")
	root.AddCommand(p.compareCommand(), p.reportCommand(), p.traceCommand(), p.crowdCommand(), p.scaleCommand(), p.pingCommand(), p.nodeCommand(), p.consoleCommand())
	return root
}

// logger returns the logger for the packages that the commands use. Its level depends on the verbosity.
func (p *program) logger() *slog.Logger {
	level := slog.LevelWarn
	switch {
	case p.verbosity == 1:
		level = slog.LevelInfo
	case p.verbosity > 1:
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: level}))
}

// printJSON prints v as indented JSON.
func (p *program) printJSON(v any) error {
	e := json.NewEncoder(p.stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// ready reports to the user and to systemd that a server or node is ready at an address.
func (p *program) ready(what, address string) {
	fmt.Fprintf(p.stderr, "%s ready at %s\n", what, address)
	systemd.FromEnvironment(nil).Ready("") // does nothing without systemd
}

// finish calls end, which ends something in at most endTime, and adds its error to err. It is for deferred calls.
func finish(err *error, end func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	*err = errors.Join(*err, end(ctx))
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
