package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

func (p *program) logCommand() *cobra.Command {
	return group("log", "log level and format of lnetd", leaf(manual{
		use:   "show",
		short: "print the level and the format of lnetd's log",
		long: `"level" is the lowest level that is logged now. "configured" is the level of the
configuration and the command line, which applies again after a reload. "format" is the
format of the lines: json, text or journal. docs/logs.md explains the messages.`,
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
		long: `The level applies at once, even while another change is in progress. It lasts until lnetd
restarts or its configuration is reloaded. To see it: lnetdctl log show.`,
		example: "lnetdctl set log_level debug",
		exits: `0    success
1    help was requested
234  the level is missing or invalid (-22)
255  lnetd does not answer (-1)`,
	}, func(ctx context.Context, operands []string) error {
		if len(operands) != 1 {
			p.hint("set log_level needs one level: debug, info, warn or error")
			return needsHelp{exitInvalid}
		}
		level := strings.ToLower(operands[0])
		return p.tell(errorForm{kind: oldDocument, op: "add", entity: "log_level"},
			func(c *client.Client) error { return c.SetLog(ctx, api.LogChange{Level: level}) })
	})
	c.ValidArgs = api.LogLevels()
	return c
}
