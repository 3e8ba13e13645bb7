package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// lnetctl 4.11 (3), 4.14 (2), 4.15, 5.7
func TestDebug(t *testing.T) {
	n := cannedPeer(t, "peerA")
	n.Ill = api.Recovery{Local: []lnet.NID{mustNID(t, "10.77.0.11@tcp"), mustNID(t, "10.78.0.11@tcp1")}}
	path := serve(t, n)
	local := "Local NI recovery:\n      nid-0: 10.77.0.11@tcp\n      nid-1: 10.78.0.11@tcp1\n"
	for _, tt := range []struct {
		args []string
		want ran
	}{
		{[]string{"debug", "recovery", "--local"}, ran{local, "", 0}},
		{[]string{"debug", "recovery", "-p"}, ran{}},
		{[]string{"debug", "recovery", "-l", "-p"}, ran{local, "", 0}},
		{[]string{"debug", "recovery"}, ran{"", "lnetdctl: either --local or --peer is needed\n", 234}},
		{[]string{"debug", "peer"}, ran{"", "lnetdctl: --nid is needed\n", 234}},
		{[]string{"debug", "peer", "--nid", "x@"}, ran{"", newDocumentOf("show", "peer", "-22", "cannot parse NID 'x@'"), 234}},
		{[]string{"debug", "nidlist", "192.168.[0,5,7].*@tcp1 10.0.0.0/8@tcp0"}, ran{"nidlist parsed to: 192.168.[0,5,7].[0-255]@tcp1 10.0.0.0/8@tcp\n", "", 0}},
		{[]string{"debug", "nidlist", "10.0.0.[1-9]@tcp", "10.0.0.7@tcp"}, ran{"nidlist parsed to: 10.0.0.[1-9]@tcp\n10.0.0.7@tcp matches nidlist 10.0.0.[1-9]@tcp\n", "", 0}},
		{[]string{"debug", "nidlist", "*@tcp1", "10.0.0.7@tcp"}, ran{"nidlist parsed to: *@tcp1\n10.0.0.7@tcp does not match nidlist *@tcp1\n", "", 0}},
		{[]string{"debug", "nidlist", "1.1.1.1"}, ran{"", "lnetdctl: cannot parse nidlist '1.1.1.1'\n", 234}},
		{[]string{"debug", "nidlist", "*@tcp", "7"}, ran{"", "lnetdctl: cannot parse NID '7'\n", 234}},
		{[]string{"cpt-of-nid", "10.0.0.1@tcp", "10.0.0.[2-3]@tcp"}, ran{"cpt-of-nid:\n- nid: 10.0.0.1@tcp\n  cpt: 0\n- nid: 10.0.0.2@tcp\n  cpt: 0\n- nid: 10.0.0.3@tcp\n  cpt: 0\n", "", 0}},
		{[]string{"cpt-of-nid", "*@tcp"}, ran{"", newDocumentOf("show", "cpt-of-nid", "-22", `\"Unable to parse nidlist: asterisk not allowed in nidstring\"`), 234}},
		{[]string{"service-id"}, ran{"", newDocumentOf("show", "service-id", "-95", "lnetd has no driver for InfiniBand, and no service ID"), 234}},
	} {
		t.Run(strings.Join(tt.args, "_"), func(t *testing.T) {
			got := runProgram(program{name: "lnetdctl"}, append(tt.args, "--control-socket", path)...)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(ran{})); diff != "" {
				t.Error(diff)
			}
			got = runProgram(program{}, append(tt.args, "--json", "--control-socket", path)...)
			if said := got.stdout + got.stderr; got.status != tt.want.status || !json.Valid([]byte(said)) {
				t.Errorf("as JSON: %+v", got)
			}
		})
	}
}

// debug peer prints the same as peer show with the most detail.
//
// lnetctl 4.14 (2)
func TestDebugPeer(t *testing.T) {
	path := serve(t, cannedPeer(t, "peerA"))
	want := runProgram(program{}, "peer", "show", "--nid", "10.78.0.12@tcp1", "-v", "4", "--control-socket", path)
	got := runProgram(program{}, "debug", "peer", "--nid", "10.78.0.12@tcp1", "--control-socket", path)
	if got != want || got.status != exitOK || !strings.Contains(got.stdout, "udsp info") {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// While LNet is not configured, there is no information about recovery and partitions.
//
// lnetctl 2 (4), 4.15
func TestDebugWithoutLNet(t *testing.T) {
	n := newCannedNode()
	n.Down = true
	path := serve(t, n)
	for line, want := range map[string]ran{
		"debug recovery -l":       {"Operation failed: Network is down\n", "", 234},
		"cpt-of-nid 10.0.0.1@tcp": {"", newDocumentOf("show", "cpt-of-nid", "-100", "Network is down"), 234},
	} {
		got := runProgram(program{}, append(words(line), "--control-socket", path)...)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
			t.Error(line, diff)
		}
	}
}

// The distances between CPU partitions are shown, and the output can be imported.
//
// lnetctl 11 (14)
func TestDebugCPTs(t *testing.T) {
	n := cannedPeer(t, "peerA")
	n.Values.Values = map[string]int64{"numa_range": 20}
	path := serve(t, n)
	const want = `numa:
    range: 20
    cpts:
        - cpt: 0
          node: 0
          cpus: "0-1"
          distance: "[10,21]"
        - cpt: 1
          node: 2
          cpus: "2,5"
          distance: "[21,10]"
`
	got := runProgram(program{}, "debug", "cpts", "--control-socket", path)
	if diff := cmp.Diff(ran{want, "", 0}, got, cmp.AllowUnexported(ran{})); diff != "" {
		t.Error(diff)
	}
	c, err := config.Parse("numa.yaml", []byte(got.stdout), nil)
	if err != nil || len(c.Warnings) > 0 || c.Parameters.NUMARange != 20 {
		t.Errorf("imported: range %d, %v, %v", c.Parameters.NUMARange, c.Warnings, err)
	}
	if got := runProgram(program{}, "--json", "debug", "cpts", "--control-socket", path); !strings.Contains(got.stdout, `"distances"`) {
		t.Errorf("as JSON: %+v", got)
	}
}
