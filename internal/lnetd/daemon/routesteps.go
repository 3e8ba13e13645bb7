package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/node"
)

func newRoute(r *config.Route) node.NewRoute {
	return node.NewRoute{Net: r.Net, Gateway: r.Gateway, RouteOptions: r.RouteOptions}
}

// changeRoutes adds or deletes the routes of one batch (see batchOf). If one of the routes cannot be
// added, none of them is.
func (t *nodeTask) changeRoutes(ctx context.Context, steps []config.Step) error {
	var come []*config.Route
	var gone []node.NewRoute
	for _, s := range steps {
		if c := s.(config.Change[config.Route]); c.To != nil {
			come = append(come, c.To)
		} else {
			t.postponed.remove(c.From.Net, c.From.Gateway)
			gone = append(gone, newRoute(c.From))
		}
	}
	if len(gone) > 0 {
		return t.DeleteRoutes(ctx, gone)
	}
	return t.addRoutes(ctx, come)
}

// leaveOut logs that a configured route is ignored because of cause.
func (t *nodeTask) leaveOut(r *config.Route, cause error) {
	t.log.Warn("ignoring a route of the configuration", "net", r.Net.String(), "gateway", r.Gateway.String(), "configured_at", r.Where, "cause", cause)
}

// addRoutes adds routes to the node. Like LNet, it ignores routes that exist already or whose gateway
// is not on a local net (lnetctl 13.2). If the gateway's net has only NIs that wait for their
// interface, the route is postponed. If any other error occurs, no route is added.
func (t *nodeTask) addRoutes(ctx context.Context, routes []*config.Route) error {
	own := t.nids()
	routes = slices.DeleteFunc(slices.Clone(routes), func(r *config.Route) bool {
		is := slices.Contains(own, r.Gateway)
		if is {
			t.leaveOut(r, errors.New("the gateway is this node"))
		}
		return is
	})
	list := make([]node.NewRoute, len(routes))
	for k, r := range routes {
		list[k] = newRoute(r)
	}
	errs, err := t.AddRoutes(ctx, list)
	if err != nil {
		return err
	}
	var added []node.NewRoute
	var failed error
	for k, r := range routes {
		switch err := errs[k]; {
		case err == nil:
			added = append(added, list[k])
		case errors.Is(err, node.ErrUnreachable) && t.engines.waitsOn(r.Gateway.Net()):
			t.postpone(r)
		case errors.Is(err, node.ErrUnreachable), errors.Is(err, node.ErrExists):
			t.leaveOut(r, err)
		case failed == nil:
			failed = refused(err, api.Fault{
				Text:   fmt.Sprintf("%s: the route to %s through %s cannot be added", r.Where, r.Net, r.Gateway),
				Remedy: "correct the section \"route\" of the configuration",
			})
		}
	}
	if failed == nil {
		return nil
	}
	for _, r := range routes {
		t.postponed.remove(r.Net, r.Gateway)
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	return errors.Join(failed, t.DeleteRoutes(back, added))
}
