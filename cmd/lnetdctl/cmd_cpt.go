package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

func (p *program) cptOfNIDCommand() *cobra.Command {
	return command(manual{
		use:   "cpt-of-nid NIDS...",
		short: "print the CPU partitions that NIDs belong to",
		long: `Messages to and from a NID are processed on the CPUs of its partition. NIDS has the
same form as for ping.`,
		example: "lnetdctl cpt-of-nid 10.0.0.1@tcp 10.0.0.[2-4]@tcp",
	}, func(ctx context.Context, operands []string) error { return p.cptOfNID(ctx, operands) })
}

func (p *program) cptOfNID(ctx context.Context, operands []string) error {
	if len(operands) == 0 {
		return needsHelp{exitInvalid}
	}
	form := errorForm{op: "show", entity: "cpt-of-nid"}
	nids, err := p.expandNIDs(ctx, strings.Join(operands, ","), api.PeerNIDsMax)
	if err != nil {
		return p.badList(form, err)
	}
	texts := make([]string, len(nids))
	for k, nid := range nids {
		texts[k] = nid.String()
	}
	return show(p, form, narrow,
		func(c *client.Client) ([]api.CPTOfNID, error) { return c.CPTs(ctx, strings.Join(texts, ",")) },
		func(list []api.CPTOfNID) any { return api.CPTs{CPTs: list} },
		func(list []api.CPTOfNID) mapping {
			var items sequence
			for _, c := range list {
				items = append(items, mapping{{"nid", text(c.NID.String())}, {"cpt", number(c.CPT)}})
			}
			return section("cpt-of-nid", items)
		})
}

func (p *program) serviceIDCommand() *cobra.Command {
	return leaf(manual{
		use:   "service-id",
		short: "report that lnetd has no InfiniBand service ID",
		long: `This command of lnetctl prints the service ID by which InfiniBand nodes find each other.
lnetd does not use one, so the command always fails.`,
		example: "lnetdctl service-id",
		exits: `1    help was requested
234  always (-22)`,
	}, func(context.Context) error {
		return p.invalid(errorForm{op: "show", entity: "service-id"}, -95, "lnetd has no driver for InfiniBand, and no service ID", "")
	})
}
