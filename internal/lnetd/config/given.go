package config

import "github.com/lnetd/lnetd/lnet"

// Given records which settings a file contains. This is not visible in a Config, in which a setting that
// the file omits has its default. When the file is added to the configuration of a running node, such a
// setting does not change.
type Given struct {
	// Any reports whether the file contains anything but comments.
	Any bool
	// Globals holds the keys of "global", including those that the file has at the top level.
	Globals map[string]bool
	// Lnetd holds the keys of the section "lnetd", including those of drivers.
	Lnetd map[string]bool
	// Around holds the values of those keys of the section "lnetd" that configure lnetd itself
	// instead of the node, by key.
	Around map[string]any
	// Drivers holds the driver keys in the section "lnetd", by net type.
	Drivers map[lnet.NetType]map[string]bool
	// Buffers holds the keys of "buffers".
	Buffers map[string]bool
	// Routing reports whether "routing" has a value.
	Routing bool
	// Networks reports whether the command line names the NIs. In this case those of files are
	// ignored.
	Networks bool
	// CommandLine holds the settings of the command line, which override the file.
	CommandLine Override
	// RuleIDs holds the IDs in Config.TypedRules that come from the file. Other IDs were assigned
	// when the file was read.
	RuleIDs map[int]bool
	// RuleWhere holds the positions of Config.TypedRules in the file, by ID.
	RuleWhere map[int]string
	// Indexes holds the "idx" of each of Config.Rules, in the same order.
	Indexes []int
}

// settings returns a Given that records which settings f contains. The argument indexes becomes
// Given.Indexes.
func (f *file) settings(indexes []int) Given {
	g := Given{
		Any: f.any, Globals: keys(f.globals), Lnetd: keys(f.lnetd.options), Buffers: keys(f.buffers),
		Routing: len(f.routing) > 0, Indexes: indexes, Drivers: f.lnetd.driverKeys, Around: f.lnetd.given,
	}
	for section, keys := range map[string]map[string]place{
		"selftest": f.lnetd.selftest, "transport": f.lnetd.transport, "proxies": f.lnetd.proxies, "metrics": f.lnetd.metrics,
	} {
		if len(keys) == 0 {
			continue
		}
		if g.Lnetd == nil {
			g.Lnetd = map[string]bool{}
		}
		g.Lnetd[section] = true
	}
	return g
}

// keys returns the set of keys of m, or nil if m is empty.
func keys[M ~map[string]V, V any](m M) map[string]bool {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]bool, len(m))
	for k := range m {
		out[k] = true
	}
	return out
}
