package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// routesLeftOut returns the routes that warnings with a line name, with the cause, in order.
func routesLeftOut(warnings []api.Problem) (all []string) {
	for _, w := range warnings {
		if route, why, ok := strings.Cut(strings.TrimPrefix(w.Text, "the route to "), " is ignored: "); ok && w.Line > 0 {
			all = append(all, route+": "+why)
		}
	}
	slices.Sort(all)
	return all
}

// routeNames returns the routes of a node.
func (r *nodeRun) routeNames() (all []string) {
	for _, route := range r.Routes() {
		all = append(all, fmt.Sprintf("%s through %s", route.Net, route.Gateway))
	}
	return all
}

// Given routes to nets that this host is on, waits for, or is not on, by gateways on the same
// nets, each is left out with a warning, and nothing is rejected: at the start, with --check,
// import, apply, plan and a reload. A site's file is meant for all hosts.
//
// decisions 132
func TestRoutesByGatewaysOnTheirOwnNets(t *testing.T) {
	const nets = "net: [{net: tcp, interfaces: [eth0]}, {net: tcp2, interfaces: [eth9]}]\n"
	const good = "tcp7 through 10.77.0.1@tcp"
	forms := map[string]string{
		"route": nets + `route:
  - {net: tcp, gateway: 10.77.0.1@tcp}
  - {net: tcp2, gateway: 10.79.0.1@tcp2}
  - {net: tcp3, gateway: 10.80.0.1@tcp3}
  - {net: tcp2, gateway: 10.77.0.1@tcp}
  - {net: tcp7, gateway: 10.77.0.1@tcp}
`,
		"module parameter": nets + `lnetd: {routes: "tcp 10.77.0.1@tcp; tcp2 10.79.0.1@tcp2; tcp3 10.80.0.1@tcp3; tcp2 10.77.0.1@tcp; tcp7 10.77.0.1@tcp"}` + "\n",
	}
	want := []string{
		"tcp through 10.77.0.1@tcp: tcp is a local net", "tcp2 through 10.79.0.1@tcp2: tcp2 is a local net",
		"tcp3 through 10.80.0.1@tcp3: the gateway is on tcp3, the destination net of the route", "tcp2 through 10.77.0.1@tcp: tcp2 is a local net",
	}
	for name, text := range forms {
		t.Run(name, func(t *testing.T) {
			warned := func(how string, warnings []api.Problem, err error) {
				t.Helper()
				if diff := cmp.Diff(slices.Sorted(slices.Values(want)), routesLeftOut(warnings)); diff != "" || err != nil {
					t.Errorf("%s: %v, -want +got:\n%s", how, err, diff)
				}
			}
			drivers := Drivers{TCP(host(lo, device("eth0", "10.77.0.11/24")))}
			c := parse(t, text)
			state, err := c.Settle(twoInterfaces)
			waits, refused := drivers.Foresee("t.yaml", &state, "")
			warned("--check", problemsOf(waits), err)
			if len(refused) > 0 {
				t.Errorf("--check refuses %v", refused)
			}

			r := startNodeWith(t, c, drivers).ready(t)
			if got := r.routeNames(); !slices.Equal(got, []string{good}) {
				t.Errorf("the start gives %q", got)
			}
			if n := strings.Count(r.log.String(), `"msg":"ignoring a route of the configuration"`); n != len(want) {
				t.Errorf("%d lines of routes at the start:\n%s", n, r.log)
			}
			for _, mode := range []api.Mode{api.ModeAdd, api.ModeReplace} {
				for _, dry := range []bool{true, false} {
					request := api.ConfigurationChange{Mode: mode, Dry: dry, Wait: true, Document: api.Document{Name: "t.yaml", Text: text}}
					done, err := r.ChangeConfiguration(t.Context(), request)
					warned(fmt.Sprintf("%s, dry %v", mode, dry), done.Warnings, err)
				}
			}
			if err := r.reload(t, c); err != nil {
				t.Errorf("a reload: %v", err)
			}
			if got := r.routeNames(); !slices.Equal(got, []string{good}) {
				t.Errorf("in the end there is %q", got)
			}
		})
	}
}

// If one of several routes cannot be added, none of them is.
func TestRoutesComeAllOrNone(t *testing.T) {
	r := startNode(t, parse(t, beforeChange)).ready(t)
	before := r.configuration(t)
	var steps []config.Step
	for k := range 5 {
		gateway := nid(t, fmt.Sprintf("10.77.1.%d@tcp", k+1))
		if k == 3 {
			gateway = nid(t, "10.77.0.11@o2ib5") // on the route's own net
		}
		steps = append(steps, config.Change[config.Route]{To: &config.Route{Net: lnet.MakeNet(lnet.TypeO2IB, 5), Gateway: gateway, Where: "here"}})
	}
	var err error
	if busy := r.InTurn(t.Context(), func() { err = r.node.apply(t.Context(), steps, false) }); busy != nil {
		t.Fatal(busy)
	}
	var f *api.Fault
	if !errors.As(err, &f) || f.Text != "here: the route to o2ib5 through 10.77.0.11@o2ib5 cannot be added" {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(before, r.configuration(t), sameThings); diff != "" {
		t.Error(diff)
	}
}
