package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// sameThings are options to compare configurations.
var sameThings = cmp.Options{
	cmp.Comparer(func(a, b lnet.NID) bool { return a == b }),
	cmp.Comparer(func(a, b lnet.Pattern) bool { return a.String() == b.String() }),
}

// document changes the node's configuration with a document.
func (r *nodeRun) document(t *testing.T, mode api.Mode, text string) (done api.ConfigurationChanged, err error) {
	t.Helper()
	request := api.ConfigurationChange{Document: api.Document{Name: "d.yaml", Text: text}, Mode: mode}
	if busy := r.InTurn(t.Context(), func() { done, err = r.ChangeConfiguration(t.Context(), request) }); busy != nil {
		t.Fatal(busy)
	}
	return done, err
}

// configuration returns the node's configuration with peers sorted by primary NID. Their own
// order is that of their age, which undoing a change does not restore.
func (r *nodeRun) configuration(t *testing.T) api.Configuration {
	t.Helper()
	c := r.configurationByAge(t)
	sortPeers(c.Peers)
	return c
}

// configurationByAge returns the node's configuration with peers in their own order.
func (r *nodeRun) configurationByAge(t *testing.T) (c api.Configuration) {
	t.Helper()
	var err error
	if busy := r.InTurn(t.Context(), func() { c, err = r.Configuration(t.Context()) }); busy != nil || err != nil {
		t.Fatal(busy, err)
	}
	return c
}

// A document that is added takes effect, and deleting it restores the former state.
//
// lnetctl 7 (3)-(4)
// sanity-lnet 3 (14)-(15), 3 (17)
func TestDocumentIsAddedAndDeleted(t *testing.T) {
	for name, text := range map[string]string{
		"a peer":       "peer:\n    - primary nid: 1.1.1.1@tcp\n      Multi-Rail: True\n      peer ni:\n        - nid: 1.1.1.1@tcp\n",
		"a peer's all": "peer: [{primary nid: 1.1.1.1@o2ib, peer ni: [{nid: 1.1.1.1@o2ib}, {nid: '2.2.2.[2-8]@tcp'}]}]\n",
		"a route":      "route: [{net: tcp7, gateway: 10.77.0.20@tcp, hop: 2, priority: 3}]\n",
		"a net":        "net: [{net type: tcp3, local NI(s): [{interfaces: {0: eth0, 1: eth1}}]}]\n",
		"a gateway":    "route: [{net: tcp7, gateway: 10.77.0.20@tcp}]\npeer: [{primary nid: 10.77.0.20@tcp, peer ni: [{nid: 10.77.0.20@tcp}, {nid: 10.78.0.20@tcp1}]}]\n",
		"rules":        "udsp: [{idx: 0, src: tcp, priority: 3}, {idx: 1, dst: 10.0.0.1@tcp, rte: 10.0.0.2@tcp}]\n",
		"all": `
net: [{net type: tcp3, local NI(s): [{interfaces: {0: eth0}, tunables: {credits: 32}}]}]
route: [{net: tcp7, gateway: 10.9.0.20@tcp3}]
peer: [{primary nid: 1.1.1.1@tcp, peer ni: [{nid: 1.1.1.1@tcp}, {nid: 1.1.1.1@tcp1}]}]
udsp: [{idx: 0, src: tcp, priority: 3}]
routing: {enable: 1}
buffers: {tiny: 600}
global: {numa_range: 7, max_interfaces: 100, discovery: 0}
`,
	} {
		t.Run(name, func(t *testing.T) {
			r := startNode(t, parse(t, twoNets)).ready(t)
			before := r.configuration(t)
			added, err := r.document(t, api.ModeAdd, text)
			if err != nil {
				t.Fatal(err)
			}
			if len(added.Commands) == 0 || cmp.Equal(before, added.After, sameThings) || !cmp.Equal(before, added.Before, sameThings) {
				t.Errorf("%+v", added)
			}
			again, err := r.document(t, api.ModeAdd, text)
			if err != nil || len(again.Commands) > 0 {
				t.Errorf("added again: %q, %v", again.Commands, err)
			}
			gone, err := r.document(t, api.ModeDelete, text)
			if err != nil || len(gone.Warnings) > 0 {
				t.Fatalf("%v, %+v", err, gone.Warnings)
			}
			gone.After.Routing.Ever = before.Routing.Ever // it is remembered that the node has forwarded
			if diff := cmp.Diff(before, gone.After, sameThings); diff != "" {
				t.Errorf("(-before +after): %s", diff)
			}
		})
	}
}

// Deleting NIDs leaves the peer. A deletion of things that do not exist gives warnings.
//
// lnetctl 7 (4)
// sanity-lnet 3 (18a)
func TestDocumentDeletesNIDs(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	const peer = "peer: [{primary nid: 1.1.1.1@tcp, peer ni: [{nid: %s}]}]\n"
	if _, err := r.document(t, api.ModeAdd, fmt.Sprintf(peer, "1.1.1.1@tcp}, {nid: 2.2.2.2@tcp}, {nid: 4.4.4.4@tcp}, {nid: 3.3.3.3@o2ib}, {nid: 5@gni")); err != nil {
		t.Fatal(err)
	}
	done, err := r.document(t, api.ModeDelete, fmt.Sprintf(peer, "2.2.2.2@tcp}, {nid: 3.3.3.3@o2ib}, {nid: 5@gni}, {nid: 6.6.6.6@tcp"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1.1.1.1@tcp: 1.1.1.1@tcp 4.4.4.4@tcp multi-rail configured"}, peerTexts(r.peers(t))); diff != "" {
		t.Error(diff)
	}
	if len(done.Warnings) != 1 || done.Warnings[0].Line != 1 || !strings.Contains(done.Warnings[0].Text, "does not have the NID 6.6.6.6@tcp") {
		t.Errorf("%+v", done.Warnings)
	}
}

// A replacement removes everything else. Items that stay unchanged need no step.
func TestDocumentReplaces(t *testing.T) {
	r := startNode(t, parse(t, beforeChange)).ready(t)
	after := startNode(t, parse(t, afterChange)).ready(t)
	dry := api.ConfigurationChange{Document: api.Document{Name: "d.yaml", Text: afterChange}, Mode: api.ModeReplace, Dry: true}
	before := r.shape(t)
	planned, err := r.ChangeConfiguration(t.Context(), dry)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, r.shape(t)); diff != "" {
		t.Errorf("a plan changes the node: %s", diff)
	}
	done, err := r.document(t, api.ModeReplace, afterChange)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(planned.Commands, done.Commands); diff != "" || len(done.Commands) == 0 {
		t.Errorf("(-planned +done): %s", diff)
	}
	if diff := cmp.Diff(after.shape(t), r.shape(t)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(after.configuration(t), done.After, sameThings); diff != "" {
		t.Errorf("(-a fresh node +this one): %s", diff)
	}
	again, err := r.document(t, api.ModeReplace, afterChange)
	if err != nil || len(again.Commands) > 0 {
		t.Errorf("again: %q, %v", again.Commands, err)
	}
}

// Changes by commands are part of the configuration at once, and a replacement removes them.
func TestDocumentReplacesWhatCommandsDid(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	before := r.configuration(t)
	err := errors.Join(
		r.SetGlobals(t.Context(), api.GlobalsChange{Values: map[string]int64{"retry_count": 1}}),
		r.AddPeer(t.Context(), nid(t, "10.77.0.20@tcp"), nil, discovery.ConfigureOptions{}),
		r.AddRoute(t.Context(), api.Route{Net: lnet.MakeNet(lnet.TypeTCP, 7), Gateway: nid(t, "10.77.0.30@tcp")}),
		r.addNet(t, api.NetAddition{Net: lnet.MakeNet(lnet.TypeTCP, 2), Interfaces: []string{"eth0"}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	done, err := r.document(t, api.ModeReplace, twoNets)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"route del --net tcp7 --gateway 10.77.0.30@tcp", "peer del --prim_nid 10.77.0.20@tcp",
		"net del --net tcp2 --if eth0", "set retry_count 2",
	}
	if diff := cmp.Diff(want, done.Commands); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, r.configuration(t), sameThings); diff != "" {
		t.Error(diff)
	}
}

// All mistakes in a document are reported at once, and nothing is changed.
func TestDocumentWithMistakes(t *testing.T) {
	r := startNode(t, parse(t, beforeChange)).ready(t)
	before := r.shape(t)
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"language": {
			"global: {retry_count: many}\nroute: [{gateway: 10.0.0.1@tcp}]\n",
			[]string{`global.retry_count`, `route[0]`},
		},
		"what does not go together": {
			"route: [{net: tcp1, gateway: 10.77.0.20@tcp}, {net: tcp7, gateway: 10.0.0.1@tcp5}]\n" +
				"net: [{net: tcp, interfaces: [eth0], tunables: {credits: 77}}]\n" +
				"peer: [{primary nid: 10.77.0.40@tcp, Multi-Rail: false, peer ni: [{nid: 10.99.0.1@tcp3}]}]\n",
			[]string{"a local net", "No interface configured on the same net", "cannot add LNet NI", "Multi-Rail"},
		},
		"values in force": {"global: {retry_count: 200}\n", []string{"transaction_timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.document(t, api.ModeAdd, tt.text)
			var f *api.Fault
			if !errors.As(err, &f) || f.Code != api.CodeConfigInvalid || f.Errno != -22 || len(f.Problems) != len(tt.want) {
				t.Fatalf("%v", err)
			}
			said := err.Error()
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("not said: %s\n%s", want, said)
				}
			}
			if diff := cmp.Diff(before, r.shape(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Settings that need a restart are listed, and all others are applied.
func TestDocumentThatNeedsARestart(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	done, err := r.document(t, api.ModeAdd, "lnetd: {socklnd: {nagle: 1}, metrics_addr: '127.0.0.1:1'}\nglobal: {numa_range: 7}\n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"metrics_addr", "change the options of tcp nets"}, done.Restart); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"set numa_range 7", "# metrics_addr (lnetd itself) changes at the next restart"}, done.Commands); diff != "" || done.After.Globals.Values["numa_range"] != 7 {
		t.Errorf("%s%+v", diff, done.After.Globals)
	}
}

// An empty document replaces nothing, nor does an empty file.
func TestEmptyDocument(t *testing.T) {
	r := startNode(t, parse(t, beforeChange)).ready(t)
	before := r.configuration(t)
	for _, text := range []string{"", "# nothing\n", "---\n...\n"} {
		_, err := r.document(t, api.ModeReplace, text)
		var f *api.Fault
		if !errors.As(err, &f) || f.Code != api.CodeConfigInvalid || !strings.Contains(f.Text, "is empty") {
			t.Errorf("%q: %v", text, err)
		}
		for _, mode := range []api.Mode{api.ModeAdd, api.ModeDelete} {
			if done, err := r.document(t, mode, text); err != nil || len(done.Commands) > 0 {
				t.Errorf("%s %q: %q, %v", mode, text, done.Commands, err)
			}
		}
		c := parse(t, text)
		if err := r.reload(t, c); !errors.As(err, &f) {
			t.Errorf("reloaded %q: %v", text, err)
		}
	}
	if diff := cmp.Diff(before, r.configuration(t), sameThings); diff != "" {
		t.Error(diff)
	}
}

// richChange has a step of every kind.
var richChange = strings.Replace(strings.Replace(afterChange, "interfaces: [eth0]", "interfaces: [eth0]\n    tunables: {credits: 64}", 1),
	"net:\n", "net:\n  - {net type: tcp2, interfaces: [eth1]}\n", 1) + "routing: {enable: 1}\n"

// Whichever step fails, the node's state is restored, even if the client has left.
func TestEachStepFails(t *testing.T) {
	r := startNode(t, parse(t, beforeChange)).ready(t)
	request := api.ConfigurationChange{Document: api.Document{Name: "d.yaml", Text: richChange}, Mode: api.ModeReplace}
	before, shape := r.configuration(t), r.shape(t)
	broken := errors.New("broken")
	for k := 0; ; k++ {
		for _, gone := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			taken, failed := 0, false
			r.failSteps(t, func(s config.Step) error {
				if taken++; taken != k+1 {
					return nil
				}
				failed = true
				if gone {
					cancel()
				}
				return fmt.Errorf("%s: %w", s, broken)
			})
			var err error
			if busy := r.InTurn(t.Context(), func() { _, err = r.ChangeConfiguration(ctx, request) }); busy != nil {
				t.Fatal(busy)
			}
			cancel()
			r.failSteps(t, nil)
			if !failed {
				if k < 10 || err != nil {
					t.Fatalf("%d steps, %v", k, err)
				}
				return
			}
			want := broken
			if gone {
				want = context.Canceled
			}
			if !errors.Is(err, want) {
				t.Errorf("step %d: %v", k, err)
			}
			if diff := cmp.Diff(before, r.configuration(t), sameThings); diff != "" {
				t.Fatalf("step %d fails, gone %v (-before +after): %s", k, gone, diff)
			}
			if diff := cmp.Diff(shape, r.shape(t)); diff != "" {
				t.Fatalf("step %d fails, gone %v: %s", k, gone, diff)
			}
		}
	}
}

// The NIs, including the first one, are in the order of the document, as after a restart with it.
func TestDocumentOrdersNIs(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	before := r.shape(t)
	other := "net: [{net type: tcp1, interfaces: [eth1]}, {net type: tcp, interfaces: [eth0]}]\n"
	started := startNode(t, parse(t, other)).ready(t).shape(t)
	for _, step := range []struct {
		text string
		want []string
	}{{other, started}, {other, started}, {twoNets, before}} {
		if _, err := r.document(t, api.ModeReplace, step.text); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, r.shape(t)); diff != "" {
			t.Errorf("%s: %s", step.text, diff)
		}
	}
	request := api.ConfigurationChange{Document: api.Document{Name: "d.yaml", Text: other}, Mode: api.ModeReplace, Dry: true}
	done, err := r.ChangeConfiguration(t.Context(), request)
	want := []string{"# the order of NIs becomes tcp1(eth1), tcp(eth0): peers see the NID of the first as the primary NID"}
	if diff := cmp.Diff(want, done.Commands); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// A document turns a router that is stopping into a router again, although a command cannot.
func TestDocumentWhileRoutingStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		routing := twoNets + "routing: {enable: 1}\n"
		r := startNode(t, parse(t, routing)).ready(t)
		for _, text := range []string{twoNets, routing} {
			if _, err := r.document(t, api.ModeReplace, text); err != nil {
				t.Fatal(err)
			}
		}
		after(20 * time.Second)
		if s := node.RoutingState(r.Routing().State); s != node.RoutingStarting {
			t.Errorf("state %d", s)
		}
	})
}

// Settings that a replacement omits get their defaults, also in the section "lnetd". Settings
// of the host stay: lnetd's ports, and which connections it accepts.
func TestDocumentThatReplacesLeaves(t *testing.T) {
	r := startNode(t, parse(t, twoNets+`
global: {discovery: 0, retry_count: 1}
lnetd: {router_ping_timeout: 7, socklnd: {nagle: 1}, port: 9988, accept: all, control_socket: /here}
`)).ready(t)
	done, err := r.document(t, api.ModeReplace, twoNets)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"net del --net tcp1 --if eth1", "net del --net tcp --if eth0", "# change the options of tcp nets",
		"set discovery 1", "set retry_count 2", "# change parameters of the section \"lnetd\"; no command can do this",
		"net add --net tcp --if eth0", "net add --net tcp1 --if eth1", "# control_socket (lnetd itself) changes at the next restart",
	}
	if diff := cmp.Diff(want, done.Commands); diff != "" || !slices.Equal(done.Restart, []string{"control_socket"}) {
		t.Error(diff, done.Restart)
	}
	left := map[string]any{"port": 9988, "accept": "all"}
	if diff := cmp.Diff(left, done.After.Lnetd); diff != "" {
		t.Error(diff)
	}
}

// A document that describes a discovered peer changes nothing. The peer can be deleted.
func TestDocumentWithAFoundPeer(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	const peer = "peer: [{primary nid: 10.77.0.20@tcp, Multi-Rail: %v, peer ni: [{nid: 10.77.0.20@tcp}]}]\n"
	if _, err := r.node.Admin.AddPeer(t.Context(), []lnet.NID{nid(t, "10.77.0.20@tcp")}, node.AddPeerOptions{}); err != nil {
		t.Fatal(err)
	}
	p, ok := r.Peer(nid(t, "10.77.0.20@tcp"))
	if !ok {
		t.Fatal("there is no peer")
	}
	text := fmt.Sprintf(peer, p.MultiRail)
	if done, err := r.document(t, api.ModeReplace, twoNets+text); err != nil || len(done.Commands) > 0 {
		t.Errorf("%q, %v", done.Commands, err)
	}
	if done, err := r.document(t, api.ModeReplace, twoNets+fmt.Sprintf(peer, !p.MultiRail)); err != nil || len(done.Commands) != 1 {
		t.Errorf("another one: %q, %v", done.Commands, err)
	}
	if _, err := r.document(t, api.ModeDelete, text); err != nil || len(r.peers(t)) > 0 {
		t.Errorf("%v, %v", r.peers(t), err)
	}
	if _, err := r.node.Admin.AddPeer(t.Context(), []lnet.NID{nid(t, "10.77.0.20@tcp")}, node.AddPeerOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.document(t, api.ModeDelete, text); err != nil || len(r.peers(t)) > 0 {
		t.Errorf("found: %v, %v", r.peers(t), err)
	}
}

// A plan reports what apply would reject or let wait.
func TestPlanForesees(t *testing.T) {
	r := startNode(t, parse(t, "net: [{net: tcp, interfaces: [eth0]}]\n")).ready(t)
	request := api.ConfigurationChange{Mode: api.ModeReplace, Dry: true, Document: api.Document{Name: "d.yaml", Text: `
net:
  - {net: tcp, interfaces: [eth0]}
  - {net: tcp1, interfaces: [eth9]}
  - {net: o2ib, interfaces: [ib0]}
  - {net: tcp2, interfaces: [eth1]}
route: [{net: tcp9, gateway: 10.78.0.11@tcp2}, {net: tcp9, gateway: 10.78.0.12@tcp2}]
`}}
	done, err := r.ChangeConfiguration(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range done.Warnings {
		got = append(got, fmt.Sprintf("%d: %s: %s; %s", w.Line, w.Key, w.Text, w.Remedy))
	}
	want := []string{
		"4: net[1]: NI tcp1(eth9) cannot be brought up now: \"eth9\": no such network device; with --wait it comes up when its interface can be used",
		"7: route[0]: the route to tcp9 through 10.78.0.11@tcp2 is ignored: the gateway is this node; ",
		"5: net[2]: NI o2ib(ib0) cannot be brought up: this lnetd has no driver for o2ib nets; " + remedyNoDriver(lnet.TypeO2IB),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A document that deletes something that does not exist gives a warning with the line.
func TestAbsentHasALine(t *testing.T) {
	r := startNode(t, parse(t, "net: [{net: tcp, interfaces: [eth0]}]\n")).ready(t)
	done, err := r.document(t, api.ModeDelete, `
net:
  - {net: tcp, interfaces: [eth1]}
  - {net: tcp4}
route: [{net: tcp9, gateway: 10.77.0.1@tcp}]
peer:
  - {primary nid: 10.77.0.2@tcp}
udsp:
  - {idx: 3}
lnetd:
  selection:
    - {id: 4}
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range done.Warnings {
		got = append(got, fmt.Sprintf("%d: %s: %s", w.Line, w.Key, w.Text))
	}
	want := []string{
		"3: net[0]: NI tcp(eth1) does not exist; nothing is deleted",
		"4: net[1]: net tcp4 does not exist; nothing is deleted",
		"5: route[0]: a route to tcp9 through 10.77.0.1@tcp does not exist; nothing is deleted",
		"7: peer[0]: peer 10.77.0.2@tcp does not exist; nothing is deleted",
		"9: udsp[0]: rule 3 does not exist; nothing is deleted",
		"12: lnetd.selection[0]: rule with id 4 does not exist; nothing is deleted",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A document changes settings of lnetd itself as far as that is possible, and lists them
// beforehand. Settings that it does not contain stay.
func TestDocumentAroundTheNode(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	level := &slog.LevelVar{}
	r.daemon.SetLevel(level)
	const text = "lnetd: {log_level: debug, control_socket: /elsewhere}\n"
	plan := api.ConfigurationChange{Document: api.Document{Name: "d.yaml", Text: text}, Mode: api.ModeAdd, Dry: true}
	done, err := r.ChangeConfiguration(t.Context(), plan)
	want := api.ConfigurationChanged{
		Commands: []string{"# control_socket (lnetd itself) changes at the next restart", "# log_level (lnetd itself) changes"}, Restart: []string{"control_socket"},
	}
	for _, what := range []string{"planned", "done"} {
		if err != nil || !slices.Equal(done.Commands, want.Commands) || !slices.Equal(done.Restart, want.Restart) {
			t.Errorf("%s: %q, %q, %v", what, done.Commands, done.Restart, err)
		}
		if now := level.Level(); (now == slog.LevelDebug) != (what == "done") {
			t.Errorf("%s: level %v", what, now)
		}
		if what == "planned" {
			done, err = r.document(t, api.ModeAdd, text)
		}
	}
	if done, err = r.document(t, api.ModeAdd, "global: {numa_range: 7}\n"); err != nil || level.Level() != slog.LevelDebug {
		t.Errorf("what says nothing of it: %q, %v, level %v", done.Commands, err, level.Level())
	}
	if done, err = r.document(t, api.ModeAdd, text); err != nil || len(done.Commands) > 0 {
		t.Errorf("again: %q, %v", done.Commands, err)
	}
}

// Settings of lnetd itself that a replacement omits get the value of the command line, or the
// default, even if that needs a restart. Nothing is left to change then.
//
// lnetctl 8 (3)
func TestDocumentResetsAroundTheNode(t *testing.T) {
	c := parse(t, twoNets)
	if err := c.Apply(config.Override{MetricsAddr: "127.0.0.1:9100"}, AllDrivers().Options()); err != nil {
		t.Fatal(err)
	}
	r := startNode(t, c).ready(t)
	level := &slog.LevelVar{}
	r.daemon.SetLevel(level)
	const rest = "lnetd: {log_level: warn, selftest: {enabled: true}, metrics_addr: none, transport: {rules: [{name: none, users: [65534]}]}}\n"
	done, err := r.document(t, api.ModeReplace, twoNets+rest)
	if err != nil || level.Level() != slog.LevelWarn {
		t.Fatal(err, level)
	}
	if diff := cmp.Diff([]string{"metrics_addr", "selftest", "transport: rules"}, done.Restart); diff != "" { // no clients are hosted here
		t.Error(diff)
	}
	r.settles(t, api.ModeReplace, twoNets+rest)
	r.consistent(t, api.ModeReplace, twoNets)
	done, err = r.document(t, api.ModeReplace, twoNets)
	if err != nil || level.Level() != slog.LevelInfo {
		t.Fatal(err, level)
	}
	want := []string{
		"# log_level (lnetd itself) changes", "# metrics_addr (lnetd itself) changes",
		"# selftest (lnetd itself) changes", "# transport (lnetd itself) changes",
	}
	if diff := cmp.Diff(want, done.Commands); diff != "" {
		t.Error(diff)
	}
	if len(done.Restart) > 0 {
		t.Errorf("what is in force again takes a restart: %q", done.Restart)
	}
	r.settles(t, api.ModeReplace, twoNets)
	if diff := cmp.Diff(backup(t, startNode(t, c).ready(t)), backup(t, r)); diff != "" {
		t.Errorf("(-fresh +applied): %s", diff)
	}
}

// An interface or a NID can be on a net only once, under whatever name. A document with two such
// NIs, or with one that the node has under another name, is rejected, and so are its plan and a
// reload.
//
// lnetctl 8 (3)
func TestNIUnderTwoNamesIsRefused(t *testing.T) {
	network := host(lo, device("eth0", "10.77.0.11/24", "10.77.0.99/24"), device("eth1", "10.78.0.11/24"))
	const both = "net: [{net: tcp, nid: 10.77.0.11@tcp}, {net: tcp, interfaces: [eth0]}]\n"
	const turned = "net: [{net: tcp, interfaces: [eth0]}, {net: tcp, nid: 10.77.0.11@tcp}]\n"
	for _, c := range []struct {
		has, text string
		mode      api.Mode
		want      string // an NI; empty if the document is accepted
	}{
		{has: "{net: tcp, interfaces: [eth0]}", text: both, mode: api.ModeReplace, want: "net[1]"},
		{has: "{net: tcp, interfaces: [eth0]}", text: both, mode: api.ModeAdd, want: "net[1]"},
		{has: "{net: tcp, interfaces: [eth0]}", text: turned, mode: api.ModeReplace, want: "net[1]"},
		{has: "{net: tcp, interfaces: [eth0]}", text: turned, mode: api.ModeAdd, want: "net[1]"},
		{has: "{net: tcp, nid: 10.77.0.11@tcp}", text: both, mode: api.ModeReplace, want: "net[1]"},
		{has: "{net: tcp1, interfaces: [eth1]}", text: both, mode: api.ModeReplace, want: "net[1]"},
		{has: "{net: tcp1, interfaces: [eth1]}", text: both, mode: api.ModeAdd, want: "net[1]"},
		{has: "{net: tcp, nid: 10.77.0.99@tcp}", text: "net: [{net: tcp, interfaces: [eth0]}]\n", mode: api.ModeAdd, want: "net[0]"},
		{has: "{net: tcp, nid: 10.77.0.99@tcp}", text: "net: [{net: tcp, interfaces: [eth0]}]\n", mode: api.ModeReplace},
		{has: "{net: tcp, interfaces: [eth0]}", text: "net: [{net: tcp, nid: 10.77.0.11@tcp}]\n", mode: api.ModeAdd},
		{has: "{net: tcp, interfaces: [eth0]}", text: "net: [{net: tcp1, interfaces: [eth0]}]\n", mode: api.ModeAdd},
	} {
		r := startNodeWith(t, parse(t, "net: ["+c.has+"]\n"), Drivers{TCP(network)}).ready(t)
		before := r.configuration(t)
		refused := func(how string, err error) {
			t.Helper()
			if c.want == "" && err != nil || c.want != "" &&
				(err == nil || !strings.Contains(err.Error(), c.want+": NI ") || !strings.Contains(err.Error(), "cannot be brought up: the NI ")) {
				t.Errorf("%s, %s of %s: %v", c.has, how, c.text, err)
			}
		}
		_, err := r.tries(t, c.mode, c.text, true)
		refused("a plan to "+string(c.mode), err)
		_, err = r.document(t, c.mode, c.text)
		refused(string(c.mode), err)
		if c.want == "" {
			r.settles(t, c.mode, c.text)
			continue
		}
		if c.mode == api.ModeReplace {
			next := parse(t, c.text)
			refused("a reload", r.reload(t, next))
			refused("a start", <-startNodeWith(t, next, Drivers{TCP(network)}).done)
		}
		if diff := cmp.Diff(before, r.configuration(t), sameThings); diff != "" {
			t.Error(diff)
		}
	}
}

// The difference that a document makes shows an added NI as a backup does once the NI is up.
// Values that the driver chooses then are not invented.
//
// lnetctl 8 (3)
func TestDifferenceOfAnNIThatComes(t *testing.T) {
	r := startNode(t, parse(t, "net: [{net: tcp, interfaces: [eth0]}]\n")).ready(t)
	shown := func(c api.Configuration) map[string]int64 {
		values := map[string]int64{}
		for _, o := range c.Nets[1].NIs[0].LND {
			values[o.Name] = o.Value
		}
		return values
	}
	const text = "net: [{net: tcp1, interfaces: [eth1], lnd tunables: {tos: 7}}]\n"
	planned, err := r.tries(t, api.ModeAdd, text, true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"timeout": 50, "tos": 7}, shown(planned.After)); diff != "" {
		t.Error(diff)
	}
	done, err := r.document(t, api.ModeAdd, text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"timeout": 50, "tos": 7, "conns_per_peer": 1}, shown(done.After)); diff != "" {
		t.Error(diff)
	}
}
