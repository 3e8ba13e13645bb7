package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

// ownName is the name of the program that has all commands. Under the names of Lustre's programs it has fewer.
const ownName = "lnetdctl"

// Exit statuses. They are the low 8 bits of the negative numbers with which lnetctl exits (lnetctl 1.4).
const (
	exitOK      = 0
	exitHelp    = 1   // --help was given instead of a command's work
	exitInvalid = 234 // -22: a request was rejected or is invalid
	exitNoFile  = 254 // -2: a file cannot be read
	exitFailure = 255 // -1: no such command, no daemon, or a ping that failed
)

// program is one run of lnetdctl.
type program struct {
	// name is the name by which the program was called.
	name string
	// stdin contains the commands if there are no arguments. It may be nil.
	stdin          io.Reader
	stdout, stderr io.Writer
	// typed reports whether the arguments are a line of interactive mode, in which names of commands may
	// be abbreviated.
	typed bool
	// hints is set if advice for the user is printed on stderr. The option --hints sets it.
	hints bool
	// lookup resolves a host name. If it is nil, the system's resolver is used.
	lookup func(ctx context.Context, host string) ([]net.IP, error)

	// host is the host that setup-mrrouting and setup-sysctl change. If it is nil, it is this host.
	host host

	// pause replaces the wait between the steps of commands that repeat something, for tests. If it is
	// nil, they wait for the time d.
	pause func(ctx context.Context, d time.Duration) error

	// Options of all commands.
	socket string
	json   bool
}

// status is an error with only the exit status of the program, because the error has been printed already.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// run executes a command line, given without the program's name, and returns the exit status.
func (p *program) run(args []string) int {
	p.json = p.json || slices.Contains(args, "--json") // so that errors in arguments before --json are JSON too
	root := p.root()
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		return p.complete(root, args)
	}
	line, err := readLine(root, args, p.typed)
	if err != nil {
		p.misused(line, err)
		if isLegacy(line.cmd) {
			return exitNoData
		}
		if unknown := (*unknownCommand)(nil); errors.As(err, &unknown) || isLst(line.cmd) {
			return exitFailure
		}
		return exitInvalid
	}
	err = p.execute(line)
	var st status
	var help needsHelp
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &help):
		return p.needs(line.cmd, help)
	case errors.As(err, &st):
		return int(st)
	}
	p.fail(line.cmd, cli.Explain(err))
	if isLst(line.cmd) {
		return exitFailure
	}
	return exitInvalid
}

// execute performs a parsed command line.
func (p *program) execute(l line) error {
	switch {
	case l.word == wordList:
		listCommands(p.stdout, l.cmd)
		return nil
	case l.word == wordVersion: // no command parses the options here
		if err := l.cmd.Root().PersistentFlags().Parse(l.args); err != nil {
			return err
		}
		return p.showVersion(context.Background())
	case l.word == wordHelp, l.help:
		if err := l.cmd.Help(); err != nil || !l.instead() {
			return err
		}
		return status(exitHelp)
	case l.word != "": // words that have an effect only in interactive mode
		return nil
	case !l.cmd.Runnable():
		return p.helpAll(l.cmd)
	}
	root := l.cmd.Root()
	root.SetArgs(append([]string{}, l.args...)) // not nil: cobra would use os.Args
	return root.ExecuteContext(context.Background())
}

// needs prints the help of the command c, because its command line lacks arguments or has too many, and returns
// the exit status.
func (p *program) needs(c *cobra.Command, help needsHelp) int {
	if p.json {
		p.failJSON(&api.Fault{
			Code: api.CodeRequestInvalid, Errno: -int(unix.EINVAL), Text: "operands are missing, or there are too many",
			Remedy: "usage: " + c.UseLine(),
		})
		return max(int(help.status), exitHelp)
	}
	_ = c.Help()
	return int(help.status)
}

// helpAll prints the help of all commands of a group, because the command line does not name one of them, and
// returns the exit status.
func (p *program) helpAll(group *cobra.Command) error {
	if p.json {
		return status(p.needs(group, needsHelp{exitInvalid}))
	}
	for i, c := range cli.Visible(group) {
		if i > 0 {
			fmt.Fprintln(p.stdout)
		}
		_ = c.Help()
	}
	return status(exitInvalid)
}

// misused prints an error about an invalid command line.
func (p *program) misused(l line, err error) {
	if p.json {
		p.failJSON(&api.Fault{Code: api.CodeRequestInvalid, Errno: -int(unix.EINVAL), Text: err.Error(), Remedy: meant(err)})
		return
	}
	fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
	p.hint(meant(err))
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

// root returns the root command. If the program is called as lst, it has only the commands of lst.
func (p *program) root() *cobra.Command {
	var root *cobra.Command
	switch p.name {
	case lstName:
		root = p.lstCommand()
		root.AddCommand(p.completionCommand())
	case legacyName:
		root = p.legacyCommand()
	default:
		root = p.commands()
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	f := root.PersistentFlags()
	f.StringVar(&p.socket, "control-socket", p.socket, "`PATH` of the control socket of lnetd")
	f.Var(hintsFlag{&p.hints}, "hints", "print remedies: `WHEN` is auto, always or never")
	f.BoolVar(&p.json, "json", p.json, "print the JSON of the control interface")
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	help.Install(root)
	cli.Once(root)
	return root
}

func (p *program) commands() *cobra.Command {
	root := &cobra.Command{
		Use:   p.name,
		Short: "show, change and test a running lnetd",
		Long: `lnetdctl sends requests to lnetd through its control socket. Unless --control-socket
names the socket, it must belong to root, to the caller, or, in /run/lnetd, to the owner
of that directory. Commands, options and output are the same as those of Lustre's
lnetctl. The program may also be installed as lnetctl.

Options may appear before, between and after operands, as --option value or
--option=value. Their names may be shortened to any unambiguous prefix.

The cause of an error and a remedy are printed on lines that begin with "#". With
--hints=auto they are left out if the program is called lnetctl or lst and stderr is not
a terminal.

Without a command lnetdctl reads commands from standard input, one per line. Command
names may be shortened, and their case does not matter. Words are separated by spaces;
there are no quotes. "quit" ends the program. If standard input is not a terminal, the
first command that fails also ends it, unless a line before it is ignore_errors. The exit
status is that of the first command that failed.`,
		Example: `lnetdctl net show
lnetdctl ping 10.0.0.1@tcp
lnetdctl help route add`,
		RunE: func(*cobra.Command, []string) error { return p.interactive() },
	}
	root.AddCommand(
		p.applyCommand(), p.bundleCommand(), p.captureCommand(), p.clientCommand(), p.clientsCommand(), p.completionCommand(), p.cptOfNIDCommand(), p.debugCommand(),
		p.diffCommand(), p.discoverCommand(), p.doctorCommand(), p.eventsCommand(), p.explainCommand(), p.exportCommand(), p.faultCommand(), p.globalCommand(),
		p.importCommand(), p.legacyCommand(), p.lnetCommand(), p.logCommand(), p.lstCommand(), p.netCommand(), p.peerCommand(), p.pingCommand(),
		p.planCommand(),
		p.routeCommand(), p.routingCommand(), p.selectionCommand(), p.serviceIDCommand(), p.setCommand(),
		p.setupMRRoutingCommand(), p.setupSysctlCommand(), p.statsCommand(), p.statusCommand(),
		p.topCommand(), p.topologyCommand(), p.udspCommand(), p.versionCommand())
	return root
}

// client returns a client for the lnetd at the socket that the options or the environment name or, without
// these, at the default socket.
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

// printJSON prints v as indented JSON.
func (p *program) printJSON(v any) error {
	e := json.NewEncoder(p.stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printJSONLine prints v as JSON on one line, for commands that print repeatedly.
func (p *program) printJSONLine(v any) error { return json.NewEncoder(p.stdout).Encode(v) }

// warn prints a warning. It does not end the command.
func (p *program) warn(s string) {
	if p.json {
		_ = json.NewEncoder(p.stderr).Encode(map[string]string{"warning": s}) // one line, because an error may follow
		return
	}
	fmt.Fprintf(p.stderr, "%s: warning: %s\n", p.name, s)
}

// hintsVariable is the environment variable that sets the default of --hints.
const hintsVariable = "LNETDCTL_HINTS"

// hintsByDefault reports whether advice is printed if the option --hints is not given. The environment variable
// LNETDCTL_HINTS can set this. Otherwise advice is printed, with one exception: if the program is called by the
// name of a program of Lustre and stderr is not a terminal, a script may compare the output with that of
// Lustre.
func (p *program) hintsByDefault(terminal bool) bool {
	hints := terminal || p.name != "lnetctl" && p.name != lstName && p.name != legacyName
	when := cmp.Or(os.Getenv(hintsVariable), "auto")
	if err := (hintsFlag{&hints}).Set(when); err != nil {
		p.warn(hintsVariable + "=" + when + ": " + err.Error())
	}
	return hints
}

// hintsFlag is the value of --hints. "auto" keeps the default.
type hintsFlag struct{ to *bool }

// String implements pflag.Value.
func (hintsFlag) String() string { return "auto" }

// Type implements pflag.Value.
func (hintsFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (h hintsFlag) Set(s string) error {
	switch s {
	case "auto":
	case "always", "never":
		*h.to = s == "always"
	default:
		return errors.New("must be auto, always or never")
	}
	return nil
}

// hint prints advice for the user, unless hints are off or the output is JSON.
func (p *program) hint(s string) {
	if p.hints && !p.json && s != "" {
		fmt.Fprintf(p.stderr, "# %s\n", s)
	}
}

// onTerminal reports whether a user sees the output.
func (p *program) onTerminal() bool {
	out, isFile := p.stdout.(*os.File)
	return isFile && isTerminal(out)
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
