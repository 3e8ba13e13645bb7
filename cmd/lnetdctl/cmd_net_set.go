package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/lnet"
)

var netSetErrors = errorForm{kind: oldDocument, op: "net", entity: "set", exit: exitInvalid}

// netSetOptions holds the options of "net set".
type netSetOptions struct {
	healthOptions
	net, lndTimeout string
	tunables        tunableOptions
}

func (p *program) netSetCommand() *cobra.Command {
	var o netSetOptions
	c := leaf(manual{
		use:   "set {--nid NID | --all | --net NET} [--health VALUE] [--lnd-timeout N] [TUNABLES]",
		short: "change the settings of NIs",
		long: `lnetd prefers NIs with higher health. It pings an NI whose health is below 1000 until
its health is 1000 again. An NI with health 0 is announced as down.

Numbers of connections apply to peers that connect afterwards. Other tunables apply at
once or with the next message. --lnd-timeout applies to all NIs of --net; with 0 it is
computed from transaction_timeout and retry_count.`,
		example: `lnetdctl net set --nid 10.0.0.1@tcp --health 500
lnetdctl net set --all --busy-poll 50
lnetdctl net set --net tcp --lnd-timeout 30`,
		exits: netExits,
	}, func(ctx context.Context) error { return p.netSet(ctx, o) })
	o.add(c, "NI")
	f := c.Flags()
	f.StringVarP(&o.net, "net", "i", "", "apply --lnd-timeout and tunables to the NIs of `NET`")
	o.tunables.add(c, true)
	f.StringVarP(&o.lndTimeout, "lnd-timeout", "l", "", "timeout of the LND in seconds, a `NUMBER` from "+api.LNDTimeoutRange.String())
	return c
}

func (p *program) netSet(ctx context.Context, o netSetOptions) error {
	changes, err := p.niTunables(o)
	if err != nil {
		return err
	}
	for _, r := range changes {
		if err := p.tell(netSetErrors, func(c *client.Client) error { return c.SetNITunables(ctx, r) }); err != nil {
			return err
		}
	}
	if len(changes) > 0 && o.health == "" {
		return nil
	}
	if t := o.tunables.first(); t != nil && o.health == "" {
		p.warn(fmt.Sprintf("--%s %s is negative; nothing is changed; valid values: %d to %d", t.Option(), t.given, t.Min, t.Max))
		return nil
	}
	return p.setHealth(ctx, netSetErrors, o.healthOptions, (*client.Client).SetNIHealth)
}

// niTunables returns the changes of tunables that the options request. If it returns an error, it has printed
// it.
func (p *program) niTunables(o netSetOptions) (changes []api.NITunables, err error) {
	var net lnet.Net
	if o.net != "" {
		if net, err = named(p, o.net, lnet.ParseNet); err != nil {
			return nil, p.invalid(netSetErrors, -22, "Invalid network type: "+o.net, err.Error())
		}
	}
	values, err := o.tunables.read(p, netSetErrors)
	if err != nil {
		return nil, err
	}
	if len(values) > 0 {
		r := api.NITunables{All: o.all, LND: values}
		switch {
		case o.nid != "":
			if r.NID, err = p.readNID(netSetErrors, o.nid); err != nil {
				return nil, err
			}
		case !o.all:
			r.Net = net
		}
		changes = append(changes, r)
	}
	if o.lndTimeout == "" {
		return changes, nil
	}
	seconds, ok := parseNumber(o.lndTimeout)
	switch {
	case o.net == "":
		return nil, p.invalid(netSetErrors, -22, "Specified --lnd-timeout without --net option", "")
	case !ok || seconds < 0:
		return nil, p.invalid(netSetErrors, -22, fmt.Sprintf("Invalid LND timeout value '%s', must be >= 0", o.lndTimeout), "")
	case api.LNDTimeoutRange.Check(seconds) != nil:
		return nil, p.invalid(netSetErrors, -22, fmt.Sprintf("Invalid LND timeout value '%s', must be %s", o.lndTimeout, api.LNDTimeoutRange), "")
	}
	return append(changes, api.NITunables{Net: net, LNDTimeout: new(int(seconds))}), nil
}

// readNID parses a NID. If it returns an error, it has printed it.
func (p *program) readNID(form errorForm, given string) (lnet.NID, error) {
	nid, err := named(p, given, lnet.ParseNID)
	if err != nil {
		return nid, p.invalid(form, -22, fmt.Sprintf("cannot parse NID '%s'", given), err.Error())
	}
	return nid, nil
}
