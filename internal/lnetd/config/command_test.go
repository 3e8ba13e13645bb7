package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// The steps are printed as lnetdctl commands, in an order in which each command is possible.
func TestCommands(t *testing.T) {
	tests := []struct {
		name, have, want string
		commands         []string
	}{
		{"an NI", "", "net: [{net type: tcp1, local NI(s): [{interfaces: {0: eth1}}]}]\n", []string{"net add --net tcp1 --if eth1"}},
		{
			"an NI with all", "",
			"net: [{net type: tcp1, local NI(s): [{interfaces: {0: eth1}, tunables: {peer_timeout: 60, peer_credits: 16, " +
				"peer_buffer_credits: 4, credits: 128}, lnd tunables: {conns_per_peer: 2, tos: 8}, CPT: '[0,1]'}]}]\n",
			[]string{"net add --net tcp1 --if eth1 --peer-timeout 60 --peer-credits 16 --peer-buffer-credits 4 --credits 128 " +
				"--conns-per-peer 2 --tos 8 --cpt '[0,1]'"},
		},
		{"an NI with an LND tunable", "", "net: [{net type: o2ib, interfaces: {0: ib0}, lnd tunables: {ntx: 5}}]\n", []string{
			"net add --net o2ib --if ib0 --ntx 5",
		}},
		{"an NI without an interface", "", "net: [{net type: tcp9}]\n", []string{
			"# add an NI on tcp9 on the first interface that is up; no command can do this",
		}},
		{"an NI by NID", "net: [{net type: tcp, nid: 10.0.0.1@tcp}]\n", "", []string{"net del --nid 10.0.0.1@tcp"}},
		{
			"peers", "peer: [{primary nid: 10.0.0.1@tcp, peer ni: [{nid: 10.0.0.2@tcp}]}, {primary nid: 10.0.0.5@tcp}]\n",
			"peer: [{primary nid: 10.0.0.1@tcp, peer ni: [{nid: 10.0.0.3@tcp}]}, {primary nid: 10.0.0.6@tcp, Multi-Rail: false}]\n",
			[]string{
				"peer del --prim_nid 10.0.0.5@tcp", "peer del --prim_nid 10.0.0.1@tcp --nid 10.0.0.2@tcp",
				"peer add --prim_nid 10.0.0.1@tcp --nid 10.0.0.3@tcp", "peer add --prim_nid 10.0.0.6@tcp --non_mr",
			},
		},
		{
			"a route", "route: [{net: tcp9, gateway: 10.0.0.1@tcp}]\n", "route: [{net: tcp9, gateway: 10.0.0.1@tcp, hop: 2, priority: 1}]\n",
			[]string{"route del --net tcp9 --gateway 10.0.0.1@tcp", "route add --net tcp9 --gateway 10.0.0.1@tcp --hop 2 --priority 1"},
		},
		{
			"rules behind others", "udsp: [{idx: 0, src: tcp, priority: 0}]\n",
			"udsp: [{idx: 0, src: tcp, priority: 0}, {idx: 1, dst: '10.0.0.[2-8/2]@tcp', src: tcp1}]\n",
			[]string{"udsp add --src tcp1 --dst '10.0.0.[2-8/2]@tcp'"},
		},
		{
			"other rules", "udsp: [{idx: 0, src: tcp, priority: 0}]\n", "udsp: [{idx: 0, src: tcp1, priority: 3}]\n",
			[]string{"udsp del --all", "udsp add --src tcp1 --priority 3"},
		},
		{
			"typed rules", "selection: [{id: 3, type: net, net: tcp, priority: 1}]\n",
			"selection: [{id: 4, type: peer, local: '10.0.0.[1-2]@tcp', remote: 10.0.0.1@tcp, priority: 2}]\n",
			[]string{"selection net del --id 3", "selection peer add --local '10.0.0.[1-2]@tcp' --remote 10.0.0.1@tcp --priority 2 --id 4"},
		},
		{
			"more retries", "global: {retry_count: 0, health_sensitivity: 0, transaction_timeout: 5}\n",
			"global: {retry_count: 9, health_sensitivity: 100, transaction_timeout: 50}\n",
			[]string{"set transaction_timeout 50", "set health_sensitivity 100", "set retry_count 9"},
		},
		{
			"fewer retries", "global: {retry_count: 9, health_sensitivity: 100, transaction_timeout: 50}\n",
			"global: {retry_count: 0, health_sensitivity: 0, transaction_timeout: 5}\n",
			[]string{"set retry_count 0", "set transaction_timeout 5", "set health_sensitivity 0"},
		},
		{
			"other values", "",
			"global: {numa_range: 1, max_interfaces: 17, discovery: 0, drop_asym_route: 1, router_sensitivity: 7, response_tracking: 0, recovery_limit: 8, max_recovery_ping_interval: 9}\n",
			[]string{
				"set numa_range 1", "set max_interfaces 17", "set discovery 0", "set drop_asym_route 1", "set router_sensitivity 7",
				"set response_tracking 0", "set recovery_limit 8", "set max_recovery_ping_interval 9",
			},
		},
		{"what has no command", "", "lnetd: {discovery: verify, peer_nis_max: 100}\n", []string{"set discovery verify", "# change parameters of the section \"lnetd\"; no command can do this"}},
		{"a router", "", "routing: {enable: 1}\nbuffers: {tiny: 600, small: 5, large: 7}\n", []string{
			"set tiny_buffers 600", "set small_buffers 5", "set large_buffers 7", "set routing 1",
		}},
		{"no router", "routing: {enable: 1}\n", "", []string{"set routing 0"}},
		{"a driver", "", "lnetd: {socklnd: {nagle: 1}}\n", []string{"# change the options of tcp nets"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			have, want := mustParse(t, tt.have).State, mustParse(t, tt.want).State
			var got []string
			for _, s := range Diff(&have, &want, testDrivers) {
				got = append(got, s.Commands()...)
			}
			if diff := cmp.Diff(tt.commands, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// NIs that differ only in what can be changed in place are not taken down.
//
// lnetctl 4.5 (3)
func TestCommandsInPlace(t *testing.T) {
	ni := NI{
		Net: lnet.MakeNet(lnet.TypeTCP, 0), Device: "eth0", Own: nidOf(t, "10.0.0.1@tcp"),
		Tunables: lnd.Tunables{PeerTimeout: 180 * time.Second}, Options: lnd.Values{"conns_per_peer": 1, "tos": -1},
	}
	other := ni
	other.Options = ni.Options.With("conns_per_peer", 4).With("timeout", 20)
	have, want := State{NIs: []NI{ni}}, State{NIs: []NI{other}}
	steps := Diff(&have, &want, testDrivers)
	if len(steps) != 1 {
		t.Fatalf("%v", steps)
	}
	commands := []string{"net set --nid 10.0.0.1@tcp --conns-per-peer 4", "net set --net tcp --lnd-timeout 20"}
	if diff := cmp.Diff(commands, steps[0].Commands()); diff != "" {
		t.Error(diff)
	}
	other.Options = ni.Options.With("tos", 8)
	want = State{NIs: []NI{other}}
	if steps := Diff(&have, &want, testDrivers); len(steps) != 2 {
		t.Errorf("tos: %v", steps)
	}
}
