package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/control/client"
)

// Exit statuses: lnetctl's results cut to 8 bits (lnetctl 1.4).
const (
	exitOK      = 0
	exitHelp    = 1   // help was asked for in place of a command's work
	exitInvalid = 234 // -22: a request was refused, or makes no sense
	exitFailure = 255 // -1: no such command, no daemon, a ping that failed
)

// program is one run of lnetdctl.
type program struct {
	// name is what the program was called as.
	name string
	// stdin has commands for lst without arguments; nil: none.
	stdin          io.Reader
	stdout, stderr io.Writer
	// hints allows advice on stderr beside the documents. It is off where a
	// script may compare the output with lnetctl's.
	hints bool
	// lookup resolves a host name; nil is the system's resolver.
	lookup func(ctx context.Context, host string) ([]net.IP, error)

	// pause waits between the steps of commands that go on; nil: as long as they
	// ask for.
	pause func(ctx context.Context, d time.Duration) error

	// Options of all commands.
	socket string
	json   bool
}

// status is an exit status as an error, for what has been reported already.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// run executes a command line without the program's name and returns the exit
// status.
func (p *program) run(args []string) int {
	root := p.root()
	line, err := readLine(root, args)
	switch {
	case err == nil:
		err = p.execute(line)
	case isLst(line.cmd):
		p.lstMisused(line, err)
		return exitFailure
	default:
		p.misused(line, err)
		if unknown := (*unknownCommand)(nil); errors.As(err, &unknown) {
			return exitFailure
		}
		return exitInvalid
	}
	var st status
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &st):
		return int(st)
	}
	p.fail(err)
	if isLst(line.cmd) {
		return exitFailure
	}
	return exitInvalid
}

// execute does what the command line asks for.
func (p *program) execute(l line) error {
	switch {
	case l.word == wordList:
		listCommands(p.stdout, l.cmd)
		return nil
	case l.word == wordVersion: // no command: nobody else reads the options
		if err := l.cmd.Root().PersistentFlags().Parse(l.args); err != nil {
			return err
		}
		return p.showVersion(context.Background())
	case l.word == wordHelp:
		return l.cmd.Help()
	case l.help:
		if err := l.cmd.Help(); err != nil {
			return err
		}
		return status(exitHelp)
	case !l.cmd.Runnable():
		return p.helpAll(l.cmd)
	}
	root := l.cmd.Root()
	root.SetArgs(append([]string{}, l.args...)) // not nil, for which cobra takes the process's
	return root.ExecuteContext(context.Background())
}

// helpAll answers a command word that wants another one after it.
func (p *program) helpAll(group *cobra.Command) error {
	if group.Root() == group {
		_ = group.Help()
		return status(exitInvalid)
	}
	for i, c := range visible(group) {
		if i > 0 {
			fmt.Fprintln(p.stdout)
		}
		_ = c.Help()
	}
	return status(exitInvalid)
}

// misused says what is wrong with the command line.
func (p *program) misused(l line, err error) {
	fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
	if unknown := (*unknownCommand)(nil); !errors.As(err, &unknown) && l.cmd != nil {
		_ = l.cmd.Help()
	}
}

// wait waits for d, or until ctx is done.
func (p *program) wait(ctx context.Context, d time.Duration) error {
	if p.pause != nil {
		return p.pause(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// root is all commands; called as lst, the program has those of lst alone.
func (p *program) root() *cobra.Command {
	var root *cobra.Command
	if p.name == lstName {
		root = p.lstCommand()
	} else {
		root = p.commands()
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	f := root.PersistentFlags()
	f.StringVar(&p.socket, "control-socket", p.socket, "`PATH` of lnetd's control socket")
	f.BoolVar(&p.json, "json", p.json, "print JSON as the control interface delivers it")
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	manPages(root)
	return root
}

func (p *program) commands() *cobra.Command {
	root := &cobra.Command{
		Use:   p.name,
		Short: "show, change and test a running lnetd",
		Long: `lnetdctl talks to lnetd through its control socket, which, unless it is named,
must be root's or the caller's own. Commands, options and output are those of
Lustre's lnetctl; installed under the name lnetctl the program answers to that.

Options may stand before, between and behind operands, as --option value or
--option=value, and their names may be cut to any unambiguous beginning.`,
	}
	root.AddCommand(
		p.clientCommand(), p.clientsCommand(), p.discoverCommand(), p.explainCommand(), p.faultCommand(), p.globalCommand(), p.lstCommand(), p.netCommand(), p.peerCommand(),
		p.pingCommand(), p.routeCommand(), p.routingCommand(), p.selectionCommand(), p.setCommand(), p.statsCommand(),
		p.udspCommand(), p.versionCommand())
	return root
}

// client returns a client for the daemon: the one that is named, or the one that
// is found.
func (p *program) client() *client.Client {
	path := p.socket
	if path == "" {
		path = os.Getenv("LNETD_CONTROL_SOCKET")
	}
	if path == "" {
		return client.Find()
	}
	return client.New(path)
}

// printJSON prints v for programs.
func (p *program) printJSON(v any) error {
	e := json.NewEncoder(p.stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printJSONLine prints v on one line, for programs that follow a command that goes
// on.
func (p *program) printJSONLine(v any) error { return json.NewEncoder(p.stdout).Encode(v) }

// hint gives advice to a person.
func (p *program) hint(s string) {
	if p.hints && !p.json && s != "" {
		fmt.Fprintf(p.stderr, "# %s\n", s)
	}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
