package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/node"
)

// words splits a command line as a shell does, as far as tests need it.
func words(line string) []string {
	fields := strings.Fields(line)
	for i := range fields {
		if fields[i] == ">" || fields[i] == "<" || fields[i] == "|" { // operators of the shell
			return fields[:i]
		}
		fields[i] = strings.Trim(fields[i], "'\"")
	}
	return fields
}

func newDocumentOf(op, entity, errno, descr string) string {
	return "---\n" + op + ":\n-     " + entity + ":\n      errno: " + errno + "\n      descr: ! \"" + descr + "\"\n...\n"
}

func oldDocumentOf(op, entity, errno, descr string) string {
	return op + ":\n    - " + entity + ":\n          errno: " + errno + "\n          descr: \"" + descr + "\"\n"
}

// Results of commands with invalid options, and of refused commands.
//
// lnetctl 1 (4)-(5), 2 (1)-(4), 4.5 (3)-(4), 4.6 (1), 4.9 (1), 4.9 (3), 4.10 (1)
// lnetctl 4.11 (3), 4.17 (1)-(2), 15 (1), 15 (6)
func TestRefusals(t *testing.T) {
	const (
		set          = "cannot configure "
		validBuffers = "lnetdctl: warning: valid values: -1 to 1048576; -1 keeps the number, 0 means the default\n"
	)
	tests := []struct {
		line   string
		refuse error // by the daemon
		want   ran
	}{
		{line: "peer add", want: ran{"", newDocumentOf("add", "peer", "-22", "missing primary NID"), 234}},
		{line: "peer del", want: ran{"", newDocumentOf("del", "peer", "-22", "missing primary NID"), 234}},
		{line: "peer add --prim 10.0.0.1", want: ran{"", newDocumentOf("add", "peer", "-22", `\"Unable to parse nidlist: no valid NIDs in string\"`), 234}},
		{line: "peer add --prim 10.0.0.1@tcp --ni 10.0.0.*@tcp", want: ran{"", newDocumentOf("add", "peer", "-22", `\"Unable to parse nidlist: asterisk not allowed in nidstring\"`), 234}},
		{line: "peer add --prim 10.0.0.1@tcp --nid 10.0.0.[0-128]@tcp", want: ran{"", newDocumentOf("add", "peer", "-7", `\"Unable to parse nidlist: specifies more NIDs than allowed\"`), 234}},
		{line: "peer add --prim 10.0.0.1@tcp", refuse: &discovery.PeerError{Err: discovery.ErrExists}, want: ran{"", newDocumentOf("add", "peer", "-17", "failed to add primary peer"), 234}},
		{line: "peer del --prim 10.77.0.12@tcp", refuse: discovery.ErrBusy, want: ran{"", newDocumentOf("del", "peer", "-16", "failed to del primary peer"), 234}},
		{line: "peer del --prim 10.78.0.12@tcp1", want: ran{"", newDocumentOf("del", "peer", "-19", "failed to del peer"), 234}},
		{line: "peer show --nid x@", want: ran{"", newDocumentOf("show", "peer", "-22", "cannot parse NID 'x@'"), 234}},
		{line: "peer set --health 5", want: ran{"", oldDocumentOf("peer", "set", "-22", "either --nid or --all is needed"), 234}},
		{line: "peer set --all --nid 10.0.0.1@tcp --health 5", want: ran{"", oldDocumentOf("peer", "set", "-22", "either --nid or --all is needed"), 234}},
		{line: "peer set --nid 10.9.9.9@tcp --health 5", want: ran{"", oldDocumentOf("peer", "set", "-2", "cannot find peer"), 234}},
		{line: "peer set --nid x@ --health 5", want: ran{"", oldDocumentOf("peer", "set", "-22", "cannot parse NID 'x@'"), 234}},
		{line: "peer set --all --state x", want: ran{"", oldDocumentOf("peer", "set", "-22", "cannot parse state 'x'"), 234}},
		{line: "peer set --all --state 0x100000000", want: ran{"", oldDocumentOf("peer", "set", "-22", "cannot parse state '0x100000000'"), 234}},
		{line: "peer set --state 1", want: ran{"", oldDocumentOf("peer", "set", "-22", "either --nid or --all is needed"), 234}},
		{line: "peer set --nid 10.9.9.9@tcp --state 1", want: ran{"", oldDocumentOf("peer", "set", "-2", "cannot set the peer's state"), 234}},
		{line: "peer set --all", want: ran{"", "lnetdctl: warning: --health must be a number from 0 to 1000; nothing is changed\n", 0}},
		{line: "net set --nid 10.9.9.9@tcp --health 5", want: ran{"", oldDocumentOf("net", "set", "-2", "cannot find NI"), 234}},
		{line: "net set --lnd-timeout 5", want: ran{"", oldDocumentOf("net", "set", "-22", "Specified --lnd-timeout without --net option"), 234}},
		{line: "discover x", want: ran{"", newDocumentOf("manage", "discover", "-22", `\"Unable to parse nidlist: no valid NIDs in string\"`), 234}},
		{line: "route add", want: ran{"missing mandatory parameters:'net , gateway'\n", "", 234}},
		{line: "route add --gateway 10.77.0.1@tcp", want: ran{"missing mandatory parameters:'net'\n", "", 234}},
		{line: "route del --net tcp9", want: ran{"missing mandatory parameters:'gateway'\n", "", 234}},
		{line: "route add --net foo --gateway 10.77.0.1@tcp", want: ran{"", newDocumentOf("add", "route", "-2", "cannot parse net"), 234}},
		{line: "route add --net tcp9 --gateway 10.77.0.1@tcp --hop 0", want: ran{"", newDocumentOf("add", "route", "-22", "invalid hop count must be between 1 and 255"), 234}},
		{line: "route add --net tcp9 --gateway 10.77.0.1@tcp --hop-count 256", want: ran{"", newDocumentOf("add", "route", "-22", "invalid hop count must be between 1 and 255"), 234}},
		{line: "route add --net tcp9 --gateway 10.77.0.1@tcp -p -1", want: ran{"", newDocumentOf("add", "route", "-22", "invalid priority, must not be negative"), 234}},
		{line: "route add --net tcp9 --gateway 10.77.0.1@tcp -p 0x100000000", want: ran{"", newDocumentOf("add", "route", "-22", "invalid priority"), 234}},
		{line: "route add --net tcp9 --gateway x", want: ran{"", newDocumentOf("add", "route", "-22", `\"Unable to parse nidlist: no valid NIDs in string\"`), 234}},
		{line: "route add --net tcp9 --gateway 10.77.0.1@tcp", refuse: node.ErrClosed, want: ran{"", newDocumentOf("add", "route", "-108", "Network is down"), 234}},
		{line: "route show --net foo", want: ran{"", newDocumentOf("show", "route", "-2", "cannot parse net"), 234}},
		{line: "set discovery x", want: ran{"", oldDocumentOf("parser", "set", "-1", "cannot parse discovery value") + "lnetdctl: warning: valid values of discovery: 0, 1, on, off or verify\n", 255}},
		{line: "set routing 2", want: ran{"", oldDocumentOf("parser", "set", "-1", "cannot parse routing value. It is 0 or 1"), 255}},
		{line: "set routing 1", refuse: node.ErrBusy, want: ran{"", oldDocumentOf("add", "routing", "-16", set+"routing: Device or resource busy"), 240}},
		{line: "set large_buffers -2", want: ran{"", oldDocumentOf("add", "large_buffers", "-34", "tiny, small and large must be >= 0") + validBuffers, 222}},
		{line: "set large_buffers -0xffffffffffff", want: ran{"", oldDocumentOf("add", "large_buffers", "-34", "tiny, small and large must be >= 0") + validBuffers, 222}},
		{line: "set recovery_limit -1", want: ran{"", oldDocumentOf("add", "recovery_limit", "-22", "Must be greater than or equal to 0") + "lnetdctl: warning: valid values of recovery_limit: 0 to 2147483647 seconds\n", 234}},
		{line: "set max_recovery_ping_interval 0", want: ran{"", oldDocumentOf("add", "max_recovery_ping_interval", "-22", "must be strictly positive") + "lnetdctl: warning: valid values of max_recovery_ping_interval: 1 to 2147483647 seconds\n", 234}},
		{line: "udsp add --src tcp --priority x", want: ran{"Invalid priority \"x\"\n", "", 234}},
		{line: "udsp add --src tcp --idx -1", want: ran{"Invalid index \"-1\"\n", "", 234}},
		{line: "udsp add --dst 10.0.0@tcp", want: ran{"", oldDocumentOf("add", "udsp", "-22", "failed to parse dst parameter"), 234}},
		{line: "udsp add --src tcp --rte 10.0.0.1@tcp", want: ran{"", oldDocumentOf("add", "udsp", "-22", "src and rte cannot be combined"), 234}},
		{line: "udsp add --rte 10.0.0.1@tcp", want: ran{"", oldDocumentOf("add", "udsp", "-22", "src or dst is needed"), 234}},
		{line: "udsp del --all --idx 1", want: ran{"Cannot combine --all with --idx\n", "", 234}},
		{line: "udsp del --idx x", want: ran{"Invalid index \"x\"\n", "", 234}},
		{line: "udsp show --idx x", want: ran{"Invalid index \"x\"\n", "", 234}},
		{line: "selection net add --net 10.0.0.1@tcp", want: ran{"", oldDocumentOf("add", "selection", "-22", "cannot add selection rule: Invalid argument"), 234}},
		{line: "selection net add --net x", want: ran{"", oldDocumentOf("add", "selection", "-22", "failed to parse net parameter"), 234}},
		{line: "selection peer del", want: ran{"", oldDocumentOf("del", "selection", "-22", "cannot del selection rule: Invalid argument"), 234}},
		{line: "selection nid del --id 4", want: ran{"", oldDocumentOf("del", "selection", "-2", "cannot del selection rule: No such file or directory"), 254}},
		{line: "selection nid show --id x", want: ran{"", oldDocumentOf("show", "selection", "-22", `Invalid id \"x\"`), 234}},
		{line: "fault drop add -s * -r 1", want: ran{"", "both --source and --dest are needed\n", 255}},
		{line: "fault drop add -s * -d *", want: ran{"", "either --rate or --interval is needed\n", 255}},
		{line: "fault drop add -s * -d * -r 1 -i 1", want: ran{"", "either --rate or --interval is needed\n", 255}},
		{line: "fault drop add -s * -d * -r 0", want: ran{"", "--rate '0' is not a number above 0\n", 255}},
		{line: "fault drop add -s * -d * -r 1 -p 64", want: ran{"", "--portal '64' is not within 0 to 63\n", 255}},
		{line: "fault delay add -s * -d * -r 1", want: ran{"", "--latency is needed\n", 255}},
		{line: "fault drop add -s * -d * -r 1 -m frob", want: ran{"failed to add drop rule: cannot parse message type 'frob'\n", "", 234}},
		{line: "fault drop add -s * -d * -r 1 -m ack -p 3", want: ran{"failed to add drop rule: Invalid argument\n", "", 234}},
		{line: "fault drop del", want: ran{"", "--source and --dest are needed together, or --all alone\n", 255}},
		{line: "fault drop del -s * -d * -a", want: ran{"", "--source and --dest are needed together, or --all alone\n", 255}},
		{line: "fault delay del -a", want: ran{"failed to delete delay rule: No such file or directory\n", "", 254}},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			n := cannedPeer(t, "peerA")
			if tt.refuse != nil {
				n.Refuse = func(string) error { return tt.refuse }
			}
			got := runProgram(program{}, append([]string{"--control-socket", serve(t, n)}, words(tt.line)...)...)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(ran{})); diff != "" {
				t.Error(diff)
			}
			if len(n.Done) > 0 {
				t.Errorf("it has changed something: %v", n.Done)
			}
			if tt.want.status == exitOK {
				return
			}
			// The same as JSON: one error, with a code, on stderr.
			got = runProgram(program{}, append([]string{"--control-socket", serve(t, n), "--json"}, words(tt.line)...)...)
			var refusal struct{ Error *api.Fault }
			if err := json.Unmarshal([]byte(got.stderr), &refusal); err != nil || refusal.Error == nil ||
				refusal.Error.Code == "" || refusal.Error.Text == "" || got.stdout != "" || got.status != tt.want.status {
				t.Errorf("as JSON: %+v: %v", got, err)
			}
		})
	}
}

// The requests that commands send to the daemon.
//
// lnetctl 1 (6), 1 (8), 4.5 (1), 4.6 (1), 4.9 (3), 4.10 (1), 4.10 (5)-(6), 4.11 (3)
func TestChanges(t *testing.T) {
	tests := []struct{ line, want string }{
		{"peer add --prim_nid 10.0.0.1@tcp --nid 10.0.0.[2-3]@tcp,10.1.0.1@tcp1 -l", "AddPeer 10.0.0.1@tcp [10.0.0.2@tcp 10.0.0.3@tcp 10.1.0.1@tcp1] {SingleRail:false Lock:true}"},
		{"peer add -k 10.0.0.1@tcp -m", "AddPeer 10.0.0.1@tcp [] {SingleRail:true Lock:false}"},
		{"peer del -k 10.77.0.12@tcp -n 10.78.0.12@tcp1", "DeletePeerNIDs 10.77.0.12@tcp [10.78.0.12@tcp1]"},
		{"peer del -k 10.77.0.12@tcp -f", "DeletePeer 10.77.0.12@tcp true"},
		{"peer set -n 10.77.0.12@tcp -t 2000", "SetPeerHealth 10.77.0.12@tcp 1000"},
		{"peer set -a -t 0x10", "SetPeerHealth  16"},
		{"peer set -n 10.77.0.12@tcp -s 0x111", "SetPeerState 10.77.0.12@tcp 273"},
		{"peer set -a --state 1048585 --health 7", "SetPeerHealth  7; SetPeerState  1048585"},
		{"net set -n 10.77.0.11@tcp -t -5", "SetNIHealth 10.77.0.11@tcp 0"},
		{"route add -n tcp9 -g 10.77.0.[1-2]@tcp -c 3 -p 010", "AddRoute tcp9 10.77.0.1@tcp 3 8; AddRoute tcp9 10.77.0.2@tcp 3 8"},
		{"route add --net tcp9 --gateway 10.77.0.1@tcp --hop x --prio y", "AddRoute tcp9 10.77.0.1@tcp 0 0"},
		{"route add --net tcp9 --gateway 10.77.0.1@tcp --hop -1", "AddRoute tcp9 10.77.0.1@tcp 0 0"},
		{"set routing 0", "SetRouting false"},
		{"set tiny_buffers 0", "SetBuffers {Tiny:0 Small:-1 Large:-1}"},
		{"set small_buffers -1", "SetBuffers {Tiny:-1 Small:-1 Large:-1}"},
		{"set numa_range 7", "SetGlobals"},
		{"set log_level DEBUG", "SetLog debug"},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			n := cannedPeer(t, "peerA")
			got := runProgram(program{}, append([]string{"--control-socket", serve(t, n)}, words(tt.line)...)...)
			if ignored := strings.Count(tt.line, " x") + strings.Count(tt.line, " y"); strings.Count(got.stderr, " is ignored: ") != ignored {
				t.Errorf("%d options are ignored: %s", ignored, got.stderr)
			}
			got.stderr = warnings.ReplaceAllString(got.stderr, "")
			if diff := cmp.Diff(ran{}, got, cmp.AllowUnexported(ran{})); diff != "" {
				t.Error(diff)
			}
			if done := strings.Join(n.Done, "; "); done != tt.want {
				t.Errorf("done: %s\nwant: %s", done, tt.want)
			}
		})
	}
}

// A route that does not exist is not an error for lnetctl, but it is one for programs, and is
// reported.
//
// lnetctl 4.7
func TestDeleteMissingRoute(t *testing.T) {
	path := serve(t, cannedPeer(t, "peerA"))
	line := []string{"route", "del", "--net", "tcp9", "--gateway", "10.77.0.1@tcp", "--control-socket", path}
	if got := runProgram(program{}, line...); got != (ran{"", "lnetdctl: warning: failed to delete route\n", exitOK}) {
		t.Errorf("%+v", got)
	}
	if got := runProgram(program{}, append(line, "--json")...); got.status != exitInvalid || !strings.Contains(got.stderr, `"route-unknown"`) {
		t.Errorf("%+v", got)
	}
}

// Commands with too few arguments print their help (lnetctl 1.5, 4.17).
//
// lnetctl 1 (5)
func TestTooFewArguments(t *testing.T) {
	for line, status := range map[string]int{"set discovery": exitInvalid, "set discovery 1 2": exitInvalid, "udsp add": exitOK,
		"udsp add --priority 3": exitOK, "explain": exitInvalid, "selection": exitInvalid, "fault drop": exitInvalid, "fault reset": exitFailure} {
		got := runProgram(program{}, strings.Fields(line)...)
		if got.status != status || (got.stdout == "") != (status == exitFailure) {
			t.Errorf("%s: status %d, want %d; stdout %q", line, got.status, status, got.stdout)
		}
	}
}

// The output equals that of the recorded router.
//
// lnetctl 4.9 (2), 5.3
func TestRoutingShow(t *testing.T) {
	pools := func(used int) []api.Pools {
		return []api.Pools{{
			Tiny:  api.Pool{Pages: 0, Buffers: 512, Credits: 512, MinCredits: 512 - used},
			Small: api.Pool{Pages: 1, Buffers: 512, Credits: 512, MinCredits: 512 - used},
			Large: api.Pool{Pages: 256, Buffers: 64, Credits: 64, MinCredits: 64 - used},
		}}
	}
	for file, r := range map[string]api.Routing{
		"routing-show-starting.yaml": {State: api.RoutingStarting, Ever: true, CPTs: pools(0)},
		"routing-show-enabled.yaml":  {State: api.RoutingEnabled, Ever: true, CPTs: pools(1)},
		"routing-show-disabled.yaml": {State: api.RoutingDisabled, Ever: true, CPTs: []api.Pools{{}}},
	} {
		want, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		n := newCannedNode()
		n.Forwards = r
		got := runProgram(program{}, "routing", "show", "--control-socket", serve(t, n))
		if diff := cmp.Diff(ran{string(want), "", 0}, got, cmp.AllowUnexported(ran{})); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

// lnetctl 4.8, 4.11 (2), 5.6, 5.8, 15 (5)-(6)
func TestShows(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given []string
		line  string
		want  string
	}{
		{"route filters", []string{
			"route add --net tcp9 --gateway 10.77.0.1@tcp --hop 2", "route add --net tcp8 --gateway 10.77.0.1@tcp",
			"route add --net tcp8 --gateway 10.77.0.2@tcp --priority 1",
		}, "route show --net tcp8 --hop -1 --priority 0 --verbose", `route:
-     net: tcp8
      gateway: 10.77.0.1@tcp
      hop: -1
      priority: 0
      state: up
      type: multi-hop
`},
		{"no such route", nil, "route show --gateway 10.77.0.1@tcp", ""},
		{"peer list", nil, "peer list", `peer list:
-     nid: 10.77.0.12@tcp
-     nid: 10.77.0.11@tcp
-     nid: 10.77.0.99@tcp
-     nid: 10.77.0.12@tcp5
-     nid: 10.77.0.1@tcp
-     nid: 10.99.0.1@tcp
-     nid: 10.77.0.98@tcp
-     nid: 10.77.0.20@tcp
-     nid: 10.77.0.60@tcp
`},
		{"one policy", recordedPolicies, "udsp show --idx 3", `udsp:
    - idx: 3
      src: 10.77.0.[11-12]@tcp
      dst: 10.77.0.[1-100/2]@tcp
`},
		{"no such policy", recordedPolicies, "udsp show --idx 99", ""},
		{"all of a type", []string{
			"selection net add --net tcp[1-3] --priority 4", "selection net add --net o2ib*", "selection nid add --nid 10.0.0.1@tcp",
		}, "selection net show", `selection:
    - type: net
      net: tcp[1-3]
      priority: 4
      id: 0
    - type: net
      net: o2ib[0-4294967295]
      priority: 0
      id: 1
`},
		{"by id", []string{"selection peer add --local *@tcp --remote 10.0.0.1@tcp", "selection nid add --nid 10.0.0.1@tcp"},
			"selection nid show --id 1", `selection:
    - type: nid
      nid: 10.0.0.1@tcp
      priority: 0
      id: 1
`},
		{"no drop rules", []string{"fault delay add -s *@tcp -d 10.0.0.1@tcp --interval 4 -l 2 -p 0 -p 63 -m GET -m put"}, "fault drop show", ""},
		{"delay rules", []string{"fault delay add -s *@tcp -d 10.0.0.1@tcp --interval 4 -l 2 -p 0 -p 63 -m GET -m put"}, "fault delay show", `fault:
-     rule_type: delay
      fa_src: ! '*@tcp'
      fa_dst: 10.0.0.1@tcp
      fa_ptl_mask: 9223372036854775809
      fa_msg_mask: 6
      la_rate: 0
      la_interval: 4
      la_latency: 2
      ls_delayed: 0
      fs_count: 0
      fs_put: 0
      fs_ack: 0
      fs_get: 0
      fs_reply: 0
`},
		{"drop rules", []string{"fault drop add -s * -d * -r 2 -e local_dropped -e random -n -x -o 10.0.0.1@tcp", "fault drop reset"}, "fault drop show", `fault:
-     rule_type: drop
      fa_src: ! '*'
      fa_dst: ! '*'
      fa_ptl_mask: 0
      fa_msg_mask: 0
      da_rate: 2
      da_interval: 0
      ds_dropped: 0
      fs_count: 0
      fs_put: 0
      fs_ack: 0
      fs_get: 0
      fs_reply: 0
`},
		{"reset", []string{"stats reset"}, "stats show", "statistics:\n    " + strings.Join([]string{
			"msgs_alloc", "msgs_max", "rst_alloc", "errors", "send_count", "resend_count", "response_timeout_count",
			"local_interrupt_count", "local_dropped_count", "local_aborted_count", "local_no_route_count", "local_timeout_count",
			"local_error_count", "remote_dropped_count", "remote_error_count", "remote_timeout_count", "network_timeout_count",
			"failed_resends", "successful_resends", "recv_count", "route_count", "drop_count", "send_length", "recv_length",
			"route_length", "drop_length",
		}, ": 0\n    ") + ": 0\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := serve(t, cannedPeer(t, "peerA"))
			for _, line := range append(tt.given, tt.line) {
				got := runProgram(program{}, append(words(line), "--control-socket", path)...)
				want := ran{}
				if line == tt.line {
					want.stdout = tt.want
				}
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
					t.Fatal(line, diff)
				}
			}
		})
	}
}

// Everything that is shown is also available as the control interface returns it.
func TestShowsAsJSON(t *testing.T) {
	n := cannedPeer(t, "peerA")
	path := serve(t, n)
	for _, line := range append(recordedPolicies, "route add --net tcp9 --gateway 10.77.0.1@tcp",
		"selection net add --net tcp", "fault drop add -s * -d * -r 1") {
		if got := runProgram(program{}, append(words(line), "--control-socket", path)...); got.status != exitOK {
			t.Fatalf("%s: %+v", line, got)
		}
	}
	for line, into := range map[string]interface{ empty() bool }{
		"peer show": &asJSON[api.Peers]{}, "peer list": &asJSON[api.Peers]{}, "route show": &asJSON[api.Routes]{},
		"routing show": &asJSON[api.Routing]{}, "global show": &asJSON[api.Globals]{}, "stats show": &asJSON[api.Stats]{},
		"udsp show": &asJSON[api.UDSP]{}, "selection net show": &asJSON[api.Selection]{}, "fault drop show": &asJSON[api.FaultRules]{},
		"discover 0@lo": &asJSON[api.PingReply]{},
	} {
		got := runProgram(program{}, append(words(line), "--json", "--control-socket", path)...)
		if err := json.Unmarshal([]byte(got.stdout), into); err != nil || into.empty() || got.status != exitOK {
			t.Errorf("%s: %v: %+v", line, err, got)
		}
	}
}

// asJSON checks that a T is in the output and that all its fields are known.
type asJSON[T any] struct{ raw string }

func (a *asJSON[T]) UnmarshalJSON(b []byte) error {
	var v T
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	a.raw = string(b)
	return d.Decode(&v)
}

func (a *asJSON[T]) empty() bool { return len(a.raw) <= len(`{"rules":[]}`) }

// leaves returns all commands that do something.
func leaves(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range cli.Visible(c) {
		if sub.HasSubCommands() {
			all = append(all, leaves(sub)...)
		} else {
			all = append(all, sub)
		}
	}
	return all
}

// Every command has a help text, with valid examples.
func TestEveryCommandHasHelp(t *testing.T) {
	all := leaves((&program{name: "lnetdctl"}).root())
	if len(all) < 40 {
		t.Errorf("%d commands only", len(all))
	}
	for _, c := range all {
		t.Run(c.CommandPath(), func(t *testing.T) {
			line := strings.Fields(c.CommandPath())[1:]
			got := runProgram(program{}, append(line, "--help")...)
			want := exitHelp
			if _, helps := c.Annotations[helpSucceeds]; helps {
				want = exitOK
			}
			if got.status != want || got.stderr != "" {
				t.Errorf("status %d, stderr %q", got.status, got.stderr)
			}
			if c.Short == "" || c.Long == "" {
				t.Errorf("short %q, long %q", c.Short, c.Long)
			}
			for _, section := range []string{"NAME\n", "SYNOPSIS\n", "OPTIONS\n", "EXAMPLES\n", "EXIT STATUS\n"} {
				if !strings.Contains(got.stdout, section) {
					t.Errorf("no %q", section)
				}
			}
			for _, text := range strings.Split(got.stdout, "\n") {
				if len(text) > 110 {
					t.Errorf("a line of %d characters: %s", len(text), text)
				}
			}
			for _, example := range strings.Split(strings.TrimSpace(c.Example), "\n") {
				root := (&program{name: "lnetdctl"}).root()
				fields := words(example)
				if len(fields) < 2 || fields[0] != "lnetdctl" {
					t.Fatalf("example %q", example)
				}
				l, err := readLine(root, fields[1:], false)
				if err != nil || l.cmd.CommandPath() != c.CommandPath() {
					t.Errorf("example %q: %v", example, err)
				}
			}
		})
	}
}

// alone are the commands that need no daemon.
var alone = map[string]bool{"version": true, "completion": true, "legacy2yaml": true, "nidlist": true, "service-id": true, "doctor": true, "status": true, "bundle": true}

// Without a daemon every command reports that and fails.
//
// lnetctl 1 (11)
func TestNoCommandWorksWithoutDaemon(t *testing.T) {
	t.Setenv("LST_SESSION", "1")
	inAnEmptyDirectory(t)
	for _, c := range leaves((&program{name: "lnetdctl"}).root()) {
		if alone[c.Name()] {
			continue
		}
		example := words(strings.Split(c.Example, "\n")[0])[1:]
		got := runProgram(program{}, append(example, "--control-socket", t.TempDir()+"/none")...)
		says := "- startup:"
		if isLst(c) {
			says = "cannot reach lnetd at "
		}
		if got.status != exitFailure || got.stdout != "" || !strings.Contains(got.stderr, says) {
			t.Errorf("%v: %+v", example, got)
		}
	}
}

var errBoom = errors.New("boom")

// An unknown error is printed unchanged.
func TestUnforeseenRefusal(t *testing.T) {
	n := cannedPeer(t, "peerA")
	n.Refuse = func(string) error { return errBoom }
	got := runProgram(program{hints: true}, "set", "numa_range", "1", "--control-socket", serve(t, n))
	want := ran{"", oldDocumentOf("add", "numa_range", "-5", "cannot configure numa range: Input/output error") +
		"# boom\n# \"lnetdctl help set\" lists the parameters with their ranges; \"lnetdctl global show\" shows their values\n", 251}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
		t.Error(diff)
	}
}
