package config

import (
	"strings"
	"testing"
)

// If a document has a parameter in two spellings, the error names both, in any order.
func TestTwoSpellings(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"global", "global: {max_interfaces: 30, max_intf: 40}",
			"f:1:30: global.max_intf: occurs twice: as 'global.max_interfaces' in line 1, and as 'global.max_intf' in line 1"},
		{"the other way", "global:\n  max_intf: 40\n  max_interfaces: 30",
			"f:3:3: global.max_interfaces: occurs twice: as 'global.max_intf' in line 2, and as 'global.max_interfaces' in line 3"},
		{"at the top", "max_interfaces: 30\nmax_intf: 40", "f:2:1: max_intf: occurs twice: as 'max_interfaces' in line 1, and as 'max_intf' in line 2"},
		{"at the top and below", "max_intf: 30\nglobal: {max_intf: 40}", "occurs twice: as 'max_intf' in line 1, and as 'global.max_intf' in line 2"},
		{"every value", "discovery: 1\nglobal: {discovery: 0}", "occurs twice: as 'discovery' in line 1, and as 'global.discovery' in line 2"},
		{"numa", "numa: {range: 3}\nglobal: {numa_range: 4}", "occurs twice: as 'numa.range' in line 1, and as 'global.numa_range' in line 2"},
		{"documents", "global: {max_intf: 30}\n---\nmax_interfaces: 40", "occurs twice: as 'global.max_intf' in line 1, and as 'max_interfaces' in line 3"},
		{"net", "net:\n- net: tcp\n  net type: tcp1\n  interfaces: {0: v0}", "occurs twice: as 'net[0].net' in line 2, and as 'net[0].net type' in line 3"},
		{"interfaces", "net:\n- net: tcp\n  interfaces: {0: v0}\n  intf: v1", "f:4:3: net[0].intf: occurs twice: as 'net[0].interfaces' in line 3, and as 'net[0].intf' in line 4"},
		{"interfaces the other way", "net:\n- {net: tcp, intf: v0, interfaces: {0: v0}}", "occurs twice: as 'net[0].intf' in line 2, and as 'net[0].interfaces' in line 2"},
		{"interfaces beside a pattern", "net:\n- {net: tcp, intf: v0, pattern: 10.*.*.*, interfaces: {0: v1}}", "occurs twice: as 'net[0].intf' in line 2, and as 'net[0].interfaces' in line 2"},
		{"partitions", "net:\n- net: tcp\n  interfaces:\n  - intf: 'v0[0]'\n    CPT: '[1]'",
			"f:5:10: net[0].interfaces[0].CPT: occurs twice: the interface name also has CPU partitions, v0[0]; remove one of them"},
		{"udsp", "udsp:\n- idx: 0\n  src: tcp\n  priority: 1\n  action: {priority: 2}",
			"occurs twice: as 'udsp[0].priority' in line 4, and as 'udsp[0].action.priority' in line 5"},
		{"lnd_timeouts", "lnetd:\n  lnd_timeouts:\n  - {net: tcp, timeout: 4}\n  - {net: tcp0, timeout: 5}",
			"f:4:11: lnetd.lnd_timeouts[1].net: net tcp occurs twice; the first is in line 3; remove one of them"},
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
		want := "lnetd." + section + ": invalid key '" + section + "'; it must be at the start of a line, without spaces before it"
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
