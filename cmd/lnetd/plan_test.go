//go:build !race

// The programs that these tests run are built without the race detector, so .ci/run runs the tests once, without it.

package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/lnet"
)

// The commands of a plan have the same result as the document.
func TestPlanIsWhatItsCommandsDo(t *testing.T) {
	dir := t.TempDir()
	if err := daemontest.Build(dir); err != nil {
		t.Fatal(err)
	}
	port, err := daemontest.FreePort("127.0.0.1", "127.0.1.1", "127.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "c.sock")
	p := daemontest.Run(t, daemontest.Launch{
		Name: "a", Programs: dir, Socket: socket,
		Command: []string{filepath.Join(dir, "lnetd"), "--net", "tcp(lo)", "--port", strconv.Itoa(port), "--control-socket", socket},
	})
	c := client.New(socket)
	defer c.Close()
	change := func(text string, dry bool) api.ConfigurationChanged {
		t.Helper()
		done, err := c.ChangeConfiguration(t.Context(), api.ConfigurationChange{
			Document: api.Document{Name: "d.yaml", Text: text}, Mode: api.ModeReplace, Dry: dry,
		})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	documents := []string{`
net:
  - {net type: tcp, local NI(s): [{interfaces: {0: lo}}]}
  - {net type: tcp1, local NI(s): [{nid: 127.0.1.1@tcp1, tunables: {peer_timeout: 60, peer_credits: 16, credits: 128}, lnd tunables: {conns_per_peer: 2, tos: 8}}]}
route: [{net: tcp7, gateway: 127.0.0.9@tcp, hop: 2, priority: 3}, {net: tcp8, gateway: 127.0.1.9@tcp1}]
peer: [{primary nid: 127.0.0.8@tcp, peer ni: [{nid: 127.0.1.8@tcp1}]}, {primary nid: 127.0.0.7@tcp, Multi-Rail: false}]
udsp: [{idx: 0, src: tcp, priority: 3}, {idx: 1, dst: '127.0.0.[2-8/2]@tcp', src: tcp1}]
buffers: {tiny: 600}
global: {retry_count: 9, transaction_timeout: 10, health_sensitivity: 7, discovery: 0, numa_range: 7}
`, `
net:
  - {net type: tcp, local NI(s): [{interfaces: {0: lo}}]}
  - {net type: tcp2, local NI(s): [{nid: 127.0.2.1@tcp2}]}
route: [{net: tcp7, gateway: 127.0.0.9@tcp}]
peer: [{primary nid: 127.0.0.8@tcp, peer ni: [{nid: 127.0.2.8@tcp2}]}]
udsp: [{idx: 0, src: tcp, priority: 4}]
global: {retry_count: 0, health_sensitivity: 0, transaction_timeout: 5}
`, "net: [{net type: tcp, local NI(s): [{interfaces: {0: lo}}]}]\n"}
	same := cmp.Options{
		cmp.Comparer(func(a, b lnet.NID) bool { return a == b }),
		cmp.Comparer(func(a, b lnet.Pattern) bool { return a.String() == b.String() }),
	}
	change(documents[2], false)
	for k, text := range documents {
		plan := change(text, true)
		if len(plan.Commands) == 0 {
			t.Fatalf("nothing to do for %s", text)
		}
		for _, command := range plan.Commands {
			line := filepath.Join(dir, "lnetdctl") + " --control-socket " + socket + " " + command
			if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s\nof %s", command, err, out, strings.Join(plan.Commands, "\n"))
			}
		}
		byCommands, err := c.Configuration(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(byCommands.Peers, func(a, b api.ConfiguredPeer) int { return a.Primary.Compare(b.Primary) }) // sorted like those of a change
		if rest := change(text, false); len(rest.Commands) > 0 {
			t.Errorf("the commands leave %q to be done of %q", rest.Commands, plan.Commands)
		}
		change(documents[(k+1)%len(documents)], false) // the earlier state, or another one
		byDocument := change(text, false).After
		if diff := cmp.Diff(byDocument, byCommands, same); diff != "" {
			t.Errorf("(-document +commands): %s", diff)
		}
	}
	p.Stop(t)
}
