package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// ran is the result of a run of the program.
type ran struct {
	stdout, stderr string
	status         int
}

func runProgram(p program, args ...string) ran {
	var out, errs bytes.Buffer
	p.stdout, p.stderr = &out, &errs
	if p.name == "" {
		p.name = "lnetdctl"
	}
	status := p.run(args)
	return ran{out.String(), errs.String(), status}
}

// lnetctl 1 (3)
func TestUnknownCommand(t *testing.T) {
	for _, args := range [][]string{{"foo"}, {"net", "foo"}} {
		got := runProgram(program{}, args...)
		want := ran{"", "lnetdctl: 'foo' is not a valid command. See 'lnetdctl --list-commands'.\n", 255}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
			t.Errorf("%v: %s", args, diff)
		}
	}
}

// lnetctl 1 (7), 16
func TestUnknownOptionPrintsHelp(t *testing.T) {
	got := runProgram(program{}, "net", "show", "--frob")
	if got.stderr != "lnetdctl: unrecognized option '--frob'\n" || got.status != exitInvalid {
		t.Errorf("stderr %q, status %d", got.stderr, got.status)
	}
	if !strings.Contains(got.stdout, "lnetdctl net show - print nets and NIs") {
		t.Errorf("no help on stdout:\n%s", got.stdout)
	}
}

func TestUnexpectedOperand(t *testing.T) {
	got := runProgram(program{}, "net", "show", "tcp")
	if got.status != exitInvalid || !strings.Contains(got.stderr, "unexpected operand 'tcp'") {
		t.Errorf("status %d, stderr %q", got.status, got.stderr)
	}
}

// Every command's help has the sections of a manual page. A help option in place of the work gives
// exit status 1.
//
// lnetctl 1 (2), 1 (4)-(5)
func TestHelp(t *testing.T) {
	tests := []struct {
		args   []string
		status int
		has    string
	}{
		{[]string{"--help"}, 0, "show, change and test a running lnetd"},
		{[]string{"help"}, 0, "COMMANDS"},
		{[]string{"help", "ping"}, 0, "--source NID"},
		{[]string{"ping", "--help"}, 0, "lnetdctl ping 10.0.0.1@tcp"},
		{[]string{"discover", "-h"}, 0, "lnetdctl discover 10.0.0.1@tcp"},
		{[]string{"net", "show", "-h"}, 1, "--verbose [LEVEL]"},
		{[]string{"net", "--help"}, 1, "show"},
		{[]string{"net", "-h"}, 1, "show"},
		{[]string{"fault", "--help"}, 1, "drop"},
		{[]string{"net", "help"}, 0, "show"},
		{[]string{"net", "--help", "show"}, 0, "--verbose [LEVEL]"},
		{[]string{"lst", "--help"}, 0, "new_session"},
		{[]string{"net"}, 234, "lnetdctl net show - print nets and NIs"},
	}
	for _, tt := range tests {
		got := runProgram(program{}, tt.args...)
		if got.status != tt.status {
			t.Errorf("%v: status %d, want %d", tt.args, got.status, tt.status)
		}
		for _, section := range []string{"NAME\n", "SYNOPSIS\n", "EXIT STATUS\n", tt.has} {
			if !strings.Contains(got.stdout, section) {
				t.Errorf("%v: help lacks %q:\n%s", tt.args, section, got.stdout)
			}
		}
		if got.stderr != "" {
			t.Errorf("%v: stderr %q", tt.args, got.stderr)
		}
	}
}

// lnetctl 1 (2)
func TestListCommands(t *testing.T) {
	got := runProgram(program{}, "--list-commands")
	want := ran{`apply               bundle              capture             client
clients             completion          cpt-of-nid          debug
diff                discover            doctor              events
explain             export              fault               global
import              legacy2yaml         lnet                log
lst                 net                 peer                ping
plan                route               routing             selection
service-id          set                 setup-mrrouting     setup-sysctl
stats               status              top                 topology
udsp                version
`, "", 0}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
		t.Error(diff)
	}
}

// Options before --version apply to it as to commands.
//
// lnetctl 1 (2)
func TestVersion(t *testing.T) {
	nobody := filepath.Join(t.TempDir(), "none")
	socket := serve(t, newCannedNode())
	t.Setenv("LNETD_CONTROL_SOCKET", socket)
	for _, args := range [][]string{{"version"}, {"--version"}, {"net", "version"}} {
		got := runProgram(program{name: "lnetctl"}, append([]string{"--control-socket", nobody}, args...)...)
		if got.status != 0 || !strings.HasPrefix(got.stdout, "lnetctl ") || strings.Count(got.stdout, "\n") != 1 {
			t.Errorf("%v without a daemon: %+v", args, got)
		}
		got = runProgram(program{name: "lnetctl"}, append([]string{"--control-socket", socket}, args...)...)
		if strings.Count(got.stdout, "\n") != 1 || got.stderr != "" {
			t.Errorf("%v with a daemon: %+v", args, got)
		}
		got = runProgram(program{name: "lnetctl", hints: true}, append([]string{"--control-socket", socket}, args...)...)
		if got.stderr != "# lnetd v1.2.3\n" {
			t.Errorf("%v with a daemon, at a terminal: %+v", args, got)
		}
		got = runProgram(program{name: "lnetctl"}, append([]string{"--json"}, args...)...)
		if !strings.Contains(got.stdout, `"version": "v1.2.3"`) {
			t.Errorf("--json %v: %+v", args, got)
		}
	}
}

// lnetctl 1 (11)
func TestNoDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	want := ran{"", `lnetctl:
    - startup:
          errno: -1
          descr: "cannot reach lnetd at ` + path + `: No such file or directory"
`, 255}
	for _, args := range [][]string{{"net", "show"}, {"ping", "10.0.0.1@tcp"}} {
		got := runProgram(program{}, append(args, "--control-socket", path)...)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
			t.Errorf("%v: %s", args, diff)
		}
	}
}

func TestSocketFromEnvironment(t *testing.T) {
	t.Setenv("LNETD_CONTROL_SOCKET", serve(t, cannedPeer(t, "peerA")))
	if got := runProgram(program{}, "net", "show"); got.status != 0 || !strings.Contains(got.stdout, "10.77.0.11@tcp") {
		t.Errorf("%+v", got)
	}
}

// lnetctl 4.4
func TestNetShowErrors(t *testing.T) {
	path := serve(t, cannedPeer(t, "peerA"))
	got := runProgram(program{}, "net", "show", "--net=foo", "--control-socket", path)
	want := ran{"", `---
show:
-     net:
      errno: -2
      descr: ! "cannot parse net"
...
`, 234}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
		t.Error(diff)
	}
}

// Preferred NIDs are shown only at level 4, and only if the list is not empty.
//
// lnetctl 5.1
func TestPreferredNIDs(t *testing.T) {
	node := cannedPeer(t, "peerA")
	ni := &node.NetList[1].NIs[0]
	ni.UDSP.PreferredGateways = node.answerOf(t, "10.77.0.12@tcp")
	ni.UDSP.PreferredSources = node.answerOf(t, "10.77.0.11@tcp")
	path := serve(t, node)
	got := runProgram(program{}, "net", "show", "-n", "tcp", "-v", "4", "--control-socket", path)
	want := `            udsp info:
                  net priority: 0
                  nid priority: -1
                  Preferred gateway NIDs:
                        NID-0: 10.77.0.12@tcp
                        NID-1: 10.78.0.12@tcp1
                  Preferred source NIDs:
                        NID-0: 10.77.0.11@tcp
                        NID-1: 10.78.0.11@tcp1
            sent_stats:
`
	if !strings.Contains(got.stdout, want) {
		t.Errorf("output lacks\n%s\ngot\n%s", want, got.stdout)
	}
}

// lnetctl 4.12 (2)
func TestPingOtherProcess(t *testing.T) {
	path := serve(t, cannedPeer(t, "peerA"))
	got := runProgram(program{}, "ping", "7-10.77.0.12@tcp", "--control-socket", path)
	want := ran{`ping:
- primary nid: 10.77.0.12@tcp
  Multi-Rail: false
  peer_ni:
  - nid: 7-10.77.0.12@tcp
  - nid: 7-10.78.0.12@tcp1
`, "", 0}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
		t.Error(diff)
	}
}

// lnetctl 4.12 (2)
func TestPingFromNonsense(t *testing.T) {
	got := runProgram(program{}, "ping", "--source", "nonsense@", "10.77.0.12@tcp")
	want := ran{"", newDocumentOf("manage", "ping", "-22", "cannot parse source NID 'nonsense@'"), 234}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
		t.Error(diff)
	}
}

// Hints are printed by default, except where a script may compare the output with that of Lustre's
// programs. The option overrides the environment, which overrides the default.
func TestWhenHintsArePrinted(t *testing.T) {
	path := serve(t, cannedPeer(t, "peerA"))
	for _, c := range []struct {
		name, env, option string
		terminal, want    bool
	}{
		{"lnetdctl", "", "", false, true},
		{"lnetdctl", "", "", true, true},
		{"lnetctl", "", "", false, false},
		{"lnetctl", "", "", true, true},
		{"lnetctl", "always", "", false, true},
		{"lnetctl", "", "always", false, true},
		{"lnetctl", "never", "", true, false},
		{"lnetctl", "never", "always", false, true},
		{"lnetctl", "auto", "auto", false, false},
		{"lnetdctl", "never", "", true, false},
		{"lnetdctl", "", "never", true, false},
		{"lnetdctl", "always", "never", true, false},
		{"lnetdctl", "never", "auto", true, false},
	} {
		t.Setenv(hintsVariable, c.env)
		p := program{name: c.name}
		p.hints = p.hintsByDefault(c.terminal)
		args := []string{"--control-socket", path, "ping", "10.77.0.1@tcp"}
		if c.option != "" {
			args = append(args, "--hints", c.option)
		}
		got := runProgram(p, args...)
		if hint := strings.Contains(got.stderr, "# 10.77.0.1@tcp: "); hint != c.want {
			t.Errorf("%+v: hint %v:\n%s", c, hint, got.stderr)
		}
	}
	t.Setenv(hintsVariable, "sometimes")
	var warning strings.Builder
	if p := (program{name: "lnetdctl", stderr: &warning}); !p.hintsByDefault(false) ||
		warning.String() != "lnetdctl: warning: LNETDCTL_HINTS=sometimes: must be auto, always or never\n" {
		t.Errorf("%q", &warning)
	}
	t.Setenv(hintsVariable, "")
	if got := runProgram(program{name: "lnetdctl"}, "net", "show", "--hints=sometimes", "--control-socket", path); got.status != exitInvalid ||
		!strings.Contains(got.stderr, "must be auto, always or never") {
		t.Errorf("%+v", got)
	}
}

// At a terminal the program prints hints that lnetctl does not have.
func TestHints(t *testing.T) {
	path := serve(t, cannedPeer(t, "peerA"))
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"ping"}, "# Ping needs NID targets, for example: lnetdctl ping 10.0.0.1@tcp\n"},
		{[]string{"ping", "10.77.0.12"}, "# 10.77.0.12 has no net: write 10.77.0.12@tcp"},
		{[]string{"ping", "10.77.0.1@tcp"}, "# 10.77.0.1@tcp: check that LNet runs on the node"},
		{[]string{"net", "show", "--net", "tcp77"}, "# the node has no NI on tcp77\n"},
	}
	for _, tt := range tests {
		args := append([]string{"--control-socket", path}, tt.args...)
		if got := runProgram(program{hints: true}, args...); !strings.Contains(got.stderr, tt.want) {
			t.Errorf("%v: stderr lacks %q:\n%s", tt.args, tt.want, got.stderr)
		}
		if got := runProgram(program{}, args...); strings.Contains(got.stderr, tt.want) {
			t.Errorf("%v: a hint without a terminal", tt.args)
		}
	}
}

func TestJSON(t *testing.T) {
	path := serve(t, cannedPeer(t, "peerA"))
	got := runProgram(program{}, "net", "show", "--json", "--control-socket", path)
	var nets api.Nets
	if err := json.Unmarshal([]byte(got.stdout), &nets); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cannedPeer(t, "peerA").NetList, nets.Nets, cmp.Comparer(func(a, b lnet.NID) bool { return a == b })); diff != "" {
		t.Error(diff)
	}

	got = runProgram(program{}, "ping", "--json", "10.77.0.12@tcp,10.77.0.99@tcp", "--control-socket", path)
	var pings api.PingReply
	if err := json.Unmarshal([]byte(got.stdout), &pings); err != nil {
		t.Fatal(err)
	}
	if len(pings.Results) != 2 || pings.Results[1].Error == nil || got.status != exitFailure {
		t.Errorf("status %d, %s", got.status, got.stdout)
	}
	if e := pings.Results[1].Error; e.Code != api.CodePingFailed || e.Errno != -113 || e.Remedy == "" {
		t.Errorf("error %+v", e)
	}

	for _, args := range [][]string{{"net", "show", "--net", "tcp77"}, {"ping"}, {"ping", "x"}, {"ping", "-s", "y@", "1.2.3.4@tcp"}} {
		got = runProgram(program{}, append(args, "--json", "--control-socket", path)...)
		var refusal struct{ Error *api.Fault }
		if err := json.Unmarshal([]byte(got.stderr), &refusal); err != nil || refusal.Error == nil || refusal.Error.Code == "" {
			t.Errorf("%v: stderr %q: %v", args, got.stderr, err)
		}
	}
}
