package daemon

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/node"
)

// NIs have the defaults of the drivers in the same document, on a new node and on a running one,
// with import and with the first apply.
func TestDefaultsOfTheSameDocument(t *testing.T) {
	const text = "lnetd: {networks: 'tcp1(eth1)', socklnd: {peer_credits: 16, credits: 64}}\n"
	want := api.Tunables{PeerTimeout: 180, PeerCredits: 16, Credits: 64}
	for _, mode := range []api.Mode{api.ModeAdd, api.ModeReplace} {
		r := startNode(t, parse(t, "net: [{net: tcp, interfaces: [eth0]}]\n")).ready(t)
		done, err := r.document(t, mode, text)
		if err != nil {
			t.Fatal(err)
		}
		nets := r.configuration(t).Nets
		if got := nets[len(nets)-1].NIs[0].Tunables; got != want {
			t.Errorf("%s: %+v", mode, got)
		}
		if (len(done.Restart) == 1) != (mode == api.ModeAdd) { // the driver has an NI that stays
			t.Errorf("%s: restart %q", mode, done.Restart)
		}
		r.settles(t, mode, text)
	}
}

// An NI without its own router buffers has the driver's. A driver with NIs is not replaced by an
// import. The second import finds nothing to change.
func TestImportWhereTheDriverStays(t *testing.T) {
	const text = "lnetd: {socklnd: {peer_buffer_credits: 0}}\nnet: [{net: tcp1, interfaces: [eth1]}]\n"
	r := startNode(t, parse(t, "lnetd: {networks: 'tcp(eth0)', socklnd: {peer_buffer_credits: 151}}\n")).ready(t)
	if _, err := r.document(t, api.ModeAdd, text); err != nil {
		t.Fatal(err)
	}
	nets := r.configuration(t).Nets
	if got := nets[len(nets)-1].NIs[0].Tunables.PeerBufferCredits; got != 151 {
		t.Errorf("%d router buffers", got)
	}
	r.settles(t, api.ModeAdd, text)
}

// A changed tunable is a difference.
func TestChangedTunableIsADifference(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	done := r.consistent(t, api.ModeReplace, strings.Replace(twoNets, "[eth0]", "[eth0]\n    tunables: {credits: 64}", 1))
	if len(done.Commands) == 0 || done.Before.Nets[0].NIs[0].Tunables.Credits != 256 || done.After.Nets[0].NIs[0].Tunables.Credits != 64 {
		t.Errorf("%q, %+v", done.Commands, done.After.Nets[0].NIs[0].Tunables)
	}
}

// A backup contains what commands set in addition to a kernel's export: LND timeouts, locked
// primary NIDs, buffers of a node that does not forward, and the level of the log.
func TestBackupHasWhatCommandsSet(t *testing.T) {
	r := startNode(t, parse(t, twoNets+"lnetd: {router_ping_timeout: 7, discovery: verify, metrics_addr: none}\n")).ready(t)
	err := errors.Join(
		r.SetNITunables(t.Context(), api.NITunables{Net: nid(t, "1.1.1.1@tcp").Net(), LNDTimeout: new(30)}),
		r.AddPeer(t.Context(), nid(t, "10.77.0.40@tcp"), nil, discovery.ConfigureOptions{Lock: true}),
		r.SetBuffers(t.Context(), api.Buffers{Tiny: 600, Small: -1, Large: -1}),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"router_ping_timeout": 7, "discovery": "verify", "metrics_addr": "none", "lock_prim": []string{"10.77.0.40@tcp"},
		"lnd_timeouts": []map[string]any{{"net": "tcp", "timeout": 30}},
	}
	c := r.configuration(t)
	if diff := cmp.Diff(want, c.Lnetd); diff != "" || c.Routing.Buffers().Tiny != 600 {
		t.Error(diff, c.Routing)
	}
	saved := backup(t, r)
	r.settles(t, api.ModeReplace, saved)
	other := startNode(t, parse(t, saved)).ready(t)
	same(t, "(-node +node of its backup)", r, other)
	if p, ok := other.Peer(nid(t, "10.77.0.40@tcp")); !ok || !discovery.State(p.State).Has(discovery.LockPrimary) {
		t.Errorf("the peer is not locked: %+v", p)
	}
}

// A document without nets means the interface that lnetd chooses, or no NI on a node without any.
func TestDocumentWithoutNets(t *testing.T) {
	const text = "global: {numa_range: 7}\n"
	fresh := startNode(t, parse(t, text)).ready(t)
	fresh.settles(t, api.ModeReplace, text)
	r := startNode(t, parse(t, twoNets)).ready(t)
	if _, err := r.document(t, api.ModeReplace, text); err != nil {
		t.Fatal(err)
	}
	r.settles(t, api.ModeReplace, text)
	same(t, "(-fresh +applied)", fresh, r)
	for _, configured := range []bool{false, true} {
		r.setLNet(t, api.LNet{Configured: configured})
	}
	r.settles(t, api.ModeReplace, backup(t, r))
}

// A router that is starting continues to start when its document is imported again.
func TestImportLeavesAStartingRouter(t *testing.T) {
	for _, text := range []string{"routing: {enable: 1}\n", "lnetd: {forwarding: enabled}\n"} {
		synctest.Test(t, func(t *testing.T) {
			r := startNode(t, parse(t, twoNets)).ready(t)
			for range 3 {
				if _, err := r.document(t, api.ModeAdd, text); err != nil {
					t.Fatal(err)
				}
				after(50 * time.Second)
			}
			if s := node.RoutingState(r.Routing().State); s != node.RoutingEnabled {
				t.Errorf("%q: state %d after 150 s", text, s)
			}
			r.settles(t, api.ModeAdd, text)
			r.settles(t, api.ModeReplace, twoNets+text)
		})
	}
}

// An import that sets a driver's option to its default removes the former value.
func TestImportOfADefault(t *testing.T) {
	r := startNodeWith(t, parse(t, "net: [{net: tcp, interfaces: [eth0]}]\nlnetd: {o2iblnd: {ntx: 9, timeout: 7}}\n"), Drivers{TCP(host(lo, device("eth0", "10.77.0.11/24"))), absent(AllDrivers()[1].DriverOptions)}).ready(t)
	const text = "lnetd: {o2iblnd: {ntx: 512}}\n"
	r.consistent(t, api.ModeAdd, text)
	done, err := r.document(t, api.ModeAdd, text)
	if diff := cmp.Diff(map[string]any{"o2iblnd": map[string]any{"timeout": 7}}, done.After.Lnetd); err != nil || diff != "" {
		t.Error(err, diff)
	}
	r.settles(t, api.ModeAdd, text)
}

// A failed reload does not change the configuration that LNet is configured with later, nor
// whether it waits for an interface that a rule matches.
func TestFailedReloadLeavesTheConfiguration(t *testing.T) {
	r := startNode(t, parse(t, beforeChange)).ready(t)
	before := r.configuration(t)
	r.failSteps(t, func(config.Step) error { return errors.New("broken") })
	waits := parse(t, "ip2nets: [{net-spec: tcp, ip-range: {0: 10.9.*.*}}]\nglobal: {numa_range: 7}\n")
	if err := r.reload(t, waits); err == nil || r.node.unsettled.Load() {
		t.Errorf("%v; the node waits for an interface: %v", err, r.node.unsettled.Load())
	}
	r.failSteps(t, nil)
	for _, configured := range []bool{false, true} {
		r.setLNet(t, api.LNet{Configured: configured, All: configured})
	}
	if diff := cmp.Diff(before, r.configuration(t), sameThings); diff != "" {
		t.Error(diff)
	}
	if err := r.reload(t, waits); err != nil || !r.node.unsettled.Load() {
		t.Fatalf("%v; the node waits for no interface", err)
	}
	r.failSteps(t, func(config.Step) error { return errors.New("broken") })
	settled := parse(t, beforeChange)
	if err := r.reload(t, settled); err == nil || !r.node.unsettled.Load() {
		t.Errorf("%v; the node does not wait any more", err)
	}
	r.failSteps(t, nil)
}
