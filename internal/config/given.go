package config

import "github.com/lnetd/lnetd/lnet"

// Given says what a file speaks of, beside what it says: what it leaves out has its default
// in a Config, and stays as it is when the file is put over a node that runs.
type Given struct {
	// Any tells whether there is anything in the file but comments.
	Any bool
	// Globals are the keys of "global", also those that stand at the top.
	Globals map[string]bool
	// Lnetd are the keys of the section "lnetd", with those of drivers.
	Lnetd map[string]bool
	// Around is what the section lnetd says around the node, by keys.
	Around map[string]any
	// Drivers are the keys of drivers in the section lnetd, by the type of their nets.
	Drivers map[lnet.NetType]map[string]bool
	// Buffers are the keys of "buffers".
	Buffers map[string]bool
	// Routing tells whether "routing" says anything.
	Routing bool
	// Networks tells whether the command line names the NIs, which holds over any file.
	Networks bool
	// CommandLine is what the command line says over the file.
	CommandLine Override
	// RuleIDs are the IDs that Config.TypedRules have in the file. Others were assigned when it
	// was read.
	RuleIDs map[int]bool
	// RuleWhere are the places of Config.TypedRules in the file, by their IDs.
	RuleWhere map[int]string
	// Indexes are the "idx" of Config.Rules, in their order.
	Indexes []int
}

// given is what f speaks of.
func (f *file) given(indexes []int) Given {
	g := Given{
		Any: f.any, Globals: keys(f.globals), Lnetd: keys(f.lnetd.own), Buffers: keys(f.buffers),
		Routing: len(f.routing) > 0, Indexes: indexes, Drivers: f.lnetd.driverKeys, Around: f.lnetd.written,
	}
	for section, keys := range map[string]map[string]place{
		"selftest": f.lnetd.selftest, "transport": f.lnetd.transport, "metrics": f.lnetd.metrics,
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

// keys are those of m; nil: there are none.
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
