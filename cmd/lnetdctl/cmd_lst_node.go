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
		short: "let this node take part in tests (not in Lustre's lst)",
		long: `From now on any console on the network may have this node send and answer test
requests, within its bounds, and this node may be a console. Options hold until
lst disable; without them, and where they are 0, the configuration does (selftest
in its section lnetd, where enabled: true has the same effect from the start).`,
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
	f.StringVar(&memory, "memory", "", "`SIZE` of memory for bulk data, with k, M, G or T behind")
	f.IntVar(&b.SessionTimeout, "session-timeout", 0, "`SECONDS` that a session lives without its console")
	f.IntVar(&b.Units, "units", 0, "`N` requests at once as a client, of all tests")
	return c
}

func (p *program) lstDisableCommand() *cobra.Command {
	var force bool
	c := command(manual{
		use:     "disable [--force]",
		short:   "let this node take part in tests no more (not in Lustre's lst)",
		example: "lnetdctl lst disable --force",
		long:    `A node that is in a session, or has one as its console, is disabled with --force.`,
		exits:   lstExits,
	}, func(ctx context.Context, operands []string) error {
		if err := lstOperands(operands, 0, 0); err != nil {
			return err
		}
		return p.lstSwitch("disable", func(c *client.Client) error {
			return c.LstDisable(ctx, api.LstDisable{Force: force})
		})
	})
	c.Flags().BoolVar(&force, "force", false, "end the sessions that there are")
	return c
}

// memorySize parses a number of bytes with an optional unit.
func memorySize(s string) (int64, bool) {
	s, unit := cutUnit(s, "kmgt")
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > api.LstMemoryMax>>unit {
		return 0, false
	}
	return n << unit, true
}

// lstSwitch enables or disables selftest.
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
		short:   "show how this node takes part in tests (not in Lustre's lst)",
		example: "lnetdctl lst status",
		long: `The session is the one that this node is in, whoever is its console; of tests
whose client it is, the times of their requests are shown.`,
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

// shortDuration formats a duration with three digits, such as 1.23ms.
func shortDuration(d time.Duration) string {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
}
