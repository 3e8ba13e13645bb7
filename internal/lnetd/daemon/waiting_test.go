package daemon

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

func (r *nodeRun) nids() (all []string) {
	for _, i := range r.node.NIs() {
		if !i.NID.IsLoopback() {
			all = append(all, i.NID.String())
		}
	}
	return all
}

// An NI without a driver, or without RDMA, waits too, with its tunables and the routes that
// depend on its net. A request that must not wait gets an error.
//
// lnetctl 4.2 (2)
func TestNIWaitsForADriver(t *testing.T) {
	const nets = `
net:
  - net type: o2ib
    interfaces: [ib0]
    tunables: {credits: 128}
    lnd tunables: {ntx: 256, map_on_demand: true}
  - net type: gni1
    nid: 7@gni1
`
	drivers := Drivers{TCP(host(lo, device("eth0", "10.77.0.11/24"))), O2IB(host(lo), noRDMA)}
	r := startNodeWith(t, parse(t, nets+`
  - net type: tcp
    interfaces: [eth0]
route: [{net: tcp9, gateway: 10.78.0.1@o2ib}]
`), drivers).ready(t)
	want := []api.WaitingNI{
		{
			Net: lnet.MakeNet(lnet.TypeO2IB, 0), Interface: "ib0", Cause: "verbs: open: " + verbs.ErrNoRDMA.Error(),
			Tunables: api.Tunables{PeerTimeout: 180, PeerCredits: 8, Credits: 128},
			LND: []api.Tunable{
				{Name: "peercredits_hiw", Value: 4}, {Name: "map_on_demand", Value: 1, Truth: true},
				{Name: "concurrent_sends", Value: 8}, {Name: "fmr_pool_size", Value: 512}, {Name: "fmr_flush_trigger", Value: 384},
				{Name: "fmr_cache", Value: 1}, {Name: "ntx", Value: 256}, {Name: "conns_per_peer", Value: 1},
				{Name: "timeout", Value: 50}, {Name: "tos", Value: -1},
			},
		},
		{
			Net: lnet.MakeNet(lnet.TypeGNI, 1), NID: nid(t, "7@gni1"), Place: 1, Cause: "this lnetd has no driver for gni nets",
			Tunables: api.Tunables{PeerTimeout: -1},
		},
	}
	like := cmp.Options{
		cmpopts.IgnoreFields(api.WaitingNI{}, "CPT"), cmp.Comparer(func(a, b lnet.NID) bool { return a == b }),
	}
	check := func(what string) {
		t.Helper()
		if diff := cmp.Diff(want, r.Waiting(), like); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	check("at start")
	if got := r.nids(); !slices.Equal(got, []string{"10.77.0.11@tcp"}) || len(r.Routes()) != 1 || len(r.node.Routes()) != 0 {
		t.Errorf("NIs %v, routes %+v", got, r.Routes())
	}
	var err error
	busy := r.InTurn(t.Context(), func() { err = r.DeleteNet(t.Context(), api.NetDeletion{Net: lnet.MakeNet(lnet.TypeO2IB, 0)}) })
	if err := errors.Join(busy, err); err != nil {
		t.Fatal(err)
	}
	if _, err := r.document(t, api.ModeAdd, nets); !errors.Is(err, verbs.ErrNoRDMA) {
		t.Errorf("without waiting: %v", err)
	}
	want = want[1:]
	want[0].Place = 0
	check("refused")
}

// The other NIs come up. A waiting NI comes up in its position when its interface is usable, with
// the routes that depend on it. An NI that is up stays when its interface is removed.
//
// lnetctl 4.2 (2)
func TestNIWaitsForItsInterface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := host(lo, device("eth0", "10.77.0.11/24"))
		r := startNodeWith(t, parse(t, `
net:
  - net type: tcp1
    interfaces: [eth1]
  - net type: tcp
    interfaces: [eth0]
route: [{net: tcp9, gateway: 10.78.0.1@tcp1}]
`), Drivers{TCP(n)}).ready(t)
		if got := r.nids(); !slices.Equal(got, []string{"10.77.0.11@tcp"}) {
			t.Fatalf("NIs %v", got)
		}
		if w := r.Waiting(); len(w) != 1 || w[0].Interface != "eth1" || w[0].Net.String() != "tcp1" || !strings.Contains(w[0].Cause, "no such network device") {
			t.Errorf("waiting: %+v", w)
		}
		if got := (watched{nodeTask: r.node}).WaitingNIs(); len(got) != 1 || got[0].Net.String() != "tcp1" || got[0].NI != "tcp1(eth1)" {
			t.Errorf("by metrics there wait %+v", got)
		}
		all := r.node.engines.configured()
		if routes := r.Routes(); len(all) != 2 || all[0].Device != "eth1" || len(routes) != 1 || routes[0].Up {
			t.Errorf("configured %+v, routes %+v", all, routes)
		}
		if routes := r.node.Routes(); len(routes) != 0 {
			t.Errorf("the node has %+v", routes)
		}

		off := device("eth1", "10.78.0.11/24")
		off.Up, off.Off = false, true
		n.set(lo, device("eth0", "10.77.0.11/24"), off)
		if w := r.Waiting(); len(w) != 1 || !strings.Contains(w[0].Cause, "device eth1 is down") {
			t.Errorf("switched off: %+v", w)
		}
		n.set(lo, device("eth0", "10.77.0.11/24"), device("eth1", "10.78.0.11/24"))
		if got := r.nids(); !slices.Equal(got, []string{"10.77.0.11@tcp", "10.78.0.11@tcp1"}) || len(r.Waiting()) != 0 {
			t.Errorf("NIs %v, waiting %+v", got, r.Waiting())
		}
		if routes := r.node.Routes(); len(routes) != 1 {
			t.Errorf("the node has %+v", routes)
		}
		if all := r.node.engines.configured(); len(all) != 2 || all[0].Device != "eth1" {
			t.Errorf("the order has changed: %+v", all)
		}

		n.set(lo, device("eth0", "10.77.0.11/24"))
		if got := r.nids(); len(got) != 2 {
			t.Errorf("when the interface has gone there are %v", got)
		}
		if c := strings.Count(r.log.String(), "NI waits for its interface"); c != 2 {
			t.Errorf("%d lines in the log, want one for each cause:\n%s", c, r.log)
		}
	})
}

// If an interface gets another address, its NI stays unchanged and down until the configuration
// is applied again.
func TestInterfaceHasAnotherAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = "net: [{net type: tcp, interfaces: [eth0]}, {net type: tcp1, interfaces: [eth1]}]"
		eth1 := device("eth1", "10.78.0.11/24")
		n := host(lo, device("eth0", "10.77.0.11/24"), eth1)
		r := startNodeWith(t, parse(t, text), Drivers{TCP(n)}).ready(t)
		for _, c := range []struct {
			devices []hostnet.Device
			steps   int
			nids    []string
		}{
			{[]hostnet.Device{lo, eth1}, 0, []string{"10.77.0.11@tcp", "10.78.0.11@tcp1"}}, // it is missing
			{[]hostnet.Device{lo, device("eth0", "10.77.0.12/24", "10.77.0.11/24"), eth1}, 0, []string{"10.77.0.11@tcp", "10.78.0.11@tcp1"}},
			{[]hostnet.Device{lo, device("eth0", "10.77.0.12/24"), eth1}, 3, []string{"10.77.0.12@tcp", "10.78.0.11@tcp1"}},
			{[]hostnet.Device{lo, device("eth0", "10.77.0.12/24"), eth1}, 0, []string{"10.77.0.12@tcp", "10.78.0.11@tcp1"}},
		} {
			n.set(c.devices...)
			done, err := r.document(t, api.ModeReplace, text)
			got := r.nids()
			slices.Sort(got)
			if err != nil || len(done.Commands) != c.steps || !slices.Equal(got, c.nids) {
				t.Errorf("%+v: %v, %q, NIs %v", c.devices, err, done.Commands, got)
			}
		}
	})
}

// A document whose NIs may wait is applied, and warns of those that do, with the cause. Without
// permission to wait, it is rejected.
func TestDocumentWithNIsThatWait(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	request := api.ConfigurationChange{
		Document: api.Document{Name: "d.yaml", Text: "net: [{net type: tcp5, interfaces: [eth7]}]"}, Mode: api.ModeAdd,
	}
	for _, wait := range []bool{false, true} {
		request.Wait = wait
		var done api.ConfigurationChanged
		var err error
		if busy := r.InTurn(t.Context(), func() { done, err = r.ChangeConfiguration(t.Context(), request) }); busy != nil {
			t.Fatal(busy)
		}
		if wait != (err == nil) || wait != (len(r.Waiting()) == 1) {
			t.Errorf("wait %v: %v, waiting %+v", wait, err, r.Waiting())
		}
		if wait && (len(done.Warnings) != 1 || !strings.HasPrefix(done.Warnings[0].Text, "NI tcp5(eth7) waits: ")) {
			t.Errorf("warnings %+v", done.Warnings)
		}
	}
}

// Given NIs that wait for an interface or a driver, adding them again, or a route by a gateway on
// their net, gives an error that mentions the wait. Documents that contain them give a warning,
// under whatever name.
//
// lnetctl 11 (12)
func TestWaitingNIsAreNamed(t *testing.T) {
	const text = "net: [{net: tcp3, interfaces: [eth7]}, {net: gni1, nid: 7@gni1}]\n"
	const eth7 = `"eth7": no such network device`
	const gni = "this lnetd has no driver for gni nets"
	r := startNodeWith(t, parse(t, text), Drivers{TCP(host(lo, device("eth0", "10.77.0.11/24")))}).ready(t)
	for _, tt := range []struct {
		add  api.NetAddition
		want string
	}{
		{api.NetAddition{Net: tcpNet(3), Interfaces: []string{"eth7"}}, "the NI tcp3(eth7) already exists, which is waiting: " + eth7},
		{api.NetAddition{NID: nid(t, "7@gni1")}, "the NI 7@gni1 already exists, which is waiting: " + gni},
	} {
		err := r.addNet(t, tt.add)
		if f, ok := errors.AsType[*api.Fault](err); !ok || f.Errno != -int(syscall.EEXIST) || f.Cause != tt.want {
			t.Errorf("%+v: %v, want the cause %q", tt.add, err, tt.want)
		}
	}
	for _, on := range []struct{ gateway, want string }{
		{"10.79.0.1@tcp3", ": NI tcp3(eth7) is not up: " + eth7}, {"9@gni1", ": NI 7@gni1 is not up: " + gni}, {"10.79.0.1@tcp4", ": unreachable"},
	} {
		err := r.AddRoute(t.Context(), api.Route{Net: tcpNet(9), Gateway: nid(t, on.gateway)})
		if !errors.Is(err, node.ErrUnreachable) || !strings.HasSuffix(err.Error(), on.want) {
			t.Errorf("a route by %s: %v", on.gateway, err)
		}
	}
	want := []string{"NI tcp3(eth7) waits: " + eth7, "NI 7@gni1 waits: " + gni}
	for _, mode := range []api.Mode{api.ModeAdd, api.ModeReplace} {
		for _, dry := range []bool{true, false} {
			request := api.ConfigurationChange{Mode: mode, Dry: dry, Wait: true, Document: api.Document{Name: "again.yaml", Text: text}}
			done, err := r.ChangeConfiguration(t.Context(), request)
			var got []string
			for _, w := range done.Warnings {
				got = append(got, w.Text)
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s, dry %v: %v, -want +got:\n%s", mode, dry, err, diff)
			}
		}
	}
}

// A waiting route can be deleted, and is not added later.
func TestRouteThatWaitsIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := host(lo, device("eth0", "10.77.0.11/24"))
		r := startNodeWith(t, parse(t, `
net:
  - {net type: tcp, interfaces: [eth0]}
  - {net type: tcp1, interfaces: [eth1]}
route: [{net: tcp9, gateway: 10.78.0.1@tcp1}, {net: tcp9, gateway: 10.78.0.2@tcp1}]
`), Drivers{TCP(n)}).ready(t)
		gone := r.Routes()[0]
		if err := r.DeleteRoute(t.Context(), gone.Net, gone.Gateway); err != nil {
			t.Fatal(err)
		}
		if err := r.DeleteRoute(t.Context(), gone.Net, gone.Gateway); !errors.Is(err, node.ErrNotFound) {
			t.Errorf("deleted again: %v", err)
		}
		n.set(lo, device("eth0", "10.77.0.11/24"), device("eth1", "10.78.0.11/24"))
		if routes := r.node.Routes(); len(routes) != 1 || routes[0].Gateway == gone.Gateway {
			t.Errorf("the node has %+v", routes)
		}
	})
}

// Without any NI that is up, lnetd is ready too, and reports what it waits for. A waiting NI can
// be removed, and does not come up later.
func TestNothingIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := host(lo)
		r := startNodeWith(t, parse(t, "net: [{net type: tcp, interfaces: [eth0]}, {net type: tcp1, nid: 10.78.0.11@tcp1}]"), Drivers{TCP(n)}).ready(t)
		if !strings.Contains(r.log.String(), `"msg":"no NI is up; this node reaches no other node until an interface becomes usable","waiting":"tcp(eth0): `) {
			t.Errorf("%s", r.log)
		}
		var err error
		busy := r.InTurn(t.Context(), func() {
			err = r.DeleteNet(t.Context(), api.NetDeletion{Net: lnet.MakeNet(lnet.TypeTCP, 0)})
		})
		if busy != nil || err != nil {
			t.Fatal(busy, err)
		}
		n.set(lo, device("eth0", "10.77.0.11/24"), device("eth1", "10.78.0.11/24"))
		if got := r.nids(); !slices.Equal(got, []string{"10.78.0.11@tcp1"}) {
			t.Errorf("NIs %v", got)
		}
	})
}

// Site rules are checked again until a rule matches this host.
//
// sanity-lnet 6 (155)
func TestRulesWaitForAnInterface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := host(lo)
		r := startNodeWith(t, parse(t, "ip2nets: [{net-spec: tcp, ip-range: [10.79.*.*]}]\n"), Drivers{TCP(n)})
		r.ready(t)
		if got := r.nids(); len(got) != 0 {
			t.Fatalf("NIs %v", got)
		}
		r.machine.Store(&[]config.Interface{{Name: "eth2", Addrs: []netip.Addr{netip.MustParseAddr("10.79.0.11")}, Up: true}})
		n.set(lo, device("eth2", "10.79.0.11/24"))
		if got := r.nids(); !slices.Equal(got, []string{"10.79.0.11@tcp"}) {
			t.Errorf("NIs %v\n%s", got, r.log)
		}
	})
}

// Given a port that another program uses, when interfaces change, then the NI of a rule is tried
// again each time, and the failure is logged at most four times a minute.
func TestRulesThatFailAreNotSaidAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := host(lo)
		n.taken = func(netip.AddrPort) bool { return true }
		r := startNodeWith(t, parse(t, "ip2nets: [{net-spec: tcp, ip-range: [10.79.*.*]}]\n"), Drivers{TCP(n)})
		r.ready(t)
		r.machine.Store(&[]config.Interface{{Name: "eth2", Addrs: []netip.Addr{netip.MustParseAddr("10.79.0.11")}, Up: true}})
		before := strings.Count(r.log.String(), "\n")
		for range 60 {
			n.set(lo, device("eth2", "10.79.0.11/24"))
			time.Sleep(time.Second)
		}
		if n := strings.Count(r.log.String(), "\n") - before; n == 0 || n > 4 {
			t.Errorf("%d lines:\n%s", n, r.log)
		}
		n.taken = nil
		n.set(lo, device("eth2", "10.79.0.11/24"))
		if got := r.nids(); !slices.Equal(got, []string{"10.79.0.11@tcp"}) {
			t.Errorf("NIs %v\n%s", got, r.log)
		}
	})
}

// A request that does not wait is rejected, with the list of interfaces.
//
// lnetctl 4.2 (2)
func TestInterfaceThatCannotBeUsed(t *testing.T) {
	off := device("eth1", "10.78.0.11/24")
	off.Up, off.Off = false, true
	r := startNodeWith(t, parse(t, "net: [{net type: tcp, interfaces: [eth0]}]"), Drivers{TCP(host(lo, device("eth0", "10.77.0.11/24"), off))}).ready(t)
	tcp1 := lnet.MakeNet(lnet.TypeTCP, 1)
	for _, tt := range []struct {
		add         api.NetAddition
		text, cause string
	}{
		{api.NetAddition{Net: tcp1, Interfaces: []string{"eth9"}}, "No interface matching 'eth9'", "no such network device"},
		{api.NetAddition{Net: tcp1, Interfaces: []string{"eth1"}}, "NI tcp1(eth1) cannot be brought up", "device eth1 is down"},
		{api.NetAddition{NID: nid(t, "10.77.0.99@tcp1")}, "No interface matching '10.77.0.99@tcp1'", "no such network device"},
	} {
		err := r.addNet(t, tt.add)
		var f *api.Fault
		if !errors.As(err, &f) || f.Text != tt.text || !strings.Contains(f.Cause, tt.cause) {
			t.Errorf("%+v: %v", tt.add, err)
		}
		if tt.cause == "no such network device" && (f.Errno != -19 || !strings.Contains(f.Remedy, "lo 127.0.0.1, eth0 10.77.0.11")) {
			t.Errorf("%+v: errno %d, remedy %s", tt.add, f.Errno, f.Remedy)
		}
	}
	if w := r.Waiting(); len(w) != 0 || len(r.nids()) != 1 {
		t.Errorf("waiting %+v, NIs %v", w, r.nids())
	}
}

// Connections per peer and the LND timeout of running NIs change at once, and back. An export
// that shows them is not a difference.
//
// lnetctl 4.5 (3)
// sanity-lnet 5 (241)
func TestNIsAreTuned(t *testing.T) {
	r := startNodeWith(t, parse(t, twoNets), Drivers{TCP(host(lo, device("eth0", "10.77.0.11/24"), device("eth1", "10.78.0.11/24")))}).ready(t)
	shown := func() map[string]int64 {
		for _, i := range r.node.NIs() {
			if i.NID == nid(t, "10.77.0.11@tcp") {
				return r.node.drivers.of(lnet.TypeTCP).show(&i, nil)
			}
		}
		return nil
	}
	set := func(want map[string]int64, tunables api.NITunables) {
		t.Helper()
		if err := r.SetNITunables(t.Context(), tunables); err != nil {
			t.Fatal(err)
		}
		for name, v := range want {
			if got := shown()[name]; got != v {
				t.Errorf("%s is %d, want %d", name, got, v)
			}
		}
	}
	tcp, none, long := lnet.MakeNet(lnet.TypeTCP, 0), 0, 65
	set(map[string]int64{"conns_per_peer": 5, "timeout": 50}, api.NITunables{All: true, LND: map[string]int64{"conns_per_peer": 5}})
	set(map[string]int64{"conns_per_peer": 5, "timeout": 65}, api.NITunables{Net: tcp, LNDTimeout: &long})

	own := r.node.engines.configured()
	for k := range own {
		own[k].Options = lnd.Values{"conns_per_peer": 5, "timeout": 65, "tos": -1}
		if own[k].Net != tcp {
			own[k].Options["timeout"] = 50
		}
	}
	have := config.State{NIs: r.node.engines.configured()}
	want := config.State{NIs: r.node.engines.resolved(own, nil, nil)}
	if steps := config.Diff(&have, &want, r.node.drivers.Options()); len(steps) != 0 {
		t.Errorf("its own export is %v", steps)
	}

	set(map[string]int64{"conns_per_peer": 1}, api.NITunables{NID: nid(t, "10.77.0.11@tcp"), LND: map[string]int64{"conns_per_peer": 0}})
	set(map[string]int64{"busy_poll": 50}, api.NITunables{Net: tcp, LND: map[string]int64{"busy_poll": 50}})
	for text, wrong := range map[string]map[string]int64{
		"conns_per_peer: 128 is not in 0 to 127":  {"conns_per_peer": 128},
		"tos cannot be changed while an NI is up": {"tos": 8},
		`no NI has a tunable named "ntx"`:         {"ntx": 8},
	} {
		if err := r.SetNITunables(t.Context(), api.NITunables{All: true, LND: wrong}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: error %v, want %q", wrong, err, text)
		}
	}
	p := r.node.Parameters()
	set(map[string]int64{"timeout": int64(p.LNDTimeout() / time.Second)}, api.NITunables{Net: tcp, LNDTimeout: &none})
}
