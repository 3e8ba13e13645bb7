package server_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// TestRangesOfRequests checks that requests accept exactly the numbers of the documented ranges,
// and that a refusal names the range.
func TestRangesOfRequests(t *testing.T) {
	tcp := lnet.MakeNet(lnet.TypeTCP, 0)
	pattern, err := lnet.ParsePattern("tcp")
	if err != nil {
		t.Fatal(err)
	}
	c, _ := serve(t, &controltest.Daemon{Values: initial()})
	net := func(set func(r *api.NetAddition, n *int)) func(int64) error {
		return func(n int64) error {
			r := api.NetAddition{Net: tcp, Interfaces: []string{"eth7"}}
			set(&r, new(int(n)))
			return addNet(t, c, r)
		}
	}
	tests := map[string]struct {
		takes api.Range
		set   func(int64) error
	}{
		"peer_timeout":        {api.PeerTimeoutRange, net(func(r *api.NetAddition, n *int) { r.PeerTimeout = n })},
		"peer_credits":        {api.CreditsRange, net(func(r *api.NetAddition, n *int) { r.PeerCredits = n })},
		"peer_buffer_credits": {api.CreditsRange, net(func(r *api.NetAddition, n *int) { r.PeerBufferCredits = n })},
		"credits":             {api.CreditsRange, net(func(r *api.NetAddition, n *int) { r.Credits = n })},
		"lnd_timeout": {api.LNDTimeoutRange, func(n int64) error {
			return c.SetNITunables(t.Context(), api.NITunables{Net: tcp, LNDTimeout: new(int(n))})
		}},
		"id": {api.RuleIDRange, func(n int64) error {
			return c.AddSelection(t.Context(), api.SelectionRule{Type: selection.RuleNet.String(), Net: pattern, ID: new(int(n))})
		}},
	}
	for name, tt := range tests {
		for _, n := range []int64{tt.takes.Min - 1, tt.takes.Min, tt.takes.Max, tt.takes.Max + 1} {
			outside := tt.takes.Check(n) != nil
			if err := tt.set(n); refusedNumber(err) != outside {
				t.Errorf("%s %d: %v", name, n, err)
			}
		}
	}
	for _, p := range parameters.Settable() {
		name, takes := p.Name, p.RequestRange()
		if takes.Max+1 < 0 {
			continue // every number is valid
		}
		var fault *api.Fault
		if err := c.SetGlobals(t.Context(), api.GlobalsChange{Values: map[string]int64{name: takes.Max + 1}}); !errors.As(err, &fault) || !strings.Contains(fault.Cause, takes.Check(takes.Max+1).Error()) ||
			strings.Contains(fault.Cause, "-9223372036854775808") {
			t.Errorf("%s %d: %v", name, takes.Max+1, err)
		}
	}
}

// refusedNumber reports whether a request was refused as invalid.
func refusedNumber(err error) bool {
	var fault *api.Fault
	return errors.As(err, &fault) && fault.Code == api.CodeRequestInvalid
}
