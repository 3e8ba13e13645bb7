package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// If another value is in force than the given one, that is reported. An error names the valid
// values.
func TestSetSaysWhatIsInForce(t *testing.T) {
	const warning = "lnetdctl: warning: "
	refused := func(name, words, valid string) ran {
		text := oldDocumentOf("add", name, "-61", "cannot configure "+words+": Invalid argument")
		return ran{"", text + warning + "valid values of " + name + ": " + valid + "\n", 195}
	}
	tests := []struct {
		line string
		want ran
	}{
		{"set max_interfaces 5", ran{"", warning + "max_interfaces is 4096, not 5; valid values: 16 to 2147483647; a smaller number means 4096, the default\n", 0}},
		{"set max_interfaces 32", ran{"", "", 0}},
		{"set recovery_interval 9", ran{"", warning + "recovery_interval is obsolete; nothing is changed\n", 0}},
		{"set router_sensitivity 50", ran{"", warning + "router_sensitivity is stored and shown, but has no effect\n", 0}},
		{"set discovery 7", ran{"", warning + "discovery is 1, not 7; valid values: 0, 1, on, off or verify\n", 0}},
		{"set drop_asym_route -1", ran{"", warning + "drop_asym_route is 1, not -1; valid values: 0 or 1\n", 0}},
		{"set tiny_buffers -1", ran{"", warning + "-1 leaves tiny_buffers unchanged\n", 0}},
		{"set retry_count 9999", refused("retry_count", "retry count", "0 or more, less than transaction_timeout; must be 0 if health_sensitivity is 0")},
		{"set transaction_timeout 0", refused("transaction_timeout", "transaction timeout", "1 to 2147483647 seconds, more than retry_count")},
		{"set health_sensitivity 1001", refused("health_sensitivity", "health sensitivity", "0 to 1000")},
		{"set router_sensitivity 101", refused("router_sensitivity", "router sensitivity", "0 to 100 percent")},
		{"set numa_range -1", refused("numa_range", "numa range", "0 to 4294967295")},
		{"net set --all --health 5000", ran{"", warning + "--health 5000 is set to 1000: health must be within 0 to 1000\n", 0}},
		{"net set --all --health -3", ran{"", warning + "--health -3 is set to 0: health must be within 0 to 1000\n", 0}},
		{"peer set --all --health 1001", ran{"", warning + "--health 1001 is set to 1000: health must be within 0 to 1000\n", 0}},
		{"net set --all --conns-per-peer -1", ran{"", warning + "--conns-per-peer -1 is negative; nothing is changed; valid values: 0 to 127\n", 0}},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			got := runProgram(program{}, append(words(tt.line), "--control-socket", serve(t, cannedPeer(t, "peerA")))...)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(ran{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An option that takes one value is an error if it is given twice. One that collects values accepts
// all of them.
func TestOptionsGivenTwice(t *testing.T) {
	n := cannedPeer(t, "peerA")
	t.Setenv("LNETD_CONTROL_SOCKET", serve(t, n))
	for line, option := range map[string]string{
		"net add --net tcp1 --net tcp2 --if eth1":                         "net",
		"net set --all --health 500 --health 600":                         "health",
		"route add --net o2ib --net o2ib1 --gateway 10.77.0.1@tcp":        "net",
		"route add --net o2ib --gateway 10.77.0.1@tcp --hop 1 -c 2":       "hop",
		"route add --net o2ib --gateway 10.77.0.1@tcp --hop 1 --hop-co 2": "hop-count",
		"route show --gateway 10.77.0.1@tcp --gateway 10.77.0.2@tcp":      "gateway",
		"peer add --prim 10.77.0.1@tcp --prim 10.77.0.2@tcp":              "prim_nid",
		"udsp add --src tcp --priority 1 --priority 1":                    "priority",
		"ping -s 10.77.0.11@tcp -s 10.77.0.11@tcp 10.77.0.12@tcp":         "source",
		"net show -v 1 -v 2":                 "verbose",
		"fault drop add -s * -d * -r 1 -r 2": "rate",
	} {
		want := ran{"", "lnetdctl: option '--" + option + "' is given twice\n", 234}
		if diff := cmp.Diff(want, runProgram(program{}, words(line)...), cmp.AllowUnexported(ran{})); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	run := func(line string) string {
		t.Helper()
		got := runProgram(program{}, words(line)...)
		if got.status != exitOK {
			t.Fatalf("%s: %+v", line, got)
		}
		return got.stdout
	}
	run("route add --net tcp9 --gateway 10.77.0.1@tcp --gateway 10.77.0.[2-3]@tcp")
	run("peer add --prim 10.77.9.1@tcp --nid 10.77.9.2@tcp --nid 10.77.9.3@tcp,10.77.9.4@tcp")
	run("udsp add --src tcp --src tcp1 --priority 3")
	if got := run("udsp show"); got != "udsp:\n    - idx: 0\n      src: tcp\n      action:\n          priority: 3\n"+
		"    - idx: 1\n      src: tcp1\n      action:\n          priority: 3\n" {
		t.Error(got)
	}
	for _, nid := range []string{"10.77.0.1@tcp", "10.77.0.2@tcp", "10.77.0.3@tcp"} {
		if got := run("route show --net tcp9 --gateway " + nid); got == "" {
			t.Errorf("no route by %s", nid)
		}
	}
	for _, nid := range []string{"10.77.9.2@tcp", "10.77.9.3@tcp", "10.77.9.4@tcp"} {
		if got := run("peer show --nid " + nid); !strings.Contains(got, "primary nid: 10.77.9.1@tcp") {
			t.Errorf("%s: %s", nid, got)
		}
	}
	// All rules are added, or none of them.
	if got := runProgram(program{}, words("udsp add --src tcp2 --src tcp --priority 3")...); got.status != 142 {
		t.Errorf("%+v", got)
	}
	if got := run("udsp show"); strings.Contains(got, "tcp2") {
		t.Error(got)
	}
}
