package daemon

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// A request for all NIs fails if no NI has what it names, and then changes nothing.
func TestTuneAll(t *testing.T) {
	r := startNodeWith(t, parse(t, twoNets), Drivers{TCP(host(lo, device("eth0", "10.77.0.11/24"), device("eth1", "10.78.0.11/24")))}).ready(t)
	ten := 10
	request := api.NITunables{All: true, Net: lnet.MakeNet(lnet.TypeTCP, 9), LNDTimeout: &ten}
	if err := r.SetNITunables(t.Context(), request); !errors.Is(err, node.ErrNotFound) {
		t.Errorf("the timeout of a net without an NI: %v", err)
	}
	var fault *api.Fault
	request = api.NITunables{All: true, LND: map[string]int64{"conns_per_peer": 4, "no_such": 1}}
	if err := r.SetNITunables(t.Context(), request); !errors.As(err, &fault) || fault.Code != api.CodeRequestInvalid {
		t.Errorf("a tunable that no NI has: %v", err)
	}
}

// A plan names the values of tunables that return to the driver's.
func TestPlanOfTunablesThatReturnToDefaults(t *testing.T) {
	r := startNodeWith(t, parse(t, twoNets), Drivers{TCP(host(lo, device("eth0", "10.77.0.11/24"), device("eth1", "10.78.0.11/24")))}).ready(t)
	ten := 10
	for _, request := range []api.NITunables{
		{All: true, LND: map[string]int64{"busy_poll": 50, "conns_per_peer": 4}},
		{Net: lnet.MakeNet(lnet.TypeTCP, 1), LNDTimeout: &ten},
	} {
		if err := r.SetNITunables(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	done, err := r.document(t, api.ModeReplace, twoNets)
	want := []string{
		"net set --nid 10.77.0.11@tcp --busy-poll 0 --conns-per-peer 0",
		"net set --nid 10.78.0.11@tcp1 --busy-poll 0 --conns-per-peer 0",
		"net set --net tcp1 --lnd-timeout 50",
	}
	if diff := cmp.Diff(want, done.Commands); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
