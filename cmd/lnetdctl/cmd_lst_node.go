package main

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

func (p *program) lstEnableCommand() *cobra.Command {
	var memory string
	var b api.LstBounds
	c := command(manual{
		use:   "enable [--memory SIZE] [--session-timeout SECONDS] [--units N]",
		short: "enable LNet selftest on this node (not in Lustre's lst)",
		long: `Allows any console on the network to let this node send and answer test requests, within
the limits below, and allows this node to be a console. The options apply until "lst
disable". Options that are missing or 0 have the values of the configuration ("selftest"
in the section "lnetd"). With "enabled: true" there, selftest is enabled from the start.`,
		example: "lnetdctl lst enable --memory 64M",
		exits:   lstExits,
	}, func(ctx context.Context, operands []string) error {
		if err := lstOperands(operands, 0, 0); err != nil {
			return err
		}
		if memory != "" {
			n, ok := memorySize(memory)
			if !ok || n < api.LstMemoryMin || n > api.LstMemoryMax {
				return p.lstFail(api.CodeLstInvalid, -int(syscall.EINVAL), "--memory "+memory+" is not within 2M to 1T")
			}
			b.Memory = n
		}
		return p.lstSwitch("enable", func(c *client.Client) error { return c.LstEnable(ctx, b) })
	})
	f := c.Flags()
	f.StringVar(&memory, "memory", "", "`SIZE` of memory for bulk data, with the suffix k, M, G or T")
	f.IntVar(&b.SessionTimeout, "session-timeout", 0, "end a session after `SECONDS` without its console")
	f.IntVar(&b.Units, "units", 0, "send at most `N` requests at once as a client, over all tests")
	return c
}

func (p *program) lstDisableCommand() *cobra.Command {
	var force bool
	c := command(manual{
		use:     "disable [--force]",
		short:   "disable LNet selftest on this node (not in Lustre's lst)",
		example: "lnetdctl lst disable --force",
		long:    `--force is needed if this node is in a session, or is the console of one.`,
		exits:   lstExits,
	}, func(ctx context.Context, operands []string) error {
		if err := lstOperands(operands, 0, 0); err != nil {
			return err
		}
		return p.lstSwitch("disable", func(c *client.Client) error {
			return c.LstDisable(ctx, api.LstDisable{Force: force})
		})
	})
	c.Flags().BoolVar(&force, "force", false, "end existing sessions")
	return c
}

// memorySize parses a number of bytes, which may have one of the units k, m, g and t.
func memorySize(s string) (int64, bool) {
	s, unit := cutUnit(s, "kmgt")
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > api.LstMemoryMax>>unit {
		return 0, false
	}
	return n << unit, true
}

// lstSwitch calls do, which enables or disables selftest, and prints the result. The name of the command is op.
func (p *program) lstSwitch(op string, do func(c *client.Client) error) error {
	c := p.client()
	defer c.Close()
	err := do(c)
	switch {
	case err == nil && p.json:
		return p.printJSON(struct{}{})
	case err == nil:
		return nil
	}
	if f := api.FaultOf(err); f.Code == api.CodeLstBusy && !p.json {
		fmt.Fprintf(p.stderr, "%s: %s\n", f.Text, f.Remedy)
		return status(exitFailure)
	}
	return p.lstRefused(lstWords{failed: "Failed to " + op + " LNet selftest"}, err)
}

func (p *program) lstStatusCommand() *cobra.Command {
	return command(manual{
		use:     "status",
		short:   "show the state of LNet selftest on this node (not in Lustre's lst)",
		example: "lnetdctl lst status",
		long: `Shows the session that this node is in, whichever node is its console. For tests in which
this node is a client, it also shows the latencies of requests.`,
		exits: lstExits,
	}, func(ctx context.Context, operands []string) error {
		if err := lstOperands(operands, 0, 0); err != nil {
			return err
		}
		c := p.client()
		defer c.Close()
		s, err := c.LstStatus(ctx)
		if err != nil {
			return p.lstRefused(lstWords{failed: "Failed to show the status of LNet selftest"}, err)
		}
		if p.json {
			return p.printJSON(s)
		}
		return classic.write(p.stdout, statusDocument(&s))
	})
}

// statusDocument returns the document of "lst status".
func statusDocument(s *api.LstStatus) mapping {
	timeout := scalar("never")
	if s.Bounds.SessionTimeout > 0 {
		timeout = number(s.Bounds.SessionTimeout)
	}
	m := mapping{
		{"enabled", boolean(s.Enabled)},
		{"bounds", mapping{
			{"memory", number(s.Bounds.Memory)},
			{"session timeout", timeout},
			{"units", number(s.Bounds.Units)},
		}},
	}
	if c := s.Console; c != nil {
		m = append(m, entry{"console", mapping{
			{"session", text(c.Name)},
			{"id", text(fmt.Sprintf("%d@%s", c.Stamp, c.NID))},
			{"nodes", number(c.Nodes)},
		}})
	}
	if n := s.Session; n != nil {
		var tests sequence
		for k := range n.Tests {
			tests = append(tests, statusTest(&n.Tests[k]))
		}
		session := mapping{
			{"name", text(n.Name)},
			{"console", text(n.Console)},
			{"age", scalar(fmt.Sprintf("%.0f", n.Age))},
			{"brw errors", number(int64(n.BRWErrors))},
			{"ping errors", number(int64(n.PingErrors))},
		}
		if len(tests) > 0 {
			session = append(session, entry{"tests", tests})
		}
		m = append(m, entry{"session", session})
	}
	if !s.Enabled {
		return mapping{{"selftest", m}}
	}
	c := &s.Counters
	m = append(m, entry{"rpc", mapping{
		{"sent", number(int64(c.Sent))},
		{"received", number(int64(c.Received))},
		{"errors", number(int64(c.Errors))},
		{"dropped", number(int64(c.Dropped))},
		{"expired", number(int64(c.Expired))},
		{"bulk get", number(c.BulkGet)},
		{"bulk put", number(c.BulkPut)},
	}})
	return mapping{{"selftest", m}}
}

func statusTest(t *api.LstAgentTest) mapping {
	m := mapping{
		{"test", text(t.Kind)},
		{"batch", number(t.Batch)},
		{"index", number(t.Index)},
	}
	if !t.Client {
		return append(m, entry{"role", text("server")})
	}
	m = append(m, mapping{
		{"role", text("client")},
		{"units", number(t.Units)},
		{"active", number(t.Active)},
	}...)
	if l := t.Latency; l != nil {
		m = append(m, entry{"latency", mapping{
			{"count", number(l.Count)},
			{"p50", text(shortDuration(l.P50))},
			{"p90", text(shortDuration(l.P90))},
			{"p99", text(shortDuration(l.P99))},
			{"max", text(shortDuration(l.Max))},
		}})
	}
	return m
}

// shortDuration formats a duration, rounded to three digits: 1.23ms.
func shortDuration(d time.Duration) string {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
}
