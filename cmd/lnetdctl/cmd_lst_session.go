package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/selftest/report"
)

// sessionNameMax is the maximum length of a session's name (selftest 8).
const sessionNameMax = 31

func (p *program) lstNewSessionCommand() *cobra.Command {
	var timeout int
	var force bool
	c := command(manual{
		use:   "new_session [--timeout SECONDS] [--force] [NAME]",
		short: "create a session",
		long: `A console has only one session. LST_SESSION is its key; without LST_SESSION a random key
is used, which show_session prints. The default NAME is user@host. LST_FEATURES, in
hexadecimal, sets the features of the session.`,
		example: "lnetdctl lst new_session --timeout 300 rw",
		exits:   lstExits,
	}, func(ctx context.Context, operands []string) error {
		return p.lstNewSession(ctx, operands, timeout, force)
	})
	c.Flags().IntVarP(&timeout, "timeout", "t", 300, "end the session after `SECONDS` without a command")
	c.Flags().BoolVarP(&force, "force", "f", false, "replace existing sessions, here and on the nodes")
	return c
}

func (p *program) lstNewSession(ctx context.Context, operands []string, timeout int, force bool) error {
	if err := lstOperands(operands, 0, 1); err != nil {
		return err
	}
	if timeout <= 0 {
		return p.lstFail(api.CodeLstInvalid, -int(syscall.EINVAL), "Invalid timeout value")
	}
	key, _ := lstKey() // if the environment has no key, the console chooses one
	r := api.LstNewSession{Key: key, Timeout: timeout, Force: force, Name: defaultSessionName()}
	if len(operands) == 1 {
		r.Name = operands[0]
	}
	if len(r.Name) > sessionNameMax {
		return p.lstFail(api.CodeLstInvalid, -int(syscall.EINVAL), "Name size is limited to "+strconv.Itoa(sessionNameMax))
	}
	if s := os.Getenv("LST_FEATURES"); s != "" {
		n, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(s), "0x"), 16, 32)
		if err != nil {
			return p.lstFail(api.CodeLstInvalid, -int(syscall.EINVAL), "Invalid session features "+s)
		}
		features := uint32(n)
		r.Features = &features
	}
	client := p.client()
	defer client.Close()
	s, err := client.LstNewSession(ctx, r)
	if err != nil {
		return p.lstRefused(lstWords{what: "session", failed: "Failed to create session"}, err)
	}
	if p.json {
		return p.printJSON(s)
	}
	forced := "No"
	if s.Force {
		forced = "Yes"
	}
	fmt.Fprintf(p.stdout, "SESSION: %s FEATURES: %x TIMEOUT: %d FORCE: %s\n", s.Name, s.Features, int(s.Timeout.Seconds()), forced)
	if key == 0 {
		p.hint(fmt.Sprintf("export LST_SESSION=%d", s.Key))
	}
	return nil
}

// defaultSessionName returns the name of a session for which the command gives none: user@host.
func defaultSessionName() string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return sessionName(name + "@" + host)
}

// sessionName returns a name, shortened to the maximum length of session names.
func sessionName(name string) string {
	name = name[:min(len(name), sessionNameMax)]
	return strings.ToValidUTF8(name, "") // removes the part of a character at the end
}

func (p *program) lstEndSessionCommand() *cobra.Command {
	return p.lstLeaf(manual{
		use:     "end_session",
		short:   "end the session on all nodes",
		long:    `Stops running tests, and deletes all groups and batches.`,
		example: "lnetdctl lst end_session",
	}, 0, 0, func(ctx context.Context, c *client.Client, key api.LstKey, _ []string) error {
		if err := c.LstEndSession(ctx, key); err != nil {
			return p.lstRefused(lstWords{what: "session", failed: "Failed to end session"}, err)
		}
		if p.json {
			return p.printJSON(struct{}{})
		}
		return nil
	})
}

func (p *program) lstShowSessionCommand() *cobra.Command {
	return command(manual{
		use:     "show_session",
		short:   "describe the session, including its key",
		long:    `All other commands need this key in LST_SESSION.`,
		example: "lnetdctl lst show_session",
		exits:   lstExits,
	}, func(ctx context.Context, operands []string) error {
		if err := lstOperands(operands, 0, 0); err != nil {
			return err
		}
		client := p.client()
		defer client.Close()
		s, err := client.LstShowSession(ctx)
		if err != nil {
			return p.lstRefused(lstWords{what: "session", failed: "Failed to show session"}, err)
		}
		if p.json {
			return p.printJSON(s)
		}
		fmt.Fprintf(p.stdout, "%s ID: %d@%s, KEY: %d FEATURES: %x NODES: %d\n", s.Name, s.Stamp, s.NID, s.Key, s.Features, s.Nodes)
		return nil
	})
}

func (p *program) lstPingCommand() *cobra.Command {
	var target api.LstTarget
	var nodes string
	timeout := 5
	c := p.lstLeaf(manual{
		use:   "ping --session | --group NAME | --batch NAME [--server] | --nodes IDS [--timeout SECONDS]",
		short: "ask nodes which session they are in",
		long: `Prints the state of each node: Active if it is in this session, Busy if it is in another
one, Down if it does not answer, otherwise Unknown. The state is stored with the groups.`,
		example: "lnetdctl lst ping --group servers",
	}, 0, 0, func(ctx context.Context, c *client.Client, key api.LstKey, _ []string) error {
		t := target
		if nodes != "" {
			t.Nodes = []string{nodes}
		}
		return p.lstPing(ctx, c, api.LstPing{Key: key, Target: t, Timeout: max(timeout, 1)})
	})
	f := c.Flags()
	f.BoolVarP(&target.Session, "session", "s", false, "ask all nodes of the session")
	f.StringVarP(&target.Group, "group", "g", "", "ask the nodes of the group `NAME`")
	f.StringVarP(&target.Batch, "batch", "b", "", "ask the clients of the batch `NAME`")
	f.BoolVarP(&target.Servers, "server", "v", false, "with --batch, ask its servers instead")
	f.StringVarP(&nodes, "nodes", "n", "", "ask the nodes `IDS`")
	f.IntVarP(&timeout, "timeout", "t", timeout, "wait `SECONDS` for answers, 3 to 30")
	return c
}

func (p *program) lstPing(ctx context.Context, c *client.Client, r api.LstPing) error {
	t := &r.Target
	if !one(t.Session, t.Group != "", t.Batch != "", len(t.Nodes) > 0) || t.Servers && t.Batch == "" {
		return needsHelp{exitFailure}
	}
	name := cmp.Or(t.Group, t.Batch, strings.Join(t.Nodes, " "), "session")
	res, err := c.LstPing(ctx, r)
	switch {
	case err != nil && isErrno(err, syscall.ENOENT) && !p.json:
		return p.noCount("Failed to get", name)
	case err != nil:
		return p.lstRefused(lstWords{what: "ping", failed: "Failed to ping"}, err)
	case p.json:
		return p.printJSON(res)
	case len(res.Nodes) == 0:
		fmt.Fprintf(p.stdout, "Target %s is empty\n", name)
	}
	for k := range res.Nodes {
		n := &res.Nodes[k]
		session, console := "<NULL>", "LNET_NID_ANY"
		if s := n.Session; s != nil {
			console = s.NID.String()
			if n.State == report.Active || n.State == report.Busy {
				session = s.Name
			}
		}
		fmt.Fprintf(p.stdout, "\t%s: %s [session: %s id: %s]\n", n.ID, n.State, session, console)
	}
	return nil
}

// noCount prints the message of Lustre's lst if the group or batch with a name does not exist, and returns the
// exit status.
func (p *program) noCount(how, name string) error {
	fmt.Fprintf(p.stderr, "%s count of nodes from %s: %s\n", how, name, api.Strerror(syscall.ENOENT))
	return status(exitFailure)
}

// isErrno reports whether err is an error that lnetd has returned, with the given error number.
func isErrno(err error, errno syscall.Errno) bool {
	f := (*api.Fault)(nil)
	return errors.As(err, &f) && f.Code != api.CodeDaemonUnreachable && f.Errno == -int(errno)
}
