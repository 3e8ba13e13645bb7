package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

// lnetErrors is the form of the errors of "lnet configure" and "lnet unconfigure". As in lnetctl, both have the
// word "configure".
var lnetErrors = errorForm{op: "configure", entity: "lnet", byErrno: true}

const lnetExits = `0    success, or nothing had to be done
1    help was requested
240  LNet is in use (-16)
255  lnetd does not answer (-1)
other values: the error number, truncated to 8 bits`

func (p *program) lnetCommand() *cobra.Command {
	return group("lnet", "start or stop LNet as a whole", p.lnetConfigureCommand(), p.lnetUnconfigureCommand())
}

func (p *program) lnetConfigureCommand() *cobra.Command {
	r := api.LNet{Configured: true}
	c := leaf(manual{
		use:   "configure [--all] [--large]",
		short: "start LNet",
		long: `Starts LNet again after "lnet unconfigure"; when lnetd itself starts, LNet is already
configured. Without --all the node has only 0@lo, and NIs must be added. With --all the
node gets the configuration that lnetd was started with.`,
		example: "lnetdctl lnet configure\nlnetdctl lnet configure --all",
		exits:   lnetExits,
	}, func(ctx context.Context) error {
		return p.tell(lnetErrors, func(c *client.Client) error { return c.SetLNet(ctx, r) })
	})
	c.Flags().BoolVarP(&r.All, "all", "a", false, "also apply the configuration of lnetd")
	c.Flags().BoolVarP(&r.Large, "large", "l", false, "allow NIDs with IPv6 addresses")
	return c
}

func (p *program) lnetUnconfigureCommand() *cobra.Command {
	return leaf(manual{
		use:   "unconfigure",
		short: "stop LNet",
		long: `Deletes all NIs, routes, peers, policies and fault rules. The command is refused while
programs have transfer machines, or while a session of LNet selftest exists. lnetd keeps
running, but most other commands fail until "lnet configure".`,
		example: "lnetdctl lnet unconfigure",
		exits:   lnetExits,
	}, func(ctx context.Context) error {
		return p.tell(lnetErrors, func(c *client.Client) error { return c.SetLNet(ctx, api.LNet{}) })
	})
}
