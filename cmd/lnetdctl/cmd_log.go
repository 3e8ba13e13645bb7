package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

func (p *program) logCommand() *cobra.Command {
	return group("log", "how lnetd logs", leaf(manual{
		use:   "show",
		short: "print the level and the format of lnetd's log",
		long: `"level" is the lowest level that is logged, "configured" the one that the
configuration and the command line say, which holds again after a reload, and
"format" how lines are written: json, text or journal. What the messages mean is
in docs/logs.md.`,
		example: "lnetdctl log show",
	}, func(ctx context.Context) error {
		return show(p, errorForm{op: "show", entity: "log"}, classic,
			func(c *client.Client) (api.Log, error) { return c.Log(ctx) },
			func(l api.Log) any { return l },
			func(l api.Log) mapping {
				return mapping{{"log", mapping{
					{"level", text(l.Level)}, {"configured", text(l.Configured)}, {"format", text(l.Format)},
				}}}
			})
	}))
}

func (p *program) setLogLevelCommand() *cobra.Command {
	c := command(manual{
		use:   "log_level debug | info | warn | error",
		short: "lowest level that lnetd logs: debug, info, warn, error",
		long: `The level is in force at once, also while another change is under way, until
lnetd restarts or its configuration is reloaded: then what that says holds again.
See it with: lnetdctl log show.`,
		example: "lnetdctl set log_level debug",
		exits: `0    success
1    help was asked for
234  there is no such level, or none was given (-22)
255  there is no lnetd to talk to (-1)`,
	}, func(ctx context.Context, operands []string) error {
		if len(operands) != 1 {
			p.hint("set log_level needs one level")
			return needsHelp{exitInvalid}
		}
		level := strings.ToLower(operands[0])
		return p.tell(errorForm{kind: oldDocument, op: "add", entity: "log_level"},
			func(c *client.Client) error { return c.SetLog(ctx, api.LogChange{Level: level}) })
	})
	c.ValidArgs = api.LogLevels()
	return c
}
