package daemon

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
)

func tcpNet(n uint16) lnet.Net { return lnet.MakeNet(lnet.TypeTCP, n) }

func number64(n int) *int { return &n }

// refusal returns the error number and the text of an error, or "" without an error.
func refusal(t *testing.T, err error) (int, string) {
	t.Helper()
	var f *api.Fault
	if err != nil && !errors.As(err, &f) {
		t.Fatal(err)
	}
	if f == nil {
		return 0, ""
	}
	return f.Errno, f.Text
}

// Rules in the syntax of the module parameter keep the CPTs of interfaces. The CPTs of the
// command apply to the other interfaces.
//
// lnetctl 11 (8)
func TestIP2NetsKeepCPTs(t *testing.T) {
	for _, tt := range []struct {
		rules, cpt string
		want       []string
	}{
		{"tcp4(eth0[1],eth1) 10.77.*.*", "", []string{"[1]", "[0]"}},
		{"tcp4(eth0[1],eth1) 10.77.*.*", "[2]", []string{"[1]", "[2]"}},
		{"tcp4(eth0,eth1[0,3])[1-2] 10.77.*.*", "", []string{"[1,2]", "[0,3]"}},
		{"tcp4(eth0[*]) 10.77.*.*", "", []string{"[0]"}},
	} {
		t.Run(tt.rules+tt.cpt, func(t *testing.T) {
			r := startNode(t, parse(t, twoNets)).ready(t)
			r.node.engines.cpts = 4
			if err := r.addNet(t, api.NetAddition{IP2Nets: tt.rules, CPT: tt.cpt}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, ni := range r.configuration(t).Nets[2].NIs {
				got = append(got, ni.CPT)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// NIs are added to a running node, and deleted, with the errors of kernels.
//
// lnetctl 4.2 (1)-(3), 4.3 (1)
// sanity-lnet 5 (199)
func TestNetsAreAddedAndDeleted(t *testing.T) {
	r := startNode(t, parse(t, twoNets+"route: [{net: tcp9, gateway: 10.78.0.20@tcp1}]\n")).ready(t)
	before := r.configuration(t)
	add := func(n api.NetAddition) error { return r.addNet(t, n) }
	err := add(api.NetAddition{
		Net: tcpNet(2), Interfaces: []string{"eth0", "eth1"}, PeerTimeout: number64(60), PeerCredits: number64(16), Credits: number64(128),
		LND: map[string]int64{"conns_per_peer": 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	nis := r.Nets()[3].NIs
	if len(nis) != 2 || nis[0].NID != nid(t, "10.77.0.11@tcp2") || nis[1].NID != nid(t, "10.78.0.11@tcp2") ||
		nis[1].Tunables != (api.Tunables{PeerTimeout: 60, PeerCredits: 16, Credits: 128}) {
		t.Errorf("%+v", nis)
	}
	if err := add(api.NetAddition{NID: nid(t, "10.78.0.11@tcp3")}); err != nil {
		t.Error(err)
	}
	if err := add(api.NetAddition{IP2Nets: "tcp4 10.77.*.*"}); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		r     api.NetAddition
		errno int
		text  string
	}{
		{api.NetAddition{Net: tcpNet(2), Interfaces: []string{"eth1"}}, -17, "cannot add LNet NI"},
		{api.NetAddition{Net: tcpNet(5), Interfaces: []string{"eth0", "eth0"}}, -17, "cannot add LNet NI"},
		{api.NetAddition{Net: tcpNet(9), Interfaces: []string{"eth0"}}, -87, "cannot add LNet NI"},
		{api.NetAddition{Net: tcpNet(2), Interfaces: []string{"eth0[9-"}}, -22, "cannot parse interface"},
		{api.NetAddition{Net: tcpNet(6), Interfaces: []string{"eth0"}, LND: map[string]int64{"frob": 1}}, -22, "failed to parse lnd tunables"},
		{api.NetAddition{IP2Nets: "tcp4 192.168.*.*"}, -2, "No ip2nets rules applied"},
		{api.NetAddition{IP2Nets: "tcp4 10.77.*.*"}, -17, "cannot add LNet NI"},
	} {
		if errno, text := refusal(t, add(tt.r)); errno != tt.errno || text != tt.text {
			t.Errorf("%+v: %d %q", tt.r, errno, text)
		}
	}
	for _, d := range []api.NetDeletion{
		{Net: tcpNet(2), Interfaces: []string{"eth1"}}, {Net: tcpNet(2)}, {NID: nid(t, "10.78.0.11@tcp3")}, {Net: tcpNet(4)},
	} {
		if err := r.DeleteNet(t.Context(), d); err != nil {
			t.Errorf("%+v: %v", d, err)
		}
	}
	if diff := cmp.Diff(before, r.configuration(t), sameThings); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		r     api.NetDeletion
		errno int
		text  string
		cause string
	}{
		{api.NetDeletion{Net: tcpNet(2)}, -22, "cannot del network", "no NI exists on tcp2"},
		{api.NetDeletion{Net: tcpNet(1), Interfaces: []string{"eth0"}}, -19, "interface invalid for deleting LNet NI", "NI tcp1(eth0) does not exist"},
	} {
		err := r.DeleteNet(t.Context(), tt.r)
		if errno, text := refusal(t, err); errno != tt.errno || text != tt.text {
			t.Errorf("%+v: %d %q", tt.r, errno, text)
		}
		if cause := api.FaultOf(err).Cause; !strings.HasPrefix(cause, tt.cause) {
			t.Errorf("%+v: cause %q", tt.r, cause)
		}
	}
	// If one NI of an addition fails, the others are not added either.
	if err := add(api.NetAddition{Net: tcpNet(7), Interfaces: []string{"eth0", "eth9"}}); err == nil {
		t.Error("eth9 is up")
	}
	if diff := cmp.Diff(before, r.configuration(t), sameThings); diff != "" {
		t.Error(diff)
	}
}

// When a net loses its last NI, routes by gateways on the net are removed, and peers that are
// unreachable then.
//
// lnetctl 4.3 (2)
func TestNetTakesAlongWhatStandsOnIt(t *testing.T) {
	r := startNode(t, parse(t, twoNets+`
route:
  - {net: tcp8, gateway: 10.77.0.20@tcp}
  - {net: tcp9, gateway: 10.78.0.20@tcp1}
peer:
  - {primary nid: 10.78.0.30@tcp1}
  - {primary nid: 10.78.0.40@tcp1, peer ni: [{nid: 10.77.0.40@tcp}]}
  - {primary nid: 10.77.0.50@tcp, peer ni: [{nid: 10.78.0.50@tcp1}]}
  - {primary nid: 10.99.0.60@tcp5, peer ni: [{nid: 10.78.0.60@tcp1}]}
`)).ready(t)
	if err := r.DeleteNet(t.Context(), api.NetDeletion{Net: tcpNet(1)}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"10.77.0.20@tcp: 10.77.0.20@tcp gateway", // created by its route
		"10.77.0.40@tcp: 10.77.0.40@tcp 10.78.0.40@tcp1 multi-rail configured",
		"10.77.0.50@tcp: 10.77.0.50@tcp 10.78.0.50@tcp1 multi-rail configured",
		"10.99.0.60@tcp5: 10.99.0.60@tcp5 multi-rail configured",
	}
	if diff := cmp.Diff(want, peerTexts(r.peers(t))); diff != "" {
		t.Error(diff)
	}
	if routes := r.Routes(); len(routes) != 1 || routes[0].Net != tcpNet(8) {
		t.Errorf("%+v", routes)
	}
}

// LNet ends except for 0@lo and the parameters. It is configured again as at the start of lnetd.
//
// lnetctl 4.1
func TestLNetIsUnconfigured(t *testing.T) {
	r := startNode(t, parse(t, beforeChange+"global: {numa_range: 7}\nrouting: {enable: 1}\n")).ready(t)
	before := r.configuration(t)
	if err := r.node.AddFault(fault.Rule{Kind: fault.Drop, Source: fault.NIDFilter{}, Dest: fault.NIDFilter{}, Rate: 1}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.setLNet(t, api.LNet{})
		if nets := r.Nets(); !r.LNetDown() || len(nets) != 1 || nets[0].Net.Type() != lnet.TypeLO {
			t.Errorf("%v, %+v", r.LNetDown(), nets)
		}
		if s := r.Routing(); s.Ever || s.State != api.RoutingDisabled {
			t.Errorf("%+v", s)
		}
		if p, routes, f := r.peers(t), r.Routes(), r.node.Admin.Faults(fault.Drop); len(p) > 0 || len(routes) > 0 || len(f) > 0 || len(r.Rules()) > 0 {
			t.Errorf("%+v, %+v, %+v, %+v", p, routes, f, r.Rules())
		}
		if g := r.Globals(); g.Values["numa_range"] != 7 {
			t.Errorf("%+v", g)
		}
	}
	for name, err := range map[string]error{
		"net add": r.addNet(t, api.NetAddition{Net: tcpNet(2), Interfaces: []string{"eth0"}}),
		"net del": r.DeleteNet(t.Context(), api.NetDeletion{Net: tcpNet(2)}),
	} {
		if errno, text := refusal(t, err); errno != -100 || text != "Network is down" {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.setLNet(t, api.LNet{Configured: true})
	if nets := r.Nets(); r.LNetDown() || len(nets) != 1 {
		t.Errorf("%v, %+v", r.LNetDown(), nets)
	}
	r.setLNet(t, api.LNet{Configured: true, All: true}) // already configured, so nothing happens
	if len(r.Nets()) != 1 {
		t.Errorf("%+v", r.Nets())
	}
	r.setLNet(t, api.LNet{})
	r.setLNet(t, api.LNet{Configured: true, All: true})
	if diff := cmp.Diff(before, r.configuration(t), sameThings); diff != "" {
		t.Error(diff)
	}
}

// A test can set the state of a peer.
//
// lnetctl 4.11 (3)
func TestPeerStateIsSet(t *testing.T) {
	r := startNode(t, parse(t, twoNets+"peer: [{primary nid: 10.77.0.30@tcp}, {primary nid: 10.77.0.31@tcp}]\n")).ready(t)
	state := func(name string) uint32 {
		p, _ := r.Peer(nid(t, name))
		return p.State & uint32(discovery.MultiRail|discovery.Configured|discovery.Discovered|discovery.NIDsUpToDate|discovery.LockPrimary)
	}
	if err := r.SetPeerState(t.Context(), nid(t, "10.77.0.30@tcp"), 1|1<<4|1<<8|1<<20|1<<9); err != nil {
		t.Fatal(err)
	}
	if s := state("10.77.0.30@tcp"); s != 1|1<<4|1<<8|1<<20 {
		t.Errorf("state %b", s)
	}
	if p, _ := r.Peer(nid(t, "10.77.0.30@tcp")); p.State&(1<<9) != 0 {
		t.Error("a ping is under way that is not")
	}
	if err := r.SetPeerState(t.Context(), lnet.NID{}, 1); err != nil {
		t.Fatal(err)
	}
	if s := state("10.77.0.30@tcp") + state("10.77.0.31@tcp"); s != 2 {
		t.Errorf("states %d", s)
	}
	if err := r.SetPeerState(t.Context(), nid(t, "10.77.0.99@tcp"), 1); !errors.Is(err, discovery.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// A reload changes what differs: NIs, routes, parameters, and the level of the log. A reload with
// errors, or one that fails, changes nothing.
func TestReload(t *testing.T) {
	level := &slog.LevelVar{}
	c := parse(t, beforeChange)
	c.ControlSocket = t.TempDir() + "/c.sock"
	n := host(lo, device("eth0", "10.77.0.11/24"), device("eth1", "10.78.0.11/24"))
	r := runDaemon(t, c, Drivers{TCP(n)}, func(d *Daemon) { d.SetLevel(level) })
	r.ready(t)
	reload := func(text string, failing error) (now api.Configuration) {
		t.Helper()
		r.Reload(t.Context(), func() (config.Config, error) {
			if failing != nil {
				return config.Config{}, failing
			}
			c := parse(t, text)
			c.ControlSocket, c.SHA256 = r.socket, text
			return c, nil
		})
		if <-r.states == "READY=1" || <-r.states != "READY=1" {
			t.Error("systemd hears no reload")
		}
		b := newBackend(r.Daemon, r.node, nil, nil, nil)
		var err error
		if busy := b.InTurn(t.Context(), func() { now, err = b.Configuration(t.Context()) }); busy != nil || err != nil {
			t.Fatal(busy, err)
		}
		sortPeers(now.Peers)
		return now
	}
	before := reload(beforeChange, nil)
	fresh := startNode(t, parse(t, afterChange+"lnetd: {log_level: debug}\n")).ready(t).configuration(t)
	if diff := cmp.Diff(fresh, reload(afterChange+"lnetd: {log_level: debug}\n", nil), sameThings); diff != "" {
		t.Errorf("(-fresh +reloaded): %s", diff)
	}
	if level.Level() != slog.LevelDebug {
		t.Errorf("level %v", level.Level())
	}
	if diff := cmp.Diff(before, reload(beforeChange, nil), sameThings); diff != "" {
		t.Errorf("(-before +back): %s", diff)
	}
	if diff := cmp.Diff(before, reload("", errors.New("no such file")), sameThings); diff != "" {
		t.Error(diff)
	}
	bad := afterChange + "peer: [{primary nid: 10.77.0.40@tcp, Multi-Rail: false}]\n"
	if diff := cmp.Diff(before, reload(bad, nil), sameThings); diff != "" {
		t.Errorf("a reload that fails: %s", diff)
	}
	got := r.record.get()
	if got.Succeeded != 3 || got.Partial != 0 || got.Failed != 2 || got.SHA256 != beforeChange || !got.LastFailed || !got.Last.After(got.Loaded) {
		t.Errorf("of reloads is known %+v", got)
	}
	if reload(beforeChange+"lnetd: {metrics_addr: '127.0.0.1:0'}\n", nil); r.record.get().Partial != 1 || r.record.get().LastFailed {
		t.Errorf("after one of which a part needs a restart: %+v", r.record.get())
	}
	const one, other = "{type: net, net: tcp5, priority: 1}", "{type: net, net: tcp6, priority: 2}"
	withIDs := reload("selection: ["+one+", "+other+"]", nil)
	if diff := cmp.Diff(withIDs.Selection, reload("selection: ["+other+", "+one+"]", nil).Selection); diff != "" || len(withIDs.Selection) != 2 {
		t.Errorf("rules of selection do not keep their IDs: %d, %s", len(withIDs.Selection), diff)
	}
	r.stop(t)
}

// Adding an NI that exists already names it, under whatever name it is added, with the command to
// delete it.
func TestAdditionOfAnNIThatIsThere(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	for _, add := range []api.NetAddition{
		{Net: tcpNet(1), Interfaces: []string{"eth1"}},
		{NID: nid(t, "10.78.0.11@tcp1")},
	} {
		var err error
		if busy := r.InTurn(t.Context(), func() { err = r.addNet(t, add) }); busy != nil {
			t.Fatal(busy)
		}
		f, ok := errors.AsType[*api.Fault](err)
		if !ok || f.Errno != -int(syscall.EEXIST) || f.Cause != "the NI tcp1(eth1) already exists, with the NID 10.78.0.11@tcp1" ||
			!strings.HasSuffix(f.Remedy, ": lnetdctl net del --nid 10.78.0.11@tcp1") {
			t.Errorf("%+v: %+v, %v", add, f, err)
		}
	}
}

// A name with numbers in brackets selects several interfaces wherever interfaces are named: at
// the start, in --check, in documents and their deletion, and in "net add" and "net del".
//
// lnetctl 11 (15)
func TestListedInterfaces(t *testing.T) {
	const document = "net: [{net: tcp5, interfaces: {0: 'eth[0-4]'}}]\n"
	both := []string{"10.77.0.11@tcp5", "10.78.0.11@tcp5"}
	want := func(t *testing.T, r *nodeRun, what string, want []string, err error) {
		t.Helper()
		var got []string
		for _, nid := range r.nids() {
			if strings.HasSuffix(nid, "@tcp5") {
				got = append(got, nid)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, %s", what, err, diff)
		}
	}
	r := startNode(t, parse(t, twoNets)).ready(t)
	list := []string{"eth[0-4]"}
	want(t, r, "net add", both, r.addNet(t, api.NetAddition{Net: tcpNet(5), Interfaces: list}))
	want(t, r, "net del", nil, r.DeleteNet(t.Context(), api.NetDeletion{Net: tcpNet(5), Interfaces: list}))
	for _, mode := range []api.Mode{api.ModeAdd, api.ModeAdd} { // the second time, it exists
		_, err := r.document(t, mode, document)
		want(t, r, "import", both, err)
	}
	found, _, err := r.Described(t.Context(), api.Document{Name: "t.yaml", Text: document})
	if err != nil || len(found.Nets) != 1 || len(found.Nets[0].NIs) != 2 {
		t.Errorf("--show: %+v, %v", found.Nets, err)
	}
	_, err = r.document(t, api.ModeDelete, document)
	want(t, r, "import --del", nil, err)
	if err := r.addNet(t, api.NetAddition{Net: tcpNet(5), Interfaces: []string{"eth[7-9]"}}); api.FaultOf(err).Errno >= 0 {
		t.Errorf("interfaces that there are not: %v", err)
	}
	c := parse(t, document)
	if waits := foreseeRules("t.yaml", &c, twoInterfaces); len(waits) > 0 || len(c.NIs) != 2 {
		t.Errorf("--check: %v, NIs %v", waits, c.NIs)
	}
	want(t, startNode(t, parse(t, document)).ready(t), "the start", both, nil)
}

// An NI that was added by its NID can be deleted by the name of its interface.
func TestDeletionByInterfaceOfAnNIByNID(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	own := nid(t, "10.78.0.11@tcp5")
	if err := r.addNet(t, api.NetAddition{NID: own}); err != nil {
		t.Fatal(err)
	}
	if err := r.DeleteNet(t.Context(), api.NetDeletion{Net: tcpNet(5), Interfaces: []string{"eth0"}}); err == nil {
		t.Error("it is deleted by the name of another interface")
	}
	if err := r.DeleteNet(t.Context(), api.NetDeletion{Net: tcpNet(5), Interfaces: []string{"eth1"}}); err != nil {
		t.Error(err)
	}
	if slices.Contains(r.nids(), own.String()) {
		t.Errorf("%s is left", own)
	}
}

// A pattern that matches no interface deletes nothing, with a warning, and the rest of the document goes on.
//
// decisions 65
func TestDeletionByAPatternThatMatchesNothing(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	had := r.nids()
	done, err := r.document(t, api.ModeDelete, "net: [{net: tcp6, pattern: 10.99.*.*}, {net: tcp7}]\n")
	var said []string
	for _, w := range done.Warnings {
		said = append(said, w.Text)
	}
	want := []string{"net tcp7 does not exist; nothing is deleted", "No ip2nets rules applied: no rule matches the interfaces and addresses of this host; nothing is deleted"}
	slices.Sort(said)
	slices.Sort(want)
	if diff := cmp.Diff(want, said); diff != "" || err != nil || !slices.Equal(r.nids(), had) {
		t.Errorf("%v, NIs %v, %s", err, r.nids(), diff)
	}
}

// Interfaces that numbers stand for come up although a rule of the same document waits for an interface.
//
// lnetctl 11 (15)
func TestListedInterfacesBesideARuleThatWaits(t *testing.T) {
	const document = "net: [{net: tcp5, interfaces: {0: 'eth[0-4]'}}, {net: tcp6, pattern: 10.99.*.*}]\n"
	want := []string{"10.77.0.11@tcp5", "10.78.0.11@tcp5"}
	up := func(r *nodeRun) []string {
		return slices.DeleteFunc(r.nids(), func(nid string) bool { return !strings.HasSuffix(nid, "@tcp5") })
	}
	if diff := cmp.Diff(want, up(startNode(t, parse(t, document)).ready(t))); diff != "" {
		t.Error("the start:", diff)
	}
	r := startNode(t, parse(t, twoNets)).ready(t)
	var err error
	busy := r.InTurn(t.Context(), func() {
		_, err = r.ChangeConfiguration(t.Context(), api.ConfigurationChange{
			Document: api.Document{Name: "t.yaml", Text: document}, Mode: api.ModeAdd, Wait: true,
		})
	})
	if diff := cmp.Diff(want, up(r)); diff != "" || err != nil || busy != nil {
		t.Errorf("import --wait: %v, %v, %s", busy, err, diff)
	}
	c := parse(t, document)
	if waits := foreseeRules("t.yaml", &c, twoInterfaces); len(waits) != 1 || len(c.NIs) != 2 {
		t.Errorf("--check: %v, NIs %v", waits, c.NIs)
	}
}
