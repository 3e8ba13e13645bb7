package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each format begins as programs that read it expect. A number of peers limits those that are shown.
func TestTopology(t *testing.T) {
	socket := serve(t, cannedPeer(t, "peerA"))
	for line, want := range map[string]string{
		"topology":                     "10.77.0.11@tcp (this node)\n├─ net tcp: ok\n│  └─ NI 10.77.0.11@tcp (",
		"topology --format tree -n 0":  "10.77.0.11@tcp (this node)\n",
		"topology --format json":       "{\n  \"node\": \"10.77.0.11@tcp\",\n",
		"topology --json --format svg": "{\n  \"node\": \"10.77.0.11@tcp\",\n",
		"topology --format mermaid":    "flowchart LR\n    subgraph node[\"10.77.0.11@tcp (this node)\"]\n",
		"topology --format svg":        `<svg xmlns="http://www.w3.org/2000/svg" class="topology"`,
	} {
		if got := runProgram(program{socket: socket}, words(line)...); got.status != 0 || !strings.HasPrefix(got.stdout, want) || got.stderr != "" {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// Invalid options, and an lnetd that does not answer, are errors.
func TestTopologyRefused(t *testing.T) {
	for line, want := range map[string]string{
		"topology --format png":                  "option '--format': 'png' is not tree, json, mermaid or svg",
		"topology --peers many":                  "option '--peers': 'many' is not a number from 0 to 1000",
		"topology --peers 1001":                  "option '--peers': '1001' is not a number from 0 to 1000",
		"topology -n -1":                         "option '--peers': '-1' is not a number from 0 to 1000",
		"topology 10.0.0.1@tcp":                  "unexpected operand '10.0.0.1@tcp'",
		"topology --control-socket /nonexistent": "cannot reach lnetd at /nonexistent",
	} {
		if got := runProgram(program{}, words(line)...); got.status == 0 || !strings.Contains(got.stderr, want) || got.stdout != "" {
			t.Errorf("%s: %+v", line, got)
		}
	}
	n := cannedPeer(t, "peerA")
	n.Down = true
	if got := runProgram(program{socket: serve(t, n)}, "topology"); got.status == 0 || got.stdout != "" || !strings.Contains(got.stderr, "Network is down") {
		t.Errorf("LNet is down: %+v", got)
	}
}

// The shell completes the names of formats.
func TestTopologyCompletion(t *testing.T) {
	p := program{name: "lnetdctl"}
	if diff := cmp.Diff([]string{"tree", "json", "mermaid", "svg"}, p.candidates([]string{"topology", "--format", ""})); diff != "" {
		t.Error(diff)
	}
}
