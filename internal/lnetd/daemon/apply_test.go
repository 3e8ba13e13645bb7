package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// A kernel node's export takes effect. The node itself, which is among the exported peers, is
// left out.
//
// lnetctl 8 (3)
// decisions 97
func TestExportIsApplied(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "config", "testdata", "captures", "cli-backup-peerA.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r := startNode(t, parse(t, string(b))).ready(t)
	want := []string{
		"10.77.0.12@tcp5: 10.77.0.12@tcp5 configured",
		"10.77.0.12@tcp: 10.77.0.12@tcp 10.78.0.12@tcp1 multi-rail configured gateway",
		"10.77.0.1@tcp: 10.77.0.1@tcp configured",
		"10.77.0.20@tcp: 10.77.0.20@tcp configured",
		"10.77.0.60@tcp: 10.77.0.60@tcp multi-rail configured",
		"10.77.0.98@tcp: 10.77.0.98@tcp configured",
		"10.77.0.99@tcp: 10.77.0.99@tcp configured",
		"10.99.0.1@tcp: 10.99.0.1@tcp configured",
	}
	if diff := cmp.Diff(want, peerTexts(r.peers(t))); diff != "" {
		t.Error(diff)
	}
	routes := r.Routes()
	if len(routes) != 1 || routes[0].Net.String() != "tcp9" || routes[0].Gateway != nid(t, "10.77.0.12@tcp") || routes[0].Hops != 1 {
		t.Errorf("routes %+v", routes)
	}
	rules := r.Rules()
	if len(rules) != 5 || rules[4].String() != "--dst 10.77.0.12@tcp --rte 10.77.0.20@tcp" {
		t.Errorf("rules %v", rules)
	}
	if nis := r.Nets()[1].NIs; nis[0].NID != nid(t, "10.77.0.11@tcp") {
		t.Errorf("NIs %+v", nis)
	}
	g := r.Globals()
	wantGlobals := api.Globals{Values: map[string]int64{
		"numa_range": 0, "max_interfaces": 100, "discovery": 1, "drop_asym_route": 0, "retry_count": 2,
		"transaction_timeout": 150, "health_sensitivity": 100, "recovery_interval": 1, "router_sensitivity": 100,
		"lnd_timeout": 49, "response_tracking": 3, "recovery_limit": 0, "max_recovery_ping_interval": 100,
	}}
	if diff := cmp.Diff(wantGlobals, g); diff != "" {
		t.Error(diff)
	}
	if r.Routing().Ever {
		t.Errorf("routing %+v", r.Routing())
	}
	// A command cannot configure the gateway for that reason.
	err = r.AddPeer(t.Context(), nid(t, "10.77.0.12@tcp"), nil, discovery.ConfigureOptions{})
	if !errors.Is(err, discovery.ErrBusy) {
		t.Errorf("a gateway is added as peer: %v", err)
	}
}

func TestTypedRulesAreApplied(t *testing.T) {
	r := startNode(t, parse(t, "selection: [{id: 4, type: net, net: tcp*, priority: 0}]\n"+twoNets)).ready(t)
	if rules := r.TypedRules(); len(rules) != 1 || rules[0].ID != 4 {
		t.Errorf("%+v", rules)
	}
}

// Only the route is left out if its gateway is unreachable or its net is local. The log gives the
// reason.
func TestRoutesThatLeadNowhere(t *testing.T) {
	r := startNode(t, parse(t, twoNets+`
route:
  - {net: tcp7, gateway: 10.9.9.9@tcp2}
  - {net: tcp1, gateway: 10.77.0.20@tcp}
  - {net: tcp8, gateway: '10.77.0.[20-21]@tcp', hop: 3, priority: 2}
  - {net: tcp8, gateway: 10.77.0.20@tcp}
`)).ready(t)
	var got []string
	for _, route := range r.Routes() {
		got = append(got, route.Net.String()+" "+route.Gateway.String())
		if route.Hops != 3 || route.Priority != 2 {
			t.Errorf("%+v", route)
		}
	}
	slices.Sort(got) // routes are in random order
	if diff := cmp.Diff([]string{"tcp8 10.77.0.20@tcp", "tcp8 10.77.0.21@tcp"}, got); diff != "" {
		t.Error(diff)
	}
	log := r.log.String()
	for _, want := range []string{
		`"net":"tcp7","gateway":"10.9.9.9@tcp2","configured_at":"t.yaml:9: route[0]"`,
		`"net":"tcp1","gateway":"10.77.0.20@tcp","configured_at":"t.yaml:10: route[1]"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
}

// The exported entry of a gateway that was not discovered does not prevent its discovery here.
func TestGatewayThatWasNotDiscovered(t *testing.T) {
	r := startNode(t, parse(t, twoNets+`
route:
  - {net: tcp7, gateway: 10.77.0.20@tcp}
peer:
  - {primary nid: 10.77.0.20@tcp, Multi-Rail: false, peer ni: [{nid: 10.77.0.20@tcp}]}
`)).ready(t)
	p, ok := r.Peer(nid(t, "10.77.0.20@tcp"))
	if !ok || !p.Gateway || discovery.State(p.State).Has(discovery.Configured) {
		t.Errorf("%+v, %v", p, ok)
	}
}

func TestPeerThatCannotBe(t *testing.T) {
	r := startNode(t, parse(t, twoNets+`
peer:
  - {primary nid: 10.77.0.20@tcp, Multi-Rail: false}
  - {primary nid: 10.77.0.20@tcp, Multi-Rail: true}
`))
	err := <-r.done
	var f *api.Fault
	if !errors.As(err, &f) || f.Code != api.CodeConfigInvalid || f.Errno != -1 ||
		f.Text != "t.yaml:10: peer[1]: the peer 10.77.0.20@tcp cannot be configured" {
		t.Errorf("Run: %v", err)
	}
	if !errors.Is(err, discovery.ErrPermission) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestRoutingAtStart(t *testing.T) {
	for text, want := range map[string]node.RoutingState{
		"":                               node.RoutingDisabled,
		"routing: {enable: 1}\n":         node.RoutingStarting,
		"lnetd: {forwarding: enabled}\n": node.RoutingEnabled,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := startNode(t, parse(t, twoNets+"buffers: {tiny: 16, small: 8, large: 4}\n"+text)).ready(t)
			got := r.Routing()
			if node.RoutingState(got.State) != want || got.Ever != (want != node.RoutingDisabled) {
				t.Errorf("%q: %+v", text, got)
			}
			if p := got.CPTs[0]; want != node.RoutingDisabled && (p.Tiny.Buffers != 16 || p.Small.Buffers != 8 || p.Large.Buffers != 4) {
				t.Errorf("%q: %+v", text, p)
			}
		})
	}
}

// A router announces itself after the two timers, and drains before it ends.
func TestLifeOfARouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startNode(t, parse(t, twoNets+`
routing: {enable: 1}
lnetd: {alive_router_check_interval: 20, router_ping_timeout: 10}
`)).ready(t)
		state := func() node.RoutingState { return node.RoutingState(r.Routing().State) }
		after(29 * time.Second)
		if s := state(); s != node.RoutingStarting {
			t.Errorf("state %d before its time", s)
		}
		after(2 * time.Second)
		if s := state(); s != node.RoutingEnabled {
			t.Errorf("state %d after its time", s)
		}
		begin := time.Now()
		r.cancel()
		err := <-r.done
		r.done <- err // for the cleanup
		if took := time.Since(begin); err != nil || took == 0 || took > closeTimeout {
			t.Errorf("%v after %v", err, took)
		}
		if s := state(); s != node.RoutingDisabled {
			t.Errorf("state %d at the end", s)
		}
	})
}

// after advances the time in a bubble.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// With check_routers_before_use, the start waits for an answer, and continues without one.
//
// lnet-core 8.5 before
func TestGatewaysAreChecked(t *testing.T) {
	r := startNode(t, parse(t, twoNets+`
route:
  - {net: tcp7, gateway: 10.77.0.20@tcp}
  - {net: tcp8, gateway: 10.77.0.20@tcp}
lnetd: {check_routers_before_use: 1}
`)).ready(t)
	if n := strings.Count(r.log.String(), "gateway did not answer the check at the start; its routes are down"); n != 1 {
		t.Errorf("said %d times:\n%s", n, r.log)
	}
}

func TestStopWhileSettingUp(t *testing.T) {
	r := startNode(t, parse(t, twoNets+"peer: [{primary nid: 10.77.0.20@tcp}]\n"))
	r.cancel()
	if err := <-r.done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// change applies the steps from one configuration to another on a running node.
func (r *nodeRun) change(t *testing.T, have, want string) error {
	t.Helper()
	a, b := parse(t, have).State, parse(t, want).State
	var err error
	if busy := r.InTurn(t.Context(), func() { err = r.node.apply(t.Context(), config.Diff(&a, &b, r.node.drivers.Options()), false) }); busy != nil {
		t.Fatal(busy)
	}
	return err
}

// shape returns the node's state as text.
func (r *nodeRun) shape(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, n := range r.Nets() {
		for _, ni := range n.NIs {
			out = append(out, fmt.Sprintf("NI %s credits %d", ni.NID, ni.Tunables.Credits))
		}
	}
	for _, p := range peerTexts(r.peers(t)) {
		out = append(out, "peer "+p)
	}
	var routes []string
	for _, route := range r.Routes() {
		routes = append(routes, fmt.Sprintf("route %s %s %d", route.Net, route.Gateway, route.Priority))
	}
	slices.Sort(routes) // they are in random order
	g, b := r.Globals().Values, r.node.Buffers()
	return append(append(out, routes...), fmt.Sprint("rules ", r.Rules(), r.TypedRules()),
		fmt.Sprint("retries ", g["retry_count"], " sensitivity ", g["router_sensitivity"], " tiny ", b.Tiny, " routing ", r.Routing().State))
}

const (
	beforeChange = twoNets + `
peer:
  - {primary nid: 10.77.0.30@tcp, peer ni: [{nid: 10.78.0.30@tcp1}, {nid: 10.78.0.31@tcp1}]}
  - {primary nid: 10.77.0.40@tcp}
route:
  - {net: tcp8, gateway: 10.77.0.20@tcp}
  - {net: tcp9, gateway: 10.78.0.20@tcp1}
udsp: [{idx: 0, src: tcp, priority: 1}]
`
	afterChange = `
net:
  - net type: tcp
    interfaces: [eth0]
  - net type: tcp1
    interfaces: [eth1]
    tunables: {credits: 32}
peer:
  - {primary nid: 10.77.0.30@tcp, peer ni: [{nid: 10.78.0.30@tcp1}]}
  - {primary nid: 10.77.0.40@tcp, peer ni: [{nid: 10.77.0.31@tcp}]}
  - {primary nid: 10.77.0.50@tcp}
route:
  - {net: tcp8, gateway: 10.77.0.20@tcp, priority: 3}
  - {net: tcp9, gateway: 10.78.0.20@tcp1}
global: {retry_count: 1, router_sensitivity: 50}
selection: [{id: 4, type: net, net: tcp*, priority: 0}]
buffers: {tiny: 16}
`
)

// The steps change a running node into the state of a node that starts with the configuration.
// The inverse steps restore its former state.
func TestStepsOnANodeThatRuns(t *testing.T) {
	r := startNode(t, parse(t, beforeChange)).ready(t)
	before := r.shape(t)
	after := startNode(t, parse(t, afterChange)).ready(t).shape(t)
	if err := r.change(t, beforeChange, afterChange); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(after, r.shape(t)); diff != "" {
		t.Errorf("changed: %s", diff)
	}
	if err := r.change(t, afterChange, beforeChange); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, r.shape(t)); diff != "" {
		t.Errorf("changed back: %s", diff)
	}
}

// When a step fails, the earlier ones are undone.
func TestStepThatFails(t *testing.T) {
	for name, bad := range map[string]string{
		"an NI":             strings.Replace(afterChange, "[eth1]", "[eth1, eth9]", 1),
		"two such peers":    strings.Replace(afterChange, "route:", "  - {primary nid: 10.77.0.50@tcp, Multi-Rail: false}\nroute:", 1),
		"the first NI goes": strings.NewReplacer("[eth0]", "[eth0]\n    tunables: {credits: 7}", "[eth1]", "[eth1, eth9]", "    tunables: {credits: 32}\n", "").Replace(afterChange),
		"nothing is left":   "net: [{net: tcp, interfaces: [eth9]}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := startNode(t, parse(t, beforeChange)).ready(t)
			before := r.shape(t)
			var fault *api.Fault
			if err := r.change(t, beforeChange, bad); !errors.As(err, &fault) {
				t.Fatalf("%v", err)
			}
			if diff := cmp.Diff(before, r.shape(t)); diff != "" {
				t.Error(diff)
			}
			if log := r.log.String(); strings.Contains(log, "could not be undone") {
				t.Error(log)
			}
		})
	}
}

// A driver without NIs is created again.
func TestDriverAnew(t *testing.T) {
	f := &fakeDrivers{}
	r := startTwo(t, f, "net: [{net: <200:0>, interfaces: [ib0]}]\n").ready(t)
	ni := config.NI{Net: lnet.MakeNet(fakeType, 0), Device: "ib0"}
	values := config.Values{"service": "9"}
	steps := []config.Step{
		config.Change[config.NI]{From: &ni}, config.DriverChange{Type: fakeType, To: values}, config.Change[config.NI]{To: &ni},
	}
	if err := r.node.apply(t.Context(), steps, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]config.Values{nil, values}, f.made); diff != "" || f.closed != 1 {
		t.Errorf("%d closed, made %s", f.closed, diff)
	}
}

// Only one change is made at a time. A change whose context ends before its turn is not made.
func TestChangesHaveTheirTurn(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("too late")
	err := r.InTurn(t.Context(), func() {
		cancel(late)
		if err := r.InTurn(ctx, func() { t.Error("two at once") }); !errors.Is(err, late) {
			t.Errorf("%v", err)
		}
	})
	if err != nil {
		t.Error(err)
	}
	done := false
	if err := r.InTurn(t.Context(), func() { done = true }); err != nil || !done {
		t.Errorf("%v, %v", err, done)
	}
}
