package daemon

import (
	"errors"
	"testing"

	"github.com/lnetd/lnetd/internal/control/api"
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
