package config

import (
	"strings"
	"testing"
)

// If a document has a parameter in two spellings, the error names both, in any order.
func TestTwoSpellings(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"global", "global: {max_interfaces: 30, max_intf: 40}",
			"f:1:30: global.max_intf: stands twice: line 1 has it as 'global.max_interfaces', and line 1 as 'global.max_intf'"},
		{"the other way", "global:\n  max_intf: 40\n  max_interfaces: 30",
			"f:3:3: global.max_interfaces: stands twice: line 2 has it as 'global.max_intf', and line 3 as 'global.max_interfaces'"},
		{"at the top", "max_interfaces: 30\nmax_intf: 40", "f:2:1: max_intf: stands twice: line 1 has it as 'max_interfaces', and line 2 as 'max_intf'"},
		{"at the top and below", "max_intf: 30\nglobal: {max_intf: 40}", "line 1 has it as 'max_intf', and line 2 as 'global.max_intf'"},
		{"every value", "discovery: 1\nglobal: {discovery: 0}", "line 1 has it as 'discovery', and line 2 as 'global.discovery'"},
		{"numa", "numa: {range: 3}\nglobal: {numa_range: 4}", "line 1 has it as 'numa.range', and line 2 as 'global.numa_range'"},
		{"documents", "global: {max_intf: 30}\n---\nmax_interfaces: 40", "line 1 has it as 'global.max_intf', and line 3 as 'max_interfaces'"},
		{"net", "net:\n- net: tcp\n  net type: tcp1\n  interfaces: {0: v0}", "line 2 has it as 'net[0].net', and line 3 as 'net[0].net type'"},
		{"interfaces", "net:\n- net: tcp\n  interfaces: {0: v0}\n  intf: v1", "f:4:3: net[0].intf: stands twice: line 3 has it as 'net[0].interfaces', and line 4 as 'net[0].intf'"},
		{"interfaces the other way", "net:\n- {net: tcp, intf: v0, interfaces: {0: v0}}", "line 2 has it as 'net[0].intf', and line 2 as 'net[0].interfaces'"},
		{"interfaces beside a pattern", "net:\n- {net: tcp, intf: v0, pattern: 10.*.*.*, interfaces: {0: v1}}", "line 2 has it as 'net[0].intf', and line 2 as 'net[0].interfaces'"},
		{"partitions", "net:\n- net: tcp\n  interfaces:\n  - intf: 'v0[0]'\n    CPT: '[1]'",
			"f:5:10: net[0].interfaces[0].CPT: stands twice: the name of the interface has CPU partitions too, v0[0]; leave one of the two out"},
		{"udsp", "udsp:\n- idx: 0\n  src: tcp\n  priority: 1\n  action: {priority: 2}",
			"line 4 has it as 'udsp[0].priority', and line 5 as 'udsp[0].action.priority'"},
		{"lnd_timeouts", "lnetd:\n  lnd_timeouts:\n  - {net: tcp, timeout: 4}\n  - {net: tcp0, timeout: 5}",
			"f:4:11: lnetd.lnd_timeouts[1].net: the net tcp stands twice: line 3 has it already; leave one of the two out"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse("f", []byte(tt.text), testDrivers); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// A section found in "lnetd" belongs at the top.
func TestSectionsBelowLnetd(t *testing.T) {
	for _, section := range []string{"net", "peer", "peers", "route", "udsp", "routing", "buffers", "numa", "global"} {
		want := "lnetd." + section + ": invalid key '" + section + "'; it belongs at the beginning of a line, without blanks before it"
		if _, err := Parse("f", []byte("lnetd: {"+section+": []}"), testDrivers); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A value may occur with one spelling in several sections. The last one is used.
func TestOneSpellingInSeveralSections(t *testing.T) {
	if c := mustParse(t, "global: {max_intf: 30}\nglobal: {max_intf: 40}"); c.Parameters.InterfacesMax != 40 {
		t.Errorf("max_interfaces %d, want 40", c.Parameters.InterfacesMax)
	}
}
