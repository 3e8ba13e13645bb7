package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/lnet"
)

func (p *program) routeCommand() *cobra.Command {
	return group("route", "the routes to remote nets",
		p.routeAddCommand(), p.routeDelCommand(), p.routeShowCommand())
}

// routeOptions holds the options of the commands about routes.
type routeOptions struct {
	net            string
	gateways       cli.List
	hops, priority string
}

func (o *routeOptions) add(c *cobra.Command) {
	c.Flags().StringVarP(&o.net, "net", "n", "", "destination `NET` of the route")
}

// addGateways adds the option --gateway, which names one or more gateways, to a command.
func (o *routeOptions) addGateways(c *cobra.Command) {
	c.Flags().VarP(&o.gateways, "gateway", "g", "`NIDS` of gateways; may be repeated")
}

func (o *routeOptions) addFigures(c *cobra.Command, hops, priority string) {
	f := c.Flags()
	f.StringVarP(&o.hops, "hop", "c", "", hops)
	f.Var(f.Lookup("hop").Value, "hop-count", "the same as --hop `N`")
	f.StringVarP(&o.priority, "priority", "p", "", priority)
}

var (
	routeAddErrors  = errorForm{op: "add", entity: "route"}
	routeDelErrors  = errorForm{op: "del", entity: "route"}
	routeShowErrors = errorForm{op: "show", entity: "route"}
	routeMissing    = errorForm{kind: plainText}
)

func (p *program) routeAddCommand() *cobra.Command {
	var o routeOptions
	c := leaf(manual{
		use:   "add --net NET --gateway NIDS [--hop N] [--priority N]",
		short: "add routes",
		long: `NIDS is a NID of the gateway on a net of this node. With a comma list of NIDs or NID
ranges, one route through each gateway is added. Either all routes are added or none.
Priority 0 is the highest. Among routes with the same priority, lnetd prefers those with
fewer hops.`,
		example: `lnetdctl route add --net o2ib --gateway 10.0.0.7@tcp
lnetdctl route add --net tcp2 --gateway 10.0.0.[7-8]@tcp --hop 2 --priority 1`,
		exits: `0    success
1    help was requested
234  a route cannot be added, or the options are invalid (-22)
255  lnetd does not answer (-1)`,
	}, func(ctx context.Context) error { return p.routeAdd(ctx, o) })
	o.add(c)
	o.addGateways(c)
	o.addFigures(c, "number `N` of hops, 1 to 255", "priority `N`; 0 is the highest")
	return c
}

func (p *program) routeAdd(ctx context.Context, o routeOptions) error {
	net, gateways, err := p.routeEnds(ctx, o, routeAddErrors)
	if err != nil {
		return err
	}
	r := api.RouteAddition{Net: net, Gateways: gateways}
	// A value that is not a number is ignored (lnetctl 4.6). -1 means that no number of hops is set.
	if n, ok := p.numberOrNone("hop", o.hops); ok && n != -1 {
		if api.HopsRange.Check(n) != nil {
			return p.invalid(routeAddErrors, -22, "invalid hop count must be between 1 and 255", "")
		}
		r.Hops = uint32(n)
	}
	if n, ok := p.numberOrNone("priority", o.priority); ok {
		if n < 0 {
			return p.invalid(routeAddErrors, -22, "invalid priority, must not be negative", "")
		}
		r.Priority = uint32(min(n, 1<<31)) // lnetd rejects numbers of more than 31 bits
	}
	return p.tell(routeAddErrors, func(c *client.Client) error { return c.AddRoutes(ctx, r) })
}

func (p *program) routeDelCommand() *cobra.Command {
	var o routeOptions
	c := leaf(manual{
		use:   "del --net NET --gateway NIDS",
		short: "delete routes",
		long: `Deletes all of the routes, or none if one of them does not exist. In that case the
command succeeds, as in lnetctl, but with --json it fails.`,
		example: `lnetdctl route del --net o2ib --gateway 10.0.0.7@tcp`,
		exits: `0    success, or the route does not exist
1    help was requested
234  the options are invalid (-22)
255  lnetd does not answer (-1)`,
	}, func(ctx context.Context) error { return p.routeDel(ctx, o) })
	o.add(c)
	o.addGateways(c)
	return c
}

func (p *program) routeDel(ctx context.Context, o routeOptions) error {
	net, gateways, err := p.routeEnds(ctx, o, routeDelErrors)
	if err != nil {
		return err
	}
	return p.tell(routeDelErrors, func(c *client.Client) error {
		err := c.DeleteRoutes(ctx, api.RouteDeletion{Net: net, Gateways: gateways})
		if err != nil && api.FaultOf(err).Code == api.CodeRouteUnknown && !p.json {
			p.warn(api.FaultOf(err).Text)
			return nil
		}
		return err
	})
}

// routeEnds returns the net and the gateways that the options of a command name. If it returns an error, it has
// printed it.
func (p *program) routeEnds(ctx context.Context, o routeOptions, form errorForm) (lnet.Net, []lnet.NID, error) {
	const missing = "missing mandatory parameters:"
	switch {
	case o.net == "" && o.gateways == "":
		return 0, nil, p.invalid(routeMissing, -22, missing+"'net , gateway'", "")
	case o.net == "":
		return 0, nil, p.invalid(routeMissing, -22, missing+"'net'", "")
	case o.gateways == "":
		return 0, nil, p.invalid(routeMissing, -22, missing+"'gateway'", "")
	}
	net, err := named(p, o.net, lnet.ParseNet)
	if err != nil {
		return 0, nil, p.invalid(form, -2, "cannot parse net", err.Error())
	}
	gateways, err := p.expandNIDs(ctx, o.gateways.String(), api.RouteGatewaysMax)
	if err != nil {
		return 0, nil, p.badList(form, err)
	}
	return net, gateways, nil
}

func (p *program) routeShowCommand() *cobra.Command {
	var o routeOptions
	var gateway, level string
	c := leaf(manual{
		use:   "show [--net NET] [--gateway NID] [--hop N] [--priority N] [--verbose]",
		short: "print the routes",
		long: `With --verbose it also prints hops, priority, state and type; hop -1 means that the
number of hops is undefined. Only routes that match all options are printed. The rates of
a route are those of all messages with its gateway.`,
		example: `lnetdctl route show -v
lnetdctl route show --net o2ib`,
	}, func(ctx context.Context) error {
		filter := p.routeFilter(o, gateway)
		return show(p, routeShowErrors, wide,
			func(c *client.Client) ([]api.Route, error) { return c.Routes(ctx, filter) },
			func(routes []api.Route) any { return api.Routes{Routes: routes} },
			func(routes []api.Route) mapping { return routesDocument(routes, verbosityLevel(level)) })
	})
	o.add(c)
	c.Flags().StringVarP(&gateway, "gateway", "g", "", "`NID` of the gateway")
	o.addFigures(c, "number `N` of hops", "priority `N`")
	verbosity(c, &level, "print all details; all `LEVEL`s mean the same")
	return p.withRates(c, routeShowErrors, func(context.Context) (counted, error) {
		filter := p.routeFilter(o, gateway)
		return routeCounters(func(ctx context.Context, c *client.Client) ([]api.Route, error) { return c.Routes(ctx, filter) }), nil
	})
}

// routeFilter returns the filter that the options of "route show" describe.
func (p *program) routeFilter(o routeOptions, gateway string) api.RouteFilter {
	filter := api.RouteFilter{Net: o.net, Gateway: gateway, Hops: -1, Priority: -1}
	if n, ok := p.numberOrNone("hop", o.hops); ok {
		filter.Hops = max(n, 0) // -1 selects routes for which no number of hops is set
	}
	if n, ok := p.numberOrNone("priority", o.priority); ok {
		filter.Priority = n
	}
	return filter
}

// routesDocument returns the document of "route show" (lnetctl 5.2).
func routesDocument(routes []api.Route, level int64) mapping {
	var list sequence
	for i := range routes {
		r := &routes[i]
		m := mapping{
			{"net", text(r.Net.String())},
			{"gateway", text(r.Gateway.String())},
		}
		if level >= 1 {
			hops, state, kind := int64(r.Hops), "down", "multi-hop"
			if hops == 0 {
				hops = -1
			}
			if r.Up {
				state = "up"
			}
			if r.SingleHop {
				kind = "single-hop"
			}
			m = append(m,
				entry{"hop", number(hops)},
				entry{"priority", number(uint64(r.Priority))},
				entry{"state", text(state)},
				entry{"type", text(kind)},
			)
		}
		list = append(list, m)
	}
	return section("route", list)
}
