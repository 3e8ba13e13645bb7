package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

func (b *backend) Routes() []api.Route {
	var routes []api.Route
	for _, r := range b.node.Routes() {
		routes = append(routes, api.Route{
			Net: r.Net, Gateway: r.Gateway, Hops: r.Hops, Priority: r.Priority, Up: r.Up, SingleHop: r.SingleHop,
		})
	}
	for _, r := range b.node.postponed.all() { // Up stays false
		routes = append(routes, api.Route{Net: r.Net, Gateway: r.Gateway, Hops: r.Hops, Priority: r.Priority})
	}
	slices.SortFunc(routes, compareRoutes) // the node keeps them in random order
	return routes
}

func (b *backend) AddRoute(ctx context.Context, r api.Route) error {
	err := b.node.AddRoute(ctx, r.Net, r.Gateway, node.RouteOptions{Hops: r.Hops, Priority: r.Priority})
	if waits := b.waitsOn(r.Gateway.Net()); waits != "" && errors.Is(err, node.ErrUnreachable) {
		return fmt.Errorf("%w: %s", err, waits)
	}
	return err
}

func (b *backend) DeleteRoute(ctx context.Context, net lnet.Net, gateway lnet.NID) error {
	if b.node.postponed.remove(net, gateway) {
		return nil
	}
	return b.node.DeleteRoute(ctx, net, gateway)
}

func (b *backend) Routing() api.Routing {
	info := b.node.Routing()
	return api.Routing{
		State: api.RoutingState(info.State),
		Ever:  info.Ever,
		CPTs: []api.Pools{{
			Tiny: api.Pool(info.Pools[0]), Small: api.Pool(info.Pools[1]), Large: api.Pool(info.Pools[2]),
		}},
	}
}

func (b *backend) SetRouting(_ context.Context, enabled bool) error {
	if enabled {
		return b.node.EnableRouting()
	}
	b.node.DisableRouting()
	return nil
}

func (b *backend) SetBuffers(_ context.Context, buffers api.Buffers) error {
	b.node.SetBuffers(node.Buffers(buffers))
	return nil
}
