package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// order returns what an export or a backup lists, in order.
func order(nets []api.Net, routes []api.Route, peers []api.Peer) []string {
	var out []string
	for _, n := range nets {
		for _, ni := range n.NIs {
			name := n.Net.String()
			for _, device := range ni.Interfaces {
				name += " " + device
			}
			if !ni.NID.IsLoopback() {
				out = append(out, "NI "+name)
			}
		}
	}
	for _, r := range routes {
		out = append(out, "route "+r.Net.String()+" by "+r.Gateway.String())
	}
	for _, p := range peers {
		name := "peer"
		for _, ni := range p.NIs {
			name += " " + ni.NID.String()
		}
		out = append(out, name)
	}
	return out
}

// Items that are added one by one in any order are exported in the order that the manual of
// "export" describes: nets and NIs as added, routes by net and gateway, peers by age, each with
// its primary NID and the others of that net first.
func TestOrderOfExport(t *testing.T) {
	const (
		tcp3  = "net: [{net type: tcp3, interfaces: [eth1]}]\n"
		tcp2  = "net: [{net type: tcp2, interfaces: [eth0]}]\n"
		tcp3b = "net: [{net type: tcp3, interfaces: [eth0]}]\n"

		nine     = "route: [{net: tcp9, gateway: 10.77.0.20@tcp}]\n"
		nineToo  = "route: [{net: tcp9, gateway: 10.78.0.9@tcp1}]\n"
		nineThen = "route: [{net: tcp9, gateway: 10.77.0.3@tcp}]\n"
		eight    = "route: [{net: tcp8, gateway: 10.77.0.20@tcp}]\n"
		fabric   = "route: [{net: o2ib, gateway: 10.77.0.20@tcp}]\n"

		high = "peer: [{primary nid: 10.77.0.99@tcp, peer ni: [{nid: 10.78.0.99@tcp1}, {nid: 10.77.0.98@tcp}]}]\n"
		low  = "peer: [{primary nid: 10.77.0.2@tcp}]\n"
	)
	routes := []string{
		"route tcp8 by 10.77.0.20@tcp", "route tcp9 by 10.77.0.3@tcp", "route tcp9 by 10.77.0.20@tcp", "route tcp9 by 10.78.0.9@tcp1",
		"route o2ib by 10.77.0.20@tcp",
	}
	const (
		peerHigh = "peer 10.77.0.99@tcp 10.77.0.98@tcp 10.78.0.99@tcp1"
		peerLow  = "peer 10.77.0.2@tcp"
		by20     = "peer 10.77.0.20@tcp"
		by3      = "peer 10.77.0.3@tcp"
		by9      = "peer 10.78.0.9@tcp1"
	)
	first := []string{"NI tcp eth0", "NI tcp1 eth1"}
	for name, tt := range map[string]struct {
		added []string
		want  []string
	}{
		"one way": {
			[]string{tcp3, tcp2, tcp3b, nine, nineToo, nineThen, eight, fabric, high, low},
			slices.Concat(first, []string{"NI tcp3 eth1", "NI tcp3 eth0", "NI tcp2 eth0"}, routes, []string{by20, by9, by3, peerHigh, peerLow}),
		},
		"the other way": {
			[]string{low, high, fabric, eight, nineThen, nineToo, nine, tcp3b, tcp2, tcp3},
			slices.Concat(first, []string{"NI tcp3 eth0", "NI tcp3 eth1", "NI tcp2 eth0"}, routes, []string{peerLow, peerHigh, by20, by3, by9}),
		},
		"mixed": {
			[]string{nineThen, tcp2, high, nine, tcp3b, fabric, low, nineToo, tcp3, eight},
			slices.Concat(first, []string{"NI tcp2 eth0", "NI tcp3 eth0", "NI tcp3 eth1"}, routes, []string{by3, peerHigh, by20, peerLow, by9}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := startNode(t, parse(t, twoNets)).ready(t)
			for _, text := range tt.added {
				if _, err := r.document(t, api.ModeAdd, text); err != nil {
					t.Fatalf("%s: %v", strings.TrimSpace(text), err)
				}
			}
			c := r.configuration(t)
			for range 3 {
				if diff := cmp.Diff(tt.want, order(r.Nets(), r.Routes(), r.peers(t))); diff != "" {
					t.Errorf("export (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.want, order(c.Nets, c.Routes, r.peers(t))); diff != "" {
					t.Errorf("export --backup (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// Given peers that were configured in an order that differs from that of their NIDs, when the
// configuration is read, then they are in the order of the list of peers, which "export" uses.
func TestConfigurationHasPeersInTheOrderOfExports(t *testing.T) {
	r := startNode(t, parse(t, twoNets+"peer: [{primary nid: 10.77.0.30@tcp}, {primary nid: 10.77.0.20@tcp}, {primary nid: 10.78.0.10@tcp1}]\n")).ready(t)
	if _, err := r.document(t, api.ModeAdd, "peer: [{primary nid: 10.77.0.10@tcp}]\n"); err != nil {
		t.Fatal(err)
	}
	var listed, configured []lnet.NID
	for _, p := range r.peers(t) {
		listed = append(listed, p.Primary)
	}
	for _, p := range r.configurationByAge(t).Peers {
		configured = append(configured, p.Primary)
	}
	if !slices.Equal(configured, listed) || len(listed) != 4 {
		t.Errorf("configured %v, listed %v", configured, listed)
	}
}
