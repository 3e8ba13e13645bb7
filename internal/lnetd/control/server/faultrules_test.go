package server_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
)

func TestFaultRules(t *testing.T) {
	d := &controltest.Daemon{}
	c, _ := serve(t, d)
	drop := api.FaultRule{
		Kind: "drop", Source: "*@tcp", Dest: "10.0.0.1@tcp", Local: "10.0.0.1@tcp", Portals: []int{0, 63},
		Messages: []string{"PUT"}, Rate: 1, Statuses: nil, Random: true,
	}
	failing := api.FaultRule{
		Kind: "drop", Source: "*", Dest: "*", Interval: 3, Statuses: []string{"local_dropped", "NETWORK_TIMEOUT"}, DropAll: true,
	}
	delay := api.FaultRule{Kind: "delay", Source: "*", Dest: "*@tcp1", Rate: 4, Latency: 2}
	for _, r := range []api.FaultRule{drop, failing, delay} {
		if err := c.AddFault(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	// The newest rule, which matches all messages, comes first.
	if !d.Arrive(fault.Message{Source: nid("10.0.0.9@tcp"), Dest: nid("10.0.0.1@tcp"), Type: lnet.MsgPut}) {
		t.Error("not dropped")
	}
	drop.Counts, delay.Counts = &api.FaultCounts{}, &api.FaultCounts{}
	drop.Messages = []string{"put"}
	failing.Statuses = []string{"local_dropped", "network_timeout"}
	failing.Counts = &api.FaultCounts{Matched: 1, Hits: 1, Put: 1}
	check := func(kind string, want ...api.FaultRule) {
		t.Helper()
		got, err := c.Faults(t.Context(), kind)
		if diff := cmp.Diff(append([]api.FaultRule{}, want...), got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
	check("drop", failing, drop)
	check("delay", delay)
	if err := c.ResetFaults(t.Context()); err != nil {
		t.Error(err)
	}
	failing.Counts = &api.FaultCounts{}
	check("drop", failing, drop)

	err := c.DeleteFaults(t.Context(), api.FaultDeletion{Kind: "drop", Source: "10.0.0.7@tcp", Dest: "*"})
	wantFault(t, err, api.CodeRuleUnknown, syscall.ENOENT, "failed to delete drop rule: No such file or directory")
	if err := c.DeleteFaults(t.Context(), api.FaultDeletion{Kind: "drop", Source: "*@tcp", Dest: "10.0.0.1@tcp"}); err != nil {
		t.Error(err)
	}
	check("drop", failing)
	if err := c.DeleteFaults(t.Context(), api.FaultDeletion{Kind: "delay", All: true}); err != nil {
		t.Error(err)
	}
	check("delay")
}

// lnetctl 15 (1)
func TestBadFaultRules(t *testing.T) {
	c, _ := serve(t, &controltest.Daemon{})
	good := api.FaultRule{Kind: "drop", Source: "*", Dest: "*", Rate: 1}
	for name, spoil := range map[string]func(r *api.FaultRule){
		"kind":             func(r *api.FaultRule) { r.Kind = "lose" },
		"no source":        func(r *api.FaultRule) { r.Source = "" },
		"source":           func(r *api.FaultRule) { r.Source = "x@" },
		"dest":             func(r *api.FaultRule) { r.Dest = "x@" },
		"local":            func(r *api.FaultRule) { r.Local = "x@" },
		"portal":           func(r *api.FaultRule) { r.Portals = []int{64} },
		"negative portal":  func(r *api.FaultRule) { r.Portals = []int{-1} },
		"message":          func(r *api.FaultRule) { r.Messages = []string{"hello"} },
		"portal of acks":   func(r *api.FaultRule) { r.Messages, r.Portals = []string{"ack"}, []int{1} },
		"status":           func(r *api.FaultRule) { r.Statuses = []string{"ok"} },
		"neither":          func(r *api.FaultRule) { r.Rate = 0 },
		"both":             func(r *api.FaultRule) { r.Interval = 1 },
		"interval":         func(r *api.FaultRule) { r.Rate, r.Interval = 0, -1 },
		"endless interval": func(r *api.FaultRule) { r.Rate, r.Interval = 0, 1<<40 },
		"latency of drop":  func(r *api.FaultRule) { r.Latency = 1 },
		"no latency":       func(r *api.FaultRule) { r.Kind = "delay" },
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			spoil(&r)
			err := c.AddFault(t.Context(), r)
			if f := api.FaultOf(err); f.Errno != -22 || !strings.HasPrefix(f.Text, "failed to add "+r.Kind+" rule: ") {
				t.Errorf("%v", err)
			}
		})
	}
	for _, r := range []api.FaultDeletion{
		{Kind: "x", All: true}, {Kind: "drop"}, {Kind: "drop", Source: "*"}, {Kind: "drop", Source: "*", Dest: "*", All: true},
		{Kind: "drop", Source: "x@", Dest: "*"}, {Kind: "drop", Source: "*", Dest: "x@"},
	} {
		if f := api.FaultOf(c.DeleteFaults(t.Context(), r)); f.Errno != -22 {
			t.Errorf("%+v: %v", r, f)
		}
	}
	_, err := c.Faults(t.Context(), "")
	wantFault(t, err, api.CodeRequestInvalid, syscall.EINVAL, `kind "" of a fault rule is neither drop nor delay`)
}
