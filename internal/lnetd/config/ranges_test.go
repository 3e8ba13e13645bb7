package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
)

// formAt returns the form of the value at a path of keys.
func formAt(t *testing.T, path string) form {
	t.Helper()
	var f form = sections(testDrivers)
	for key := range strings.SplitSeq(path, "/") {
		below := shapeOf(f)
		if below == nil || below.keys[key] == nil {
			t.Fatalf("%s: there is no key %q", path, key)
		}
		f = below.keys[key]
	}
	return f
}

// Documents accept the same numbers as commands and the interface, because a backup contains
// them.
func TestRangesAreThoseOfTheInterface(t *testing.T) {
	ranges := map[string]api.Range{
		"net/tunables/peer_timeout": api.PeerTimeoutRange, "net/tunables/peer_credits": api.CreditsRange,
		"net/tunables/peer_buffer_credits": api.CreditsRange, "net/tunables/credits": api.CreditsRange,
		"lnetd/lnd_timeouts/timeout": api.LNDTimeoutRange,
		"route/priority":             api.PriorityRange, "udsp/priority": api.PriorityRange, "udsp/action/priority": api.PriorityRange,
		"selection/priority": api.PriorityRange, "selection/id": api.RuleIDRange, "lnetd/selection/id": api.RuleIDRange,
	}
	for _, p := range parameterTable {
		ranges[p.Section+"/"+p.Name] = p.Range()
		if p.Section == parameters.Global {
			ranges[p.Name] = p.Range()
		}
		if p.OldName != "" {
			ranges["global/"+p.OldName] = p.Range()
		}
		if p.Name == "numa_range" {
			ranges["numa/range"] = p.Range()
		}
	}
	for path, want := range ranges {
		form := formAt(t, path)
		if several, ok := form.(either); ok {
			form = several[0] // the number; the others are words
		}
		kind, ok := form.(scalar)
		if got := fmt.Sprint(kind.kind); !ok || got != fmt.Sprint(wholeIn(want)) {
			t.Errorf("%s takes %s, want %v", path, got, want)
		}
	}
}

// Values at the ends of a range are accepted unchanged. Values beyond them are rejected.
func TestEndsOfRanges(t *testing.T) {
	type test struct {
		text  string // with %d
		takes api.Range
	}
	tests := []test{
		{"net: [{net type: tcp, interfaces: {0: v0}, tunables: {credits: %d}}]", api.CreditsRange},
		{"net: [{net type: tcp, interfaces: {0: v0}, tunables: {peer_timeout: %d}}]", api.PeerTimeoutRange},
		{"lnetd: {lnd_timeouts: [{net: tcp, timeout: %d}]}", api.LNDTimeoutRange},
		{"route: [{net: tcp1, gateway: 10.0.0.1@tcp, priority: %d}]", api.PriorityRange},
		{"route: [{net: tcp1, gateway: 10.0.0.1@tcp, hop: %d}]", api.HopsRange},
		{"udsp: [{idx: 0, src: tcp, priority: %d}]", api.PriorityRange},
		{"selection: [{type: net, net: tcp, priority: 0, id: %d}]", api.RuleIDRange},
	}
	for _, p := range parameterTable {
		if p.Section == parameters.Global && p.Live && p.Name != "retry_count" && p.Name != "transaction_timeout" {
			tests = append(tests, test{p.Name + ": %d\nretry_count: 0", p.Range()})
		}
	}
	for _, tt := range tests {
		for _, n := range []int64{tt.takes.Min, tt.takes.Max, tt.takes.Max + 1} {
			text := fmt.Sprintf(tt.text, n)
			if _, err := Parse("f", []byte(text), testDrivers); (err != nil) != (n > tt.takes.Max) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
