package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

var discoverErrors = errorForm{op: "manage", entity: "discover"}

func (p *program) discoverCommand() *cobra.Command {
	var force bool
	c := command(manual{
		use:   "discover [--force] NIDS...",
		short: "discover peers and print their NIDs",
		long: `Asks the peers for their NIDs, adds these to the peer table, and sends the peers the
NIDs of this node. A peer that is up to date is not asked again without --force. NIDS
has the same form as for ping; 0@lo is the node itself.`,
		example: `lnetdctl discover 10.0.0.1@tcp
lnetdctl discover --force 10.0.0.[1-4]@tcp`,
		exits: `0    every peer was discovered, or help was requested
234  NIDS is invalid, or the request was refused (-22)
255  a peer could not be discovered, NIDS is missing, or lnetd does not
     answer (-1)`,
		helps: true,
	}, func(ctx context.Context, operands []string) error { return p.discover(ctx, force, operands) })
	c.Flags().BoolVarP(&force, "force", "f", false, "also discover peers that are up to date")
	return c
}

func (p *program) discover(ctx context.Context, force bool, operands []string) error {
	if len(operands) == 0 {
		const missing = "Missing nid argument"
		if p.json {
			p.failJSON(&api.Fault{Code: api.CodeRequestInvalid, Errno: -22, Text: missing})
		} else {
			fmt.Fprintln(p.stdout, missing)
		}
		return status(exitFailure)
	}
	return p.discoverTargets(ctx, discoverErrors, force, operands)
}

// discoverTargets makes lnetd discover the peers that targets name, and prints the results.
func (p *program) discoverTargets(ctx context.Context, form errorForm, force bool, targets []string) error {
	nids, err := p.expandTargets(ctx, targets, api.PingTargetsMax)
	if err != nil {
		return p.badList(form, err)
	}
	client := p.client()
	defer client.Close()
	results, err := client.Discover(ctx, api.DiscoverRequest{NIDs: nids, Force: force})
	if err != nil {
		return p.refused(form, err)
	}
	return p.showResults(form, results)
}
