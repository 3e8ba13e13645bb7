package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/control/client"
)

var netSetErrors = errorForm{kind: oldDocument, op: "net", entity: "set", exit: exitInvalid}

// netSetOptions are those of "net set", with those that only a restart changes.
type netSetOptions struct {
	healthOptions
	net, conns, lndTimeout string
}

func (p *program) netSetCommand() *cobra.Command {
	var o netSetOptions
	c := leaf(manual{
		use:   "set {--nid NID | --all} [--health VALUE]",
		short: "set the health of NIs",
		long: `A health below 1000 makes the NI less preferred than others, and has it pinged
until it is at its best again. At 0 the NI is announced as down.

The connections per peer and the LND's timeout belong to the configuration of
lnetd, where a restart puts them in force; here they are refused.`,
		example: `lnetdctl net set --nid 10.0.0.1@tcp --health 500
lnetdctl net set --all --health 1000`,
	}, func(ctx context.Context) error { return p.netSet(ctx, o) })
	o.add(c, "NI")
	f := c.Flags()
	f.StringVarP(&o.net, "net", "i", "", "`NET` whose LND --lnd-timeout is about")
	f.StringVarP(&o.conns, "conns-per-peer", "m", "", "refused: `NUMBER` of connections per peer")
	f.StringVarP(&o.lndTimeout, "lnd-timeout", "l", "", "refused: timeout of the LND in `SECONDS`")
	return c
}

func (p *program) netSet(ctx context.Context, o netSetOptions) error {
	switch {
	case o.conns != "":
		return p.invalid(netSetErrors, -95, "conns_per_peer cannot change while an NI is up",
			"set conns_per_peer among the NI's lnd tunables in the configuration, and restart lnetd")
	case o.lndTimeout != "" && o.net == "":
		return p.invalid(netSetErrors, -22, "Specified --lnd-timeout without --net option", "")
	case o.lndTimeout != "":
		return p.invalid(netSetErrors, -95, "the LND timeout cannot change while an NI is up",
			"it follows from transaction_timeout and retry_count, or from lnetd's configuration")
	}
	return p.setHealth(ctx, netSetErrors, o.healthOptions, (*client.Client).SetNIHealth)
}
