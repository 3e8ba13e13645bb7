package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

// lnetErrors is the error form of both commands: lnetctl calls each "configure".
var lnetErrors = errorForm{op: "configure", entity: "lnet", byErrno: true}

const lnetExits = `0    success, also if nothing was to be done
1    help was asked for
240  LNet is in use (-16)
255  there is no lnetd to talk to (-1)
     else as the error's number, cut to 8 bits`

func (p *program) lnetCommand() *cobra.Command {
	return group("lnet", "LNet as a whole", p.lnetConfigureCommand(), p.lnetUnconfigureCommand())
}

func (p *program) lnetConfigureCommand() *cobra.Command {
	r := api.LNet{Configured: true}
	c := leaf(manual{
		use:   "configure [--all] [--large]",
		short: "bring LNet up",
		long: `lnetd is configured when it starts: this is for what "lnet unconfigure" took
down. Without --all the node has 0@lo alone then, and NIs are added to it; with
--all it is what lnetd was started with.`,
		example: "lnetdctl lnet configure\nlnetdctl lnet configure --all",
		exits:   lnetExits,
	}, func(ctx context.Context) error {
		return p.tell(lnetErrors, func(c *client.Client) error { return c.SetLNet(ctx, r) })
	})
	c.Flags().BoolVarP(&r.All, "all", "a", false, "apply lnetd's own configuration too")
	c.Flags().BoolVarP(&r.Large, "large", "l", false, "permit NIDs with IPv6 addresses")
	return c
}

func (p *program) lnetUnconfigureCommand() *cobra.Command {
	return leaf(manual{
		use:   "unconfigure",
		short: "take LNet down",
		long: `NIs, routes, peers, policies and fault rules go. It is refused while programs
have transfer machines, or a session of LNet selftest is held. lnetd goes on,
and most other commands fail until "lnet configure".`,
		example: "lnetdctl lnet unconfigure",
		exits:   lnetExits,
	}, func(ctx context.Context) error {
		return p.tell(lnetErrors, func(c *client.Client) error { return c.SetLNet(ctx, api.LNet{}) })
	})
}
