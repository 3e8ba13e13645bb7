package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

func (p *program) globalCommand() *cobra.Command {
	return group("global", "the node's parameters", leaf(manual{
		use:     "show",
		short:   "print the node's parameters",
		long:    "Times are in seconds. lnd_timeout is computed from the others; all others can be set.",
		example: "lnetdctl global show",
	}, func(ctx context.Context) error {
		return show(p, errorForm{op: "show", entity: "global"}, classic,
			func(c *client.Client) (api.Globals, error) { return c.Globals(ctx) },
			func(g api.Globals) any { return g },
			globalsDocument)
	}))
}
