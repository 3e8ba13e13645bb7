package control_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/control"
	"github.com/lnetd/lnetd/internal/control/controltest"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
)

func TestFaultRules(t *testing.T) {
	d := &controltest.Daemon{}
	c, _ := serve(t, d)
	drop := control.FaultRule{
		Kind: "drop", Source: "*@tcp", Dest: "10.0.0.1@tcp", Local: "10.0.0.1@tcp", Portals: []int{0, 63},
		Messages: []string{"PUT"}, Rate: 1, Statuses: nil, Random: true,
	}
	failing := control.FaultRule{
		Kind: "drop", Source: "*", Dest: "*", Interval: 3, Statuses: []string{"local_dropped", "NETWORK_TIMEOUT"}, DropAll: true,
	}
	delay := control.FaultRule{Kind: "delay", Source: "*", Dest: "*@tcp1", Rate: 4, Latency: 2}
	for _, r := range []control.FaultRule{drop, failing, delay} {
		if err := c.AddFault(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	// The newest, which hits all that arrives, comes first.
	if !d.Arrive(fault.Message{Source: nid("10.0.0.9@tcp"), Dest: nid("10.0.0.1@tcp"), Type: lnet.MsgPut}) {
		t.Error("not dropped")
	}
	drop.Counts, delay.Counts = &control.FaultCounts{}, &control.FaultCounts{}
	drop.Messages = []string{"put"}
	failing.Statuses = []string{"local_dropped", "network_timeout"}
	failing.Counts = &control.FaultCounts{Matched: 1, Hits: 1, Put: 1}
	check := func(kind string, want ...control.FaultRule) {
		t.Helper()
		got, err := c.Faults(t.Context(), kind)
		if diff := cmp.Diff(append([]control.FaultRule{}, want...), got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
	check("drop", failing, drop)
	check("delay", delay)
	if err := c.ResetFaults(t.Context()); err != nil {
		t.Error(err)
	}
	failing.Counts = &control.FaultCounts{}
	check("drop", failing, drop)

	err := c.DeleteFaults(t.Context(), control.FaultDeletion{Kind: "drop", Source: "10.0.0.7@tcp", Dest: "*"})
	wantFault(t, err, control.CodeRuleUnknown, syscall.ENOENT, "failed to delete drop rule: No such file or directory")
	if err := c.DeleteFaults(t.Context(), control.FaultDeletion{Kind: "drop", Source: "*@tcp", Dest: "10.0.0.1@tcp"}); err != nil {
		t.Error(err)
	}
	check("drop", failing)
	if err := c.DeleteFaults(t.Context(), control.FaultDeletion{Kind: "delay", All: true}); err != nil {
		t.Error(err)
	}
	check("delay")
}

// lnetctl 15 (1)
func TestBadFaultRules(t *testing.T) {
	c, _ := serve(t, &controltest.Daemon{})
	good := control.FaultRule{Kind: "drop", Source: "*", Dest: "*", Rate: 1}
	for name, spoil := range map[string]func(r *control.FaultRule){
		"kind":             func(r *control.FaultRule) { r.Kind = "lose" },
		"no source":        func(r *control.FaultRule) { r.Source = "" },
		"source":           func(r *control.FaultRule) { r.Source = "x@" },
		"dest":             func(r *control.FaultRule) { r.Dest = "x@" },
		"local":            func(r *control.FaultRule) { r.Local = "x@" },
		"portal":           func(r *control.FaultRule) { r.Portals = []int{64} },
		"negative portal":  func(r *control.FaultRule) { r.Portals = []int{-1} },
		"message":          func(r *control.FaultRule) { r.Messages = []string{"hello"} },
		"portal of acks":   func(r *control.FaultRule) { r.Messages, r.Portals = []string{"ack"}, []int{1} },
		"status":           func(r *control.FaultRule) { r.Statuses = []string{"ok"} },
		"neither":          func(r *control.FaultRule) { r.Rate = 0 },
		"both":             func(r *control.FaultRule) { r.Interval = 1 },
		"interval":         func(r *control.FaultRule) { r.Rate, r.Interval = 0, -1 },
		"endless interval": func(r *control.FaultRule) { r.Rate, r.Interval = 0, 1<<40 },
		"latency of drop":  func(r *control.FaultRule) { r.Latency = 1 },
		"no latency":       func(r *control.FaultRule) { r.Kind = "delay" },
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			spoil(&r)
			err := c.AddFault(t.Context(), r)
			if f := control.FaultOf(err); f.Errno != -22 || !strings.HasPrefix(f.Text, "failed to add "+r.Kind+" rule: ") {
				t.Errorf("%v", err)
			}
		})
	}
	for _, r := range []control.FaultDeletion{
		{Kind: "x", All: true}, {Kind: "drop"}, {Kind: "drop", Source: "*"}, {Kind: "drop", Source: "*", Dest: "*", All: true},
		{Kind: "drop", Source: "x@", Dest: "*"}, {Kind: "drop", Source: "*", Dest: "x@"},
	} {
		if f := control.FaultOf(c.DeleteFaults(t.Context(), r)); f.Errno != -22 {
			t.Errorf("%+v: %v", r, f)
		}
	}
	_, err := c.Faults(t.Context(), "")
	wantFault(t, err, control.CodeRequestInvalid, syscall.EINVAL, `kind "" of a fault rule is not drop or delay`)
}
