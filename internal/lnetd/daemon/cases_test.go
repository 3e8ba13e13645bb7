package daemon

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/node"
)

// The tests below are cases of the reference's regression suites that need a file and the
// resulting node.

// peerYAML returns a peer as the suites write it.
func peerYAML(primary string, others ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "    - primary nid: %s\n      Multi-Rail: True\n      peer ni:\n        - nid: %s\n", primary, primary)
	for _, nid := range others {
		fmt.Fprintf(&b, "        - nid: %s\n", nid)
	}
	return b.String()
}

// The peers of a file exist when the node is up, and no others.
//
// sanity-lnet 3 (14), 3 (15), 3 (17)
func TestPeersOfAFile(t *testing.T) {
	// five returns five peers whose NIDs are on the given nets.
	five := func(nets ...string) (yaml string, want []string) {
		for k := range 5 {
			var nids []string
			for j, net := range nets {
				nids = append(nids, fmt.Sprintf("1%d.0.%d.1@%s", k, j, net))
			}
			yaml += peerYAML(nids[0], nids[1:]...)
			want = append(want, nids[0]+": "+strings.Join(nids, " ")+" multi-rail configured")
		}
		return yaml, want
	}
	one := peerYAML("10.77.0.20@tcp")
	fiveSingle, wantSingle := five("o2ib")
	fiveLarge, wantLarge := five("tcp", "tcp", "tcp1", "tcp1", "o2ib", "o2ib", "o2ib1", "o2ib1")
	for _, c := range []struct {
		name, yaml string
		want       []string
	}{
		{"one with one NID", one, []string{"10.77.0.20@tcp: 10.77.0.20@tcp multi-rail configured"}},
		{"five of a net without driver", fiveSingle, wantSingle},
		{"five with seven further NIDs", fiveLarge, wantLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := startNode(t, parse(t, twoNets+"peer:\n"+c.yaml)).ready(t)
			if diff := cmp.Diff(c.want, peerTexts(r.peers(t))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// sanity-lnet 4 (50)
func TestRoutingOfAFile(t *testing.T) {
	for enable, want := range []node.RoutingState{node.RoutingDisabled, node.RoutingEnabled} {
		synctest.Test(t, func(t *testing.T) {
			r := startNode(t, parse(t, twoNets+fmt.Sprintf(`
lnetd: {alive_router_check_interval: 1, router_ping_timeout: 1}
routing: {enable: %d}
buffers: {tiny: 17, small: 9, large: 5}
`, enable))).ready(t)
			if p := r.Routing().CPTs[0]; enable == 1 && (p.Tiny.Buffers != 17 || p.Small.Buffers != 9 || p.Large.Buffers != 5) {
				t.Errorf("buffers %+v", p)
			}
			after(10 * time.Second)
			if s := node.RoutingState(r.Routing().State); s != want {
				t.Errorf("enable %d: state %d", enable, s)
			}
			if err := r.SetRouting(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			after(10 * time.Second)
			if s := node.RoutingState(r.Routing().State); s != node.RoutingDisabled {
				t.Errorf("disabled: state %d", s)
			}
		})
	}
}

// Policies of a file are shown at the NIs and peer NIs of their nets.
//
// sanity-lnet 9 (404)
func TestPoliciesOfAFile(t *testing.T) {
	r := startNode(t, parse(t, twoNets+`
udsp:
    - {idx: 0, src: tcp1, action: {priority: 1}}
    - {idx: 1, dst: tcp1, action: {priority: 1}}
    - {idx: 2, src: tcp, dst: tcp}
peer:
`+peerYAML("10.77.0.20@tcp", "10.78.0.20@tcp1"))).ready(t)
	nets := r.Nets()
	for k, want := range map[int]int{1: -1, 2: 1} {
		if u := nets[k].NIs[0].UDSP; u.NetPriority != want || u.NIDPriority != -1 {
			t.Errorf("%s: %+v", nets[k].NIs[0].NID, u)
		}
	}
	p, ok := r.Peer(nid(t, "10.77.0.20@tcp"))
	if !ok || len(p.NIs) != 2 {
		t.Fatalf("peer %+v", p)
	}
	want := []api.UDSPInfo{{NetPriority: -1, NIDPriority: -1}, {NetPriority: 1, NIDPriority: -1}}
	want[0].PreferredSources = append(want[0].PreferredSources, nid(t, "10.77.0.11@tcp"))
	for k := range p.NIs {
		u := p.NIs[k].UDSP
		if u.NetPriority != want[k].NetPriority || u.NIDPriority != want[k].NIDPriority || len(u.PreferredSources) != len(want[k].PreferredSources) {
			t.Errorf("%s: %+v, want %+v", p.NIs[k].NID, u, want[k])
		}
	}
}
