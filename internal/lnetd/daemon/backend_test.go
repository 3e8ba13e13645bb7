package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/node/numa"
	"github.com/lnetd/lnetd/selection"
)

var _ server.Backend = (*backend)(nil)

// lnetctl 4.10 (2), 4.10 (5)
func TestPeersByHand(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	ctx := t.Context()
	primary, second := nid(t, "10.77.0.20@tcp"), nid(t, "10.78.0.20@tcp1")
	if err := r.AddPeer(ctx, primary, []lnet.NID{second}, discovery.ConfigureOptions{}); err != nil {
		t.Fatal(err)
	}
	p, ok := r.Peer(second)
	if want := "10.77.0.20@tcp: 10.77.0.20@tcp 10.78.0.20@tcp1 multi-rail configured"; !ok || peerText(&p) != want {
		t.Errorf("%+v, %v", p, ok)
	}
	if ni := p.NIs[0]; ni.State != "NA" || ni.UDSP.NetPriority != -1 || ni.UDSP.NIDPriority != -1 || ni.Health.Value != 1000 {
		t.Errorf("%+v", ni)
	}
	if err := r.DeletePeerNIDs(ctx, primary, []lnet.NID{second}); err != nil {
		t.Error(err)
	}
	if err := r.DeletePeer(ctx, second, false); !errors.Is(err, discovery.ErrNotFound) {
		t.Errorf("a NID that was deleted: %v", err)
	}
	if err := r.DeletePeer(ctx, primary, true); err != nil {
		t.Error(err)
	}
	if _, ok := r.Peer(primary); ok || len(r.peers(t)) > 0 {
		t.Errorf("peers %+v", r.peers(t))
	}
}

// lnetctl 4.13
func TestDiscoverOurselves(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	p, err := r.Discover(t.Context(), lnet.LoopbackNID, true)
	if err != nil || !p.MultiRail {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := r.Discover(t.Context(), nid(t, "10.77.0.20@tcp"), false); err == nil {
		t.Error("a node that is not there was discovered")
	}
}

// lnetctl 4.6 (2)-(3), 4.7
func TestRoutesByHand(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	ctx := t.Context()
	route := api.Route{Net: lnet.MakeNet(lnet.TypeTCP, 7), Gateway: nid(t, "10.77.0.20@tcp"), Hops: 2, Priority: 3}
	if err := r.AddRoute(ctx, route); err != nil {
		t.Fatal(err)
	}
	got := r.Routes()
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	route.Up, route.SingleHop = got[0].Up, got[0].SingleHop
	if got[0] != route {
		t.Errorf("%+v", got)
	}
	if err := r.AddPeer(ctx, route.Gateway, nil, discovery.ConfigureOptions{}); !errors.Is(err, discovery.ErrBusy) {
		t.Errorf("a gateway is configured as peer: %v", err)
	}
	if err := r.DeleteRoute(ctx, route.Net, route.Gateway); err != nil || len(r.Routes()) > 0 {
		t.Errorf("%+v, %v", r.Routes(), err)
	}
}

// sanity-lnet 4 (50)
// lnetctl 4.9 (1)-(3)
func TestRoutingByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startNode(t, parse(t, twoNets)).ready(t)
		ctx := t.Context()
		// Numbers are remembered while the node does not forward.
		if err := r.SetBuffers(ctx, api.Buffers{Tiny: 4, Small: 3, Large: 2}); err != nil {
			t.Error(err)
		}
		if err := r.SetBuffers(ctx, api.Buffers{Tiny: -1, Small: 5, Large: -1}); err != nil {
			t.Error(err)
		}
		if err := r.SetRouting(ctx, true); err != nil {
			t.Fatal(err)
		}
		got := r.Routing()
		if p := got.CPTs[0]; len(got.CPTs) != 1 || p.Tiny.Buffers != 4 || p.Small.Buffers != 5 || p.Large.Buffers != 2 {
			t.Errorf("%+v", got)
		}
		if err := r.SetRouting(ctx, false); err != nil {
			t.Error(err)
		}
		if err := r.SetRouting(ctx, true); !errors.Is(err, node.ErrBusy) {
			t.Errorf("enabled while it stops: %v", err)
		}
		after(11 * time.Second)
		if got := r.Routing(); node.RoutingState(got.State) != node.RoutingDisabled || !got.Ever {
			t.Errorf("%+v", got)
		}
	})
}

// lnetctl 6 (1), 6 (3)
func TestSetGlobals(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	values := map[string]int64{
		"numa_range": 20, "max_interfaces": 64, "discovery": 0, "drop_asym_route": 1, "retry_count": 4, "transaction_timeout": 50,
		"health_sensitivity": 7, "router_sensitivity": 40, "response_tracking": 1, "recovery_limit": 300,
		"max_recovery_ping_interval": 9,
	}
	err := r.SetGlobals(t.Context(), api.GlobalsChange{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	want := api.Globals{Values: maps.Clone(values)}
	want.Values["recovery_interval"], want.Values["lnd_timeout"] = 1, 9
	if diff := cmp.Diff(want, r.Globals()); diff != "" {
		t.Error(diff)
	}
	// All or nothing.
	err = r.SetGlobals(t.Context(), api.GlobalsChange{Values: map[string]int64{"router_sensitivity": 1, "numa_range": 1, "retry_count": 60}})
	if !errors.Is(err, node.ErrInvalid) {
		t.Errorf("retries beyond the timeout: %v", err)
	}
	if diff := cmp.Diff(want, r.Globals()); diff != "" {
		t.Error(diff)
	}
}

// lnetctl 4.5 (1)-(2)
func TestSetHealth(t *testing.T) {
	r := startNode(t, parse(t, twoNets+"peer: [{primary nid: 10.77.0.20@tcp, peer ni: [{nid: 10.78.0.20@tcp1}]}]\n")).ready(t)
	one := nid(t, "10.77.0.11@tcp")
	if err := r.SetNIHealth(one, 500); err != nil {
		t.Error(err)
	}
	if err := r.SetNIHealth(nid(t, "10.9.9.9@tcp"), 500); !errors.Is(err, node.ErrNotFound) {
		t.Errorf("an NI that is not there: %v", err)
	}
	if err := r.SetPeerHealth(nid(t, "10.9.9.9@tcp"), 500); !errors.Is(err, node.ErrNotFound) {
		t.Errorf("a peer NI that is not there: %v", err)
	}
	health := func() []int {
		var all []int
		for _, n := range r.Nets() {
			all = append(all, n.NIs[0].Health.Value)
		}
		return all
	}
	if diff := cmp.Diff([]int{0, 500, 1000}, health()); diff != "" {
		t.Error(diff)
	}
	if err := r.SetNIHealth(lnet.NID{}, 100); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]int{0, 100, 100}, health()); diff != "" {
		t.Error(diff)
	}
	if err := r.SetPeerHealth(lnet.NID{}, 300); err != nil {
		t.Error(err)
	}
	for _, ni := range r.peers(t)[0].NIs {
		if ni.Health.Value != 300 {
			t.Errorf("%+v", ni)
		}
	}
}

// lnetctl 4.17 (3)
func TestPoliciesByHand(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	src, err := lnet.ParsePattern("tcp1")
	if err != nil {
		t.Fatal(err)
	}
	err = r.ChangePolicies(t.Context(), func(p *selection.Policies) error {
		return p.Add(selection.Rule{Src: src, Priority: 3}, selection.Append)
	})
	if err != nil || len(r.Rules()) != 1 {
		t.Fatalf("%v, %v", r.Rules(), err)
	}
	if udsp := r.Nets()[2].NIs[0].UDSP; udsp.NetPriority != 3 || udsp.NIDPriority != -1 {
		t.Errorf("%+v", udsp)
	}
	refused := errors.New("no")
	if err := r.ChangePolicies(t.Context(), func(p *selection.Policies) error { p.DeleteAll(); return refused }); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	if len(r.Rules()) != 1 {
		t.Errorf("rules %v", r.Rules())
	}
	if e := r.Explain(nid(t, "10.9.9.9@tcp9"), lnet.NID{}, 4); !errors.Is(e.Err, selection.ErrUnreachable) {
		t.Errorf("%s", &e)
	}
}

// lnetctl 15 (4), 15 (6)
func TestFaultsByHand(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	all, err := fault.ParseNIDFilter("*")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.AddFault(fault.Rule{Kind: fault.Drop, Source: all, Dest: all, Rate: 1}); err != nil {
		t.Fatal(err)
	}
	r.ResetFaults()
	if f := r.Faults(fault.Drop); len(f) != 1 {
		t.Errorf("%+v", f)
	}
	if n := r.RemoveFaults(fault.Drop, all, all); n != 1 {
		t.Errorf("%d removed", n)
	}
	if c := r.Stats(); c.Dropped != 0 {
		t.Errorf("%+v", c)
	}
	r.ResetCounters()
}

func TestPeerNIAsShown(t *testing.T) {
	in := node.PeerInfo{
		Primary: nid(t, "1@gni"), MultiRail: true, State: discovery.Configured, Seq: 3, AckedSeq: 4, Gateway: true,
		NIs: []node.PeerNIInfo{{
			NID: nid(t, "1@gni"), Aliveness: node.AliveDown, Credits: node.CreditInfo{Max: 8, Available: -1, Min: -2},
			RouterCredits: node.CreditInfo{Max: 9, Available: 7, Min: 6}, QueuedBytes: 100, Refs: 2,
			Traffic: node.Traffic{
				Sent: node.MessageCounts{Put: 1, Get: 2}, Received: node.MessageCounts{Ack: 5}, Dropped: node.MessageCounts{Hello: 1},
				GetRTT: node.Latency{Samples: 1, Min: time.Microsecond, Max: time.Microsecond, Avg: time.Microsecond},
			},
			Health: node.Health{Value: 900, Pings: 2, HealthCounters: node.HealthCounters{
				RemoteDropped: 1, RemoteTimeouts: 2, RemoteErrors: 3, NetworkTimeouts: 4,
			}},
			Policy: node.PolicyInfo{
				NetPriority: selection.NoPriority, NIDPriority: 2,
				Gateways: []lnet.NID{nid(t, "2@gni")}, Sources: []lnet.NID{nid(t, "3@gni")},
			},
		}},
	}
	want := api.Peer{
		Primary: nid(t, "1@gni"), MultiRail: true, State: uint32(discovery.Configured), Seq: 3, Told: 4, Gateway: true, Unused: true,
		NIs: []api.PeerNI{{
			NID: nid(t, "1@gni"), State: "down", Credits: api.Credits{Max: 8, Available: -1, Min: -2},
			RouterCredits: api.Credits{Max: 9, Available: 7, Min: 6}, QueuedBytes: 100, Refs: 2,
			Statistics: api.Statistics{Sent: 3, Received: 5, Dropped: 1, GetRTT: api.Latency{Samples: 1, Min: 1000, Max: 1000, Avg: 1000}},
			Sent:       api.MessageCounts{Put: 1, Get: 2}, Received: api.MessageCounts{Ack: 5}, Dropped: api.MessageCounts{Hello: 1},
			Health: api.PeerHealthStats{Value: 900, Dropped: 1, Timeouts: 2, Errors: 3, NetworkTimeouts: 4, PingCount: 2},
			UDSP: api.UDSPInfo{
				NetPriority: -1, NIDPriority: 2,
				PreferredGateways: []lnet.NID{nid(t, "2@gni")}, PreferredSources: []lnet.NID{nid(t, "3@gni")},
			},
		}},
	}
	same := cmp.Comparer(func(a, b lnet.NID) bool { return a == b })
	if diff := cmp.Diff(want, controlPeer(&in, bootTime(), nil), same); diff != "" {
		t.Error(diff)
	}
}

// lnetctl 11 (14)
func TestCPTs(t *testing.T) {
	two, err := numa.Read(fstest.MapFS{
		"devices/system/node/node0/cpulist":  {Data: []byte("0-1\n")},
		"devices/system/node/node0/distance": {Data: []byte("10 20\n")},
		"devices/system/node/node1/cpulist":  {Data: []byte("2-3\n")},
		"devices/system/node/node1/distance": {Data: []byte("20 10\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for want, task := range map[string]*nodeTask{"[0]": {}, "[0,1]": {machine: two}} {
		if got := allCPTs(task.cpts()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for want, task := range map[string]*nodeTask{
		"[{0 0  [10]}]": {}, "[{0 0 0-1 [10 20]} {1 1 2-3 [20 10]}]": {machine: two},
	} {
		if got := fmt.Sprint((&backend{node: task}).CPTs()); got != want {
			t.Errorf("shown as %s, want %s", got, want)
		}
	}
	for want, list := range map[string][]int{"": nil, "3": {3}, "0-1": {0, 1}, "0-2,4,6-7": {0, 1, 2, 4, 6, 7}} {
		if got := shortList(list); got != want {
			t.Errorf("%v is %q, want %q", list, got, want)
		}
	}
	e := newEngines(Drivers{TCP(host(lo))}, nil, 2, slog.New(slog.DiscardHandler))
	for _, tt := range []struct{ given, want []int }{{nil, nil}, {[]int{0, 1}, nil}, {[]int{1}, []int{1}}, {[]int{0, 7}, []int{0}}, {[]int{7}, nil}} {
		got := e.resolved([]config.NI{{Net: lnet.MakeNet(lnet.TypeTCP, 0), Device: "eth0", CPTs: tt.given}}, nil, nil)
		if !slices.Equal(got[0].CPTs, tt.want) {
			t.Errorf("CPTs %v became %v, want %v", tt.given, got[0].CPTs, tt.want)
		}
	}
	if err := e.checkCPTs([]config.NI{{CPTs: []int{1}}}); err != nil {
		t.Error(err)
	}
	var f *api.Fault
	if err := e.checkCPTs([]config.NI{{CPTs: []int{2}}}); !errors.As(err, &f) || f.Errno != -34 || f.Text != "invalid CPT set" {
		t.Errorf("%v", err)
	}
}

// Given CPU partitions that this host does not have, documents that add or replace give a warning
// at the position of the NI, and so does --check. The start logs a warning, because it has no
// terminal. "net add" rejects them and logs nothing.
//
// lnetctl 9.1 (2)
// decisions 73
func TestUnknownCPTsAreWarnedOf(t *testing.T) {
	const text = "net:\n  - {net: tcp2, interfaces: {0: 'eth0[0,2-4]', 1: eth1}}\n  - {net: tcp3, interfaces: [eth1], CPT: 9}\n"
	want := []string{
		"d.yaml:2: net[0]: NI tcp2(eth0): ignoring CPU partition 2 and 2 more: this host has the partitions 0 to 1",
		"d.yaml:3: net[1]: NI tcp3(eth1): ignoring CPU partition 9: this host has the partitions 0 to 1",
	}
	const logged = "ignoring configured CPU partitions that this host does not have"
	r := startNode(t, parse(t, twoNets)).ready(t)
	r.node.engines.cpts = 2
	for _, mode := range []api.Mode{api.ModeAdd, api.ModeReplace, api.ModeDelete} {
		for _, dry := range []bool{true, false} {
			done, err := r.ChangeConfiguration(t.Context(), api.ConfigurationChange{
				Mode: mode, Dry: dry, Document: api.Document{Name: "d.yaml", Text: text},
			})
			var got []string
			for k := range done.Warnings {
				got = append(got, done.Warnings[k].Error())
			}
			if mode == api.ModeDelete {
				want = nil
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s, dry %v: %v, -want +got:\n%s", mode, dry, err, diff)
			}
		}
	}
	if errno, _ := refusal(t, r.addNet(t, api.NetAddition{Net: tcpNet(4), Interfaces: []string{"eth0[0,7]"}})); errno != -34 {
		t.Errorf("net add: %d", errno)
	}
	if strings.Contains(r.log.String(), logged) {
		t.Errorf("it is logged, too:\n%s", r.log)
	}
	c := parse(t, text)
	if r := startNode(t, c).ready(t); strings.Count(r.log.String(), logged) != 2 {
		t.Errorf("the start:\n%s", r.log)
	}
	if got := ForeseeCPTs("t.yaml", &c.State, fstest.MapFS{}); len(got) != 2 || got[1].Line != 3 ||
		got[1].Text != "NI tcp3(eth1): ignoring CPU partition 9: this host has the partitions 0 to 0" {
		t.Errorf("--check: %v", got)
	}
}

// Given a time on the border of two seconds, it is shown as the same value each time.
func TestATimeShowsTheSameEachTime(t *testing.T) {
	boot := bootTime()
	due := boot.Add(7 * time.Second)
	for range 1000 {
		if got := secondsSince(boot, due); got != 7 {
			t.Fatalf("shown as %d, want 7", got)
		}
	}
	if got := secondsSince(boot, time.Time{}); got != 0 {
		t.Errorf("no time shows as %d", got)
	}
}
