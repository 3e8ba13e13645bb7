package server_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/node"
)

// initial returns the parameters of a new node.
func initial() api.Globals {
	values := map[string]int64{}
	for _, p := range parameters.Shown() {
		values[p.Name] = p.Default
	}
	return api.Globals{Values: values}
}

func TestGlobals(t *testing.T) {
	for _, want := range []api.Globals{initial(), {Values: initial().Values, Verify: true}} {
		c, _ := serve(t, &controltest.Daemon{Values: want})
		got, err := c.Globals(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
}

// The parameters and their order are those of lnetctl.
func TestShownParameters(t *testing.T) {
	names := func(list []parameters.Parameter) (names []string) {
		for _, p := range list {
			names = append(names, p.Name)
		}
		return names
	}
	shown := "numa_range max_interfaces discovery drop_asym_route retry_count transaction_timeout health_sensitivity " +
		"recovery_interval router_sensitivity lnd_timeout response_tracking recovery_limit max_recovery_ping_interval"
	if diff := cmp.Diff(strings.Fields(shown), names(parameters.Shown())); diff != "" {
		t.Error(diff)
	}
	settable := strings.Fields(strings.Replace(shown, "lnd_timeout ", "", 1))
	if diff := cmp.Diff(settable, names(parameters.Settable())); diff != "" {
		t.Error(diff)
	}
}

// lnetctl 6 (1)
func TestSetGlobals(t *testing.T) {
	cannot := func(words string) string { return "cannot configure " + words + ": Invalid argument" }
	tests := []struct {
		name  string
		value int64
		want  int64 // what is in force then
		errno syscall.Errno
		text  string
	}{
		{"numa_range", 10, 10, 0, ""},
		{"numa_range", -1, 0, syscall.ENODATA, cannot("numa range")},
		{"max_interfaces", 16, 16, 0, ""},
		{"max_interfaces", 15, 4096, 0, ""},
		{"discovery", 0, 0, 0, ""},
		{"discovery", 2, 1, 0, ""},
		{"drop_asym_route", -5, 1, 0, ""},
		{"retry_count", 99, 99, 0, ""},
		{"retry_count", 150, 2, syscall.ENODATA, cannot("retry count")},
		{"retry_count", -1, 2, syscall.ENODATA, cannot("retry count")},
		{"transaction_timeout", 10, 10, 0, ""},
		{"transaction_timeout", 2, 150, syscall.ENODATA, cannot("transaction timeout")},
		{"transaction_timeout", 0, 150, syscall.ENODATA, cannot("transaction timeout")},
		{"health_sensitivity", 1000, 1000, 0, ""},
		{"health_sensitivity", 1001, 100, syscall.ENODATA, cannot("health sensitivity")},
		{"recovery_interval", -77, 1, 0, ""},
		{"router_sensitivity", 0, 0, 0, ""},
		{"router_sensitivity", 101, 100, syscall.ENODATA, cannot("router sensitivity")},
		{"response_tracking", 0, 0, 0, ""},
		{"response_tracking", 4, 3, syscall.EINVAL, "Valid values are: 0, 1, 2, or 3"},
		{"response_tracking", -1, 3, syscall.EINVAL, "Valid values are: 0, 1, 2, or 3"},
		{"recovery_limit", 0, 0, 0, ""},
		{"recovery_limit", -1, 0, syscall.EINVAL, "Must be greater than or equal to 0"},
		{"max_recovery_ping_interval", 1, 1, 0, ""},
		{"max_recovery_ping_interval", 0, 900, syscall.EINVAL, "must be strictly positive"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.name, " ", tt.value), func(t *testing.T) {
			c, _ := serve(t, &controltest.Daemon{Values: initial()})
			err := c.SetGlobals(t.Context(), api.GlobalsChange{Values: map[string]int64{tt.name: tt.value}})
			if tt.errno != 0 {
				wantFault(t, err, api.CodeParameterInvalid, tt.errno, tt.text)
			} else if err != nil {
				t.Error(err)
			}
			g, err := c.Globals(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if v := g.Values[tt.name]; v != tt.want {
				t.Errorf("%d is in force, want %d", v, tt.want)
			}
		})
	}
}

// TestSetGlobalsTogether checks that values that depend on each other are validated together, and that
// none is set if one is invalid.
//
// lnetctl 6 (2), 7 (3)
func TestSetGlobalsTogether(t *testing.T) {
	d := &controltest.Daemon{Values: initial()}
	c, _ := serve(t, d)
	set := func(values map[string]int64) error {
		return c.SetGlobals(t.Context(), api.GlobalsChange{Values: values})
	}
	if err := set(map[string]int64{"retry_count": 200, "transaction_timeout": 300}); err != nil {
		t.Error(err)
	}
	before := d.Values
	if err := set(map[string]int64{"retry_count": 1, "response_tracking": 4}); err == nil || !cmp.Equal(d.Values, before) {
		t.Error(err, d.Values)
	}
	wantFault(t, c.SetGlobals(t.Context(), api.GlobalsChange{}), api.CodeRequestInvalid, syscall.EINVAL, "no parameter was given")
	for _, name := range []string{"lnd_timeout", "frob", "peer_nis_max"} {
		wantFault(t, set(map[string]int64{"retry_count": 1, name: 1}), api.CodeRequestInvalid, syscall.EINVAL,
			fmt.Sprintf("no parameter named %q can be set", name))
	}
	if !cmp.Equal(d.Values, before) {
		t.Error(d.Values)
	}
}

// lnetctl 4.14 (1)
func TestStats(t *testing.T) {
	d := &controltest.Daemon{Totals: api.Counters(node.Counters{Committed: 1, Sent: 5, DroppedBytes: 9}),
		Drops: []api.Reason{{Reason: "no_match", Count: 3}}, Refusals: []api.Reason{{Reason: "bad_magic", Count: 400}}}
	c, _ := serve(t, d)
	got, err := c.Stats(t.Context())
	if diff := cmp.Diff(d.Stats(), got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if err := c.ResetStats(t.Context()); err != nil || !cmp.Equal(d.Stats(), api.Stats{}) {
		t.Error(err, d.Totals)
	}
}
