package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/selftest/report"
)

// lstName is the name of the command for LNet selftest. If the program is called by this name, it has only the
// commands of lst.
const lstName = "lst"

// lstExits is the section EXIT STATUS in the help of the commands of lst.
const lstExits = `0    success
1    help was requested
254  no node could be added to a group (-2)
255  the command was refused, the command line is wrong, or lnetd does not answer (-1)`

// lstEnvironment is the part of the section ENVIRONMENT in the help that applies only to lst.
const lstEnvironment = `
LST_SESSION           key of the session: a number other than 0
LST_FEATURES          features of a new session, in hexadecimal`

// lstCommand returns the command "lst" with its commands (selftest 8). The output and the exit statuses are
// those of Lustre 2.17, except where these are wrong in 2.17; there they are those of 2.15.
func (p *program) lstCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   lstName,
		Short: "test the network with LNet selftest",
		Long: `A console creates a session on nodes, puts the nodes into groups, lets the groups run
tests against each other, and reads their counters. Syntax and output are the same as
those of Lustre's lst. If the program is installed as lst, it accepts only these
commands. lnetd keeps the session, and ends it on all nodes when no command has been
given for the time of its timeout.

All commands except new_session and show_session need the key of the session in
LST_SESSION. Nodes that run lnetd take part if this is enabled there (lst enable); nodes
that run Lustre take part if lnet_selftest is loaded.

Without a command, lst reads commands from standard input, one per line, as lnetdctl
does.`,
		Example: `export LST_SESSION=$$
lst new_session --timeout 300 rw
lst add_group clients 10.0.0.[1-4]@tcp
lst add_group servers 10.0.0.[10-11]@tcp
lst add_batch b
lst add_test --batch b --concurrency 8 --from clients --to servers brw read size=1M
lst run b
lst stat --count 10 clients servers
lst show_error clients servers
lst stop b
lst end_session`,
		Annotations: map[string]string{exitStatuses: lstExits},
		RunE: func(*cobra.Command, []string) error {
			if p.name == lstName {
				return p.interactive()
			}
			return p.interactive(lstName)
		},
	}
	c.AddCommand(
		p.lstNewSessionCommand(), p.lstEndSessionCommand(), p.lstShowSessionCommand(), p.lstPingCommand(),
		p.lstAddGroupCommand(), p.lstDeleteGroupCommand(), p.lstUpdateGroupCommand(), p.lstListGroupCommand(),
		p.lstStatCommand(), p.lstShowErrorCommand(),
		p.lstAddBatchCommand(), p.lstRunCommand(), p.lstStopCommand(), p.lstListBatchCommand(), p.lstQueryCommand(),
		p.lstAddTestCommand(),
		p.lstQuickCommand(), p.lstEnableCommand(), p.lstDisableCommand(), p.lstStatusCommand())
	return c
}

// isLst reports whether c is the command "lst" or one of its commands.
func isLst(c *cobra.Command) bool {
	for ; c != nil; c = c.Parent() {
		if c.Name() == lstName {
			return true
		}
	}
	return false
}

// lstKey returns the key of the session from the environment variable LST_SESSION. It returns false if the
// variable has no valid key.
func lstKey() (api.LstKey, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(os.Getenv("LST_SESSION")), 10, 64)
	return api.LstKey(n), err == nil && n != 0
}

// inSession calls do, which performs a command of lst, with the key of the session. If the environment has no
// key, it prints an error instead.
func (p *program) inSession(do func(c *client.Client, key api.LstKey) error) error {
	key, ok := lstKey()
	if !ok {
		return p.lstFail(api.CodeLstKey, -int(syscall.EACCES), "Can't find env LST_SESSION or value is not valid")
	}
	c := p.client()
	defer c.Close()
	return do(c, key)
}

// lstLeaf returns a command of lst that needs the key of the session. It has at least least and at most most
// operands; if most is -1, their number is not limited.
func (p *program) lstLeaf(
	m manual, least, most int,
	run func(ctx context.Context, c *client.Client, key api.LstKey, operands []string) error,
) *cobra.Command {
	if m.exits == "" {
		m.exits = lstExits
	}
	return command(m, func(ctx context.Context, operands []string) error {
		if err := lstOperands(operands, least, most); err != nil {
			return err
		}
		return p.inSession(func(c *client.Client, key api.LstKey) error { return run(ctx, c, key, operands) })
	})
}

// lstOperands returns an error, upon which the help is printed, if there are fewer than least or more than most
// operands. If most is -1, their number is not limited.
func lstOperands(operands []string, least, most int) error {
	if len(operands) < least || most >= 0 && len(operands) > most {
		return needsHelp{exitFailure}
	}
	return nil
}

// lstFail prints an error of a command of lst that lnetdctl has detected itself, with the message of Lustre's
// lst, and returns the exit status.
func (p *program) lstFail(code api.Code, errno int, text string) error {
	if p.json {
		p.failJSON(&api.Fault{Code: code, Errno: errno, Text: text})
	} else {
		fmt.Fprintln(p.stderr, text)
		p.advise(&api.Fault{Code: code})
	}
	return status(exitFailure)
}

// lstWords holds the words of the messages that a command of lst prints if lnetd rejects it.
type lstWords struct {
	// what is the kind of object that does not exist, or exists already. It is empty for commands that
	// Lustre's lst does not have. These print lnetd's reason instead of a message of lst.
	what string
	// failed is the message for errors for which lst has no specific message. The text of the error
	// number follows it.
	failed string
}

// lstRefused prints the error of a command of lst that lnetd has rejected (selftest 8), and returns the exit
// status.
func (p *program) lstRefused(w lstWords, err error) error {
	f := api.FaultOf(err)
	if p.json {
		p.failJSON(f)
		return status(exitFailure)
	}
	text, reason := "", ""
	switch errno := syscall.Errno(-f.Errno); {
	case f.Code == api.CodeDaemonUnreachable, f.Code == api.CodeLstDisabled:
		text = f.Text
		if f.Code == api.CodeDaemonUnreachable && f.Cause != "" {
			text += ": " + f.Cause
		}
		reason = f.Remedy
	case f.Code == api.CodeStopping:
		text = f.Text
	case errno == syscall.ESRCH:
		text = "No session exists"
	case errno == syscall.ESHUTDOWN:
		text = "Session is shutting down"
	case errno == syscall.EACCES:
		text = "Unmatched session key or not root"
	case w.what == "":
		text = w.failed + ": " + api.Strerror(errno)
		if f.Code == api.CodeRequestInvalid {
			text = w.failed + ": " + whatIsInvalid(f)
		} else if f.Cause != "" && f.Cause != errno.Error() {
			text = w.failed + ": " + f.Cause
		}
	case errno == syscall.ENOENT:
		text = "Can't find " + w.what + " in current session"
	case errno == syscall.EINVAL:
		text, reason = "Invalid parameters list in command line", f.Cause
		if f.Code == api.CodeRequestInvalid {
			reason = whatIsInvalid(f)
		}
	case errno == syscall.EFAULT:
		text = "Bad parameter address"
	case errno == syscall.EEXIST:
		text = w.what + " already exists"
	default:
		text = w.failed + ": " + api.Strerror(errno)
		if f.Code == api.CodeLstRefused {
			reason = f.Cause
		} else {
			p.hint(f.Cause)
		}
	}
	fmt.Fprintln(p.stderr, text)
	if reason != "" {
		fmt.Fprintln(p.stderr, reason)
	}
	if reason == "" || reason != f.Remedy {
		p.advise(f)
	}
	return status(exitFailure)
}

// whatIsInvalid returns the reason for which lnetd has rejected a request: the text and the cause.
func whatIsInvalid(f *api.Fault) string {
	if f.Cause == "" {
		return f.Text
	}
	return f.Text + ": " + f.Cause
}

// lstNodesFailed prints an error for each node for which the operation op has failed, and returns the number of
// these nodes.
func (p *program) lstNodesFailed(op string, r *report.Result) int {
	lines := lstFailures(op, r)
	for _, line := range lines {
		fmt.Fprintln(p.stderr, line)
	}
	return len(lines)
}

// lstFailures returns an error message of one line for each node for which the operation op has failed.
func lstFailures(op string, r *report.Result) (lines []string) {
	for k := range r.Nodes {
		switch v := &r.Nodes[k]; {
		case v.RPC != 0:
			lines = append(lines, fmt.Sprintf("%s RPC failed on %s: %s", op, v.ID, lstRPCError(v.RPC)))
		case v.Status != 0 && r.Refused > 0:
			lines = append(lines, fmt.Sprintf("operation %s failed on %s: %s", op, v.ID, api.Strerror(v.Status)))
		}
	}
	return lines
}

// lstRPCError returns the message of Lustre's lst about a failed RPC. It is not the usual text of the error,
// because lst passes the negative number to strerror, which has no text for it.
func lstRPCError(errno syscall.Errno) string { return fmt.Sprintf("Unknown error -%d", int(errno)) }
