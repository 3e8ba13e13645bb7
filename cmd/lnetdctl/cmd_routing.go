package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

var routingErrors = errorForm{op: "show", entity: "routing"}

func (p *program) routingCommand() *cobra.Command {
	c := leaf(manual{
		use:   "show",
		short: "print whether the node is a router, and its router buffers",
		long: `Prints nothing if routing has not been enabled since lnetd started. "enable" is 0 if
routing is disabled, 1 if it is enabled, 2 while it stops and 3 while it starts.`,
		example: "lnetdctl routing show",
	}, func(ctx context.Context) error {
		return show(p, routingErrors, classic,
			func(c *client.Client) (api.Routing, error) { return c.Routing(ctx) },
			func(r api.Routing) any { return r },
			routingDocument)
	})
	forwarded := []string{"route_count", "route_length", "drop_count", "drop_length"}
	return group("routing", "the routing of messages between nets", p.withRates(c, routingErrors, func(context.Context) (counted, error) {
		return nodeCounters(0, func(name string) bool { return slices.Contains(forwarded, name) }), nil
	}))
}

// routingDocument returns the document of "routing show" (lnetctl 5.3).
func routingDocument(r api.Routing) mapping {
	if !r.Ever {
		return nil
	}
	var list sequence
	for cpt := range r.CPTs {
		pools := &r.CPTs[cpt]
		list = append(list, mapping{{fmt.Sprintf("cpt[%d]", cpt), mapping{
			{"tiny", poolDocument(&pools.Tiny)},
			{"small", poolDocument(&pools.Small)},
			{"large", poolDocument(&pools.Large)},
		}}})
	}
	list = append(list, mapping{{"enable", number(int(r.State))}})
	return mapping{{"routing", list}, {"buffers", buffersDocument(r.Buffers())}}
}

func poolDocument(p *api.Pool) mapping {
	return mapping{
		{"npages", number(p.Pages)},
		{"nbuffers", number(p.Buffers)},
		{"credits", number(p.Credits)},
		{"mincredits", number(p.MinCredits)},
	}
}
