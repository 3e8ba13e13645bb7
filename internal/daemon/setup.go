package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// addRules puts the policies in force.
func (t *nodeTask) addRules(ctx context.Context) error {
	c := &t.config
	if len(c.Rules) == 0 && len(c.TypedRules) == 0 {
		return nil
	}
	err := t.ChangePolicies(ctx, func(p *selection.Policies) error {
		for _, r := range c.Rules {
			if err := p.Add(r, selection.Append); err != nil {
				return err
			}
		}
		for _, r := range c.TypedRules {
			if _, err := p.AddTyped(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return control.Fault{
			Code: control.CodeConfigInvalid, Errno: -int(control.Errno(err)), Text: "the policies cannot be put in force",
			Remedy: "check the sections \"udsp\" and \"selection\" of the configuration",
		}.Because(err)
	}
	t.log.Info("policies are in force", "rules", len(c.Rules), "typed_rules", len(c.TypedRules))
	return nil
}

// addPeers configures the peers.
func (t *nodeTask) addPeers(ctx context.Context) error {
	for k := range t.config.Peers {
		p := &t.config.Peers[k]
		if t.toBeDiscovered(p) {
			t.log.Debug("peer is a gateway, which is discovered", "nid", p.Primary.String(), "at", p.Where)
			continue
		}
		err := t.ConfigurePeer(ctx, p.Primary, p.Others, discovery.ConfigureOptions{SingleRail: p.SingleRail})
		if err != nil {
			return refused(ctx, err, control.Fault{
				Text:   fmt.Sprintf("%s: the peer %s cannot be configured", p.Where, p.Primary),
				Remedy: "see that each NID stands at one peer alone",
			})
		}
	}
	if n := len(t.config.Peers); n > 0 {
		t.log.Info("peers configured", "peers", n)
	}
	return nil
}

// toBeDiscovered tells whether an entry is that of a gateway that had not been
// discovered when a kernel exported its configuration: such are never Multi-Rail
// and have one NID. What says so little must not keep discovery from its work.
func (t *nodeTask) toBeDiscovered(p *config.Peer) bool {
	return p.SingleRail && len(p.Others) == 0 &&
		slices.ContainsFunc(t.config.Routes, func(r config.Route) bool { return r.Gateway == p.Primary })
}

// addRoutes adds the routes. Those that lead nowhere at the moment, and those that
// are there already, are passed over as LNet does (lnetctl 13.2).
func (t *nodeTask) addRoutes(ctx context.Context) error {
	added := 0
	for k := range t.config.Routes {
		r := &t.config.Routes[k]
		err := t.AddRoute(ctx, r.Net, r.Gateway, r.RouteOptions)
		switch {
		case err == nil:
			added++
		case errors.Is(err, node.ErrUnreachable), errors.Is(err, node.ErrExists):
			t.log.Warn("route is left out", "net", r.Net.String(), "gateway", r.Gateway.String(), "at", r.Where, "cause", err)
		default:
			return refused(ctx, err, control.Fault{
				Text:   fmt.Sprintf("%s: the route to %s by %s cannot be added", r.Where, r.Net, r.Gateway),
				Remedy: "correct the section \"route\" of the configuration",
			})
		}
	}
	if added > 0 {
		t.log.Info("routes added", "routes", added)
	}
	return nil
}

// refused is an entry of the configuration that the node did not take.
func refused(ctx context.Context, err error, f control.Fault) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.Code, f.Errno = control.CodeConfigInvalid, -int(control.Errno(err))
	return f.Because(err)
}

// checkGateways waits until each gateway has answered once, or not, if routers are
// to be checked before use (lnet-core 8.5).
func (t *nodeTask) checkGateways(ctx context.Context) error {
	if !t.config.Parameters.CheckRoutersBeforeUse {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.config.Parameters.RouterPingTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for nid := range t.gateways() {
		wg.Go(func() {
			if _, err := t.Discover(ctx, nid, false); err != nil {
				t.log.Warn("gateway does not answer: its routes are down", "nid", nid.String(), "cause", err)
			}
		})
	}
	wg.Wait()
	return nil
}

// gateways are those of the routes that there are, each once.
func (t *nodeTask) gateways() map[lnet.NID]bool {
	all := map[lnet.NID]bool{}
	for _, r := range t.Routes() {
		all[r.Gateway] = true
	}
	return all
}

// startRouting makes the node a router, unless it is one from its beginning.
func (t *nodeTask) startRouting(ctx context.Context) error {
	switch t.config.Routing {
	case config.RoutingOff:
		return nil
	case config.RoutingAtOnce:
		t.log.Info("this node is a router")
		return nil
	}
	if err := t.EnableRouting(); err != nil {
		return refused(ctx, err, control.Fault{
			Text: "the node cannot forward", Remedy: "see the sections \"routing\" and \"buffers\" of the configuration",
		})
	}
	p := t.Parameters()
	t.log.Info("this node is a router, as others will hear in a while", "after", (p.RouterCheckInterval + p.RouterPingTimeout).String())
	return nil
}
