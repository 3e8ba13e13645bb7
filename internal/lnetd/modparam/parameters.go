package modparam

import (
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/internal/lnetd/drivers"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// A parameter is a module parameter that lnetd has.
type parameter struct {
	// section is the section of documents in which the parameter is set, one of sections.
	section, key string
	// read validates a value and returns it in the form that documents have. If it is nil, wholeNumber
	// is used.
	read func(value string) (string, error)
}

// modules holds the module parameters that lnetd has, by module and name (lnetctl 13.4).
var modules = func() map[string]map[string]parameter {
	all := map[string]map[string]parameter{"lnet": ofLNet(), "lnet_selftest": ofSelftest()}
	for _, table := range drivers.Tables() {
		for _, t := range table.Tunables {
			if t.Module == "" {
				continue
			}
			if all[t.Module] == nil {
				all[t.Module] = map[string]parameter{}
			}
			p := parameter{section: sectionOf(&table), key: t.Parameter}
			if t.Kind == lnd.Bool && t.Max == 1 {
				p.read = truth
			}
			all[t.Module][t.Parameter] = p
		}
	}
	return all
}()

func ofLNet() map[string]parameter {
	all := map[string]parameter{
		"tiny_router_buffers":  {"buffers", "tiny", pool},
		"small_router_buffers": {"buffers", "small", pool},
		"large_router_buffers": {"buffers", "large", pool},

		"networks": {"lnetd", "networks", checked(lnet.ParseNetworks)},
		"ip2nets":  {"lnetd", "ip2nets", checked(lnet.ParseIP2Nets)},
		"routes":   {"lnetd", "routes", checked(lnet.ParseRoutes)},

		"accept":      {"lnetd", "accept", word("secure", "all", "none")},
		"accept_port": {section: "lnetd", key: "port"},
		"forwarding":  {"lnetd", "forwarding", word("enabled", "disabled")},
	}
	for _, p := range parameters.Table() {
		if p.Module == "" {
			continue
		}
		one := parameter{section: p.Section, key: p.Name}
		switch {
		case p.Inverted:
			one.read = not
		case p.Kind == lnd.Bool:
			one.read = truth
		}
		all[p.Module] = one
	}
	return all
}

// useless holds, by module, the names of parameters that lnetd does not use.
var useless = func() map[string][]string {
	all := map[string][]string{
		"lnet": {"config_on_load", "local_nid_dist_zero", "lock_prim_nid", "portal_rotor", "rnet_htable_size", "use_tcp_bonding"},
	}
	for _, table := range drivers.Tables() {
		all[table.Module] = table.Unused
	}
	return all
}()

// lustre holds other modules of Lustre whose settings lnetd ignores with a warning. The value is what the
// operator can do instead; it may be empty.
var lustre = map[string]string{
	"kgnilnd": "", "kkfilnd": "", "libcfs": "",
	// An alias for nodes with Omni-Path hardware, in a file that Lustre installs everywhere.
	"ko2iblnd_opa": "for nets of type o2ib, write 'options ko2iblnd ...'",
}

func ofSelftest() map[string]parameter {
	all := map[string]parameter{}
	for _, name := range []string{
		"brw_inject_errors", "brw_srv_workitems", "ping_srv_workitems", "rpc_timeout", "session_timeout",
	} {
		all[name] = parameter{section: "lnetd/selftest", key: name}
	}
	return all
}
