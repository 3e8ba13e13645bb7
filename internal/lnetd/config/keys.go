package config

import (
	"maps"
	"math"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// This file has the keys of a document and the values that each accepts (lnetctl 9, 10, 11). It also
// has the keys that describe state in exports (lnetctl 5, 7.7).

// niStatus holds the keys that describe the state of an NI in exports.
var niStatus = []string{
	"status", "statistics", "sent_stats", "received_stats", "dropped_stats", "health stats", "dev cpt", "udsp info", "refs",
	"tx_q_num_of_buf", "available_tx_credits", "min_tx_credits", seqNoKey, "detail",
	"tcp bonding", // in releases up to 2.12
}

// peerStatus holds the keys that describe the state of a peer or one of its NIDs in exports.
var peerStatus = []string{
	"peer state", "state", "udsp info", "max_ni_tx_credits", "available_tx_credits", "min_tx_credits", "tx_q_num_of_buf",
	"available_rtr_credits", "min_rtr_credits", "refcount", "statistics", "sent_stats", "received_stats", "dropped_stats",
	"health stats", seqNoKey, "detail",
	"send_count", "recv_count", "drop_count", // in releases up to 2.10
}

// otherTunables holds, by net type, the "lnd tunables" that kernels show (lnetctl 5.1 item 8, 9.1) but
// the drivers of lnetd do not have. They are accepted and have no effect.
var otherTunables = map[lnet.NetType][]string{
	lnet.TypeO2IB: {"peer_credits_hiw"},
	lnet.TypeGNI:  {"timeout"},
	lnet.TypeKFI:  {"prov_major_version", "prov_minor_version", "auth_key", "traffic_class", "timeout"},
}

var (
	commonTunables = map[string]form{
		"peer_timeout": scalar{wholeIn(api.PeerTimeoutRange)}, "peer_credits": credits, "peer_buffer_credits": credits, "credits": credits,
	}
	credits = scalar{wholeIn(api.CreditsRange)}
	cptForm = either{scalar{cptText}, list{scalar{cptText}}}

	interfaceForm = either{scalar{deviceText}, &shape{
		key: "interfaces", stateKeys: []string{"detail"}, needed: [][]string{{"intf"}},
		keys: map[string]form{"intf": scalar{deviceText}, "CPT": cptForm},
	}}
	peerNIShape = &shape{
		key: "peer ni", stateKeys: peerStatus, needed: [][]string{{"nid"}}, keys: map[string]form{"nid": scalar{nidText}},
	}
	routingShape = &shape{key: "routing", stateKeys: []string{"cpt[]", seqNoKey}, keys: map[string]form{
		"enable": scalar{Whole{exportedDisabled, exportedLast}},
	}}
	selectionForm = list{&shape{
		key: "selection", needed: [][]string{{"type"}, {"priority"}}, stateKeys: []string{seqNoKey},
		keys: map[string]form{
			"id": scalar{wholeIn(api.RuleIDRange)}, "type": scalar{ruleTypeWords}, "net": scalar{patternText}, "nid": scalar{patternText},
			"local": scalar{patternText}, "remote": scalar{patternText}, "priority": priority,
		},
	}}
	hopForm = either{ // -1, also in its unsigned form, means no hop count
		scalar{wholeIn(api.HopsRange)}, scalar{Whole{-1, -1}}, scalar{Whole{math.MaxUint32, math.MaxUint32}},
	}
	index    = scalar{Whole{0, ruleIndexMax}}
	priority = scalar{wholeIn(api.PriorityRange)}
)

// niKeys returns the forms of the keys that an NI has.
func niKeys(drivers []DriverOptions) map[string]form {
	return map[string]form{
		"interfaces": numbered{interfaceForm}, "nid": scalar{nidText}, "tunables": commonTunablesOf(drivers),
		"lnd tunables": tunablesOf(drivers), "CPT": cptForm, "proxy": scalar{proxyText},
	}
}

// netShape returns the form of an item of "net".
func netShape(drivers []DriverOptions) *shape {
	keys := niKeys(drivers)
	keys["local NI(s)"] = list{&shape{
		key: "local NI(s)", keys: niKeys(drivers), stateKeys: niStatus, needed: [][]string{{"interfaces", "nid"}},
	}}
	keys["net type"], keys["net"] = scalar{netText}, scalar{netText}
	keys["intf"], keys["pattern"] = scalar{deviceText}, scalar{rangeText}
	return &shape{key: "net", keys: keys, remedies: map[string]string{"ip-range": "it is only valid in 'ip2nets'"}, stateKeys: niStatus, needed: [][]string{{"net type", "net"}}}
}

// netRuleShape returns the form of an item of "ip2nets".
func netRuleShape(drivers []DriverOptions) *shape {
	keys := niKeys(drivers)
	delete(keys, "nid")
	keys["net-spec"] = scalar{netText}
	keys["ip-range"] = numbered{scalar{rangeText}}
	return &shape{key: "ip2nets", keys: keys, remedies: map[string]string{
		"local NI(s)": "it is only valid in 'net': write the keys of the interface next to 'net-spec'",
	}, stateKeys: []string{seqNoKey}, needed: [][]string{{"net-spec"}}}
}

// sections returns the form of a whole document. The keys are its sections.
func sections(drivers []DriverOptions) *shape {
	keys := map[string]form{
		"net":     list{netShape(drivers)},
		"ip2nets": list{netRuleShape(drivers)},
		"route": list{&shape{
			key: "route", stateKeys: []string{"state", "type", "health_sensitivity", seqNoKey, "detail"},
			needed: [][]string{{"net"}, {"gateway"}},
			keys: map[string]form{
				"net": scalar{netText}, "gateway": scalar{nidText}, "hop": hopForm, "priority": priority,
			},
		}},
		"peer": list{&shape{
			key: "peer", stateKeys: peerStatus, needed: [][]string{{"primary nid"}},
			keys: map[string]form{"primary nid": scalar{nidText}, "Multi-Rail": scalar{Boolean{}}, "peer ni": list{peerNIShape}},
		}},
		"peers": list{&shape{
			key: "peers", stateKeys: []string{seqNoKey, "detail"}, needed: [][]string{{"nids"}}, numbers: "nids",
			keys: map[string]form{"nids": numbered{scalar{nidText}}},
		}},
		"udsp": list{&shape{
			key: "udsp", stateKeys: []string{seqNoKey}, needed: [][]string{{"idx"}},
			keys: map[string]form{
				"idx": index, "src": scalar{patternText}, "dst": scalar{patternText}, "rte": scalar{patternText},
				"priority": priority, "action": &shape{key: "action", keys: map[string]form{"priority": priority}},
			},
		}},
		"selection": selectionForm,
		"routing":   either{routingShape, list{routingShape}},
		"buffers": &shape{key: "buffers", stateKeys: []string{seqNoKey}, keys: map[string]form{
			"tiny": buffers, "small": buffers, "large": buffers,
		}, remedies: map[string]string{
			"tiny_buffers": "write 'tiny' here", "small_buffers": "write 'small' here", "large_buffers": "write 'large' here",
		}},
		"numa":       &shape{key: "numa", stateKeys: []string{seqNoKey, "cpts"}, keys: map[string]form{"range": globalKeys["numa_range"].form}},
		"global":     &shape{key: "global", stateKeys: []string{seqNoKey}, keys: formsOf(globalKeys)},
		"lnetd":      lnetdShape(drivers),
		"statistics": state{}, // state in older exports

		"use_tcp_bonding": state{}, // has no effect (lnetctl 11)
	}
	for key, s := range globalKeys { // the older form
		keys[key] = s.form
	}
	return &shape{keys: keys, remedies: map[string]string{"ping": onlyExec, "discover": onlyExec}}
}

const onlyExec = "it is only valid for 'import --exec'"

var buffers = scalar{Whole{-1, node.BuffersMax}}

// tunablesOf returns the form of "lnd tunables" for an NI whose net is not known yet. It has the options
// of all drivers. The keys are checked later, against tunablesFor.
func tunablesOf(drivers []DriverOptions) form {
	s := &shape{key: "lnd tunables", keys: map[string]form{}, stateKeys: allTunables(drivers)}
	for k := range drivers {
		for _, o := range drivers[k].tunables() {
			s.keys[o.Name] = scalar{o.Kind}
		}
	}
	return uncheckedMapping{s}
}

// commonTunablesOf returns the form of "tunables" for an NI whose net is not known yet. It permits the
// LND tunables too, because exports of Lustre 2.9 and 2.10 have them there. The keys are checked later,
// against directTunablesFor.
func commonTunablesOf(drivers []DriverOptions) form {
	return uncheckedMapping{&shape{key: "tunables", keys: commonTunables, stateKeys: append([]string{seqNoKey}, allTunables(drivers)...)}}
}

// allTunables returns the names of the LND tunables of all net types.
func allTunables(drivers []DriverOptions) (all []string) {
	for _, names := range otherTunables {
		all = append(all, names...)
	}
	for k := range drivers {
		for _, t := range drivers[k].Tunables {
			if t.Name != "" {
				all = append(all, t.Name)
			}
		}
	}
	return all
}

// uncheckedMapping is the form of a mapping whose keys its check method does not check, because the code
// that reads it does so.
type uncheckedMapping struct{ *shape }

func (uncheckedMapping) check(place, []*shape) {}

// directTunablesFor returns the form of "tunables" for an NI on a net of type t. It includes the LND
// tunables, which are the given options.
func directTunablesFor(t lnet.NetType, options []Option) *shape {
	s := tunablesFor(t, options)
	maps.Copy(s.keys, commonTunables)
	s.key, s.stateKeys = "tunables", append([]string{seqNoKey}, s.stateKeys...)
	return s
}

// tunablesFor returns the form of "lnd tunables" for an NI on a net of type t, whose driver has the
// given options.
func tunablesFor(t lnet.NetType, options []Option) *shape {
	s := &shape{key: "lnd tunables", keys: map[string]form{}, stateKeys: otherTunables[t]}
	for _, o := range options {
		s.keys[o.Name] = scalar{o.Kind}
	}
	return s
}

// lnetdShape returns the form of the section "lnetd".
func lnetdShape(drivers []DriverOptions) *shape {
	keys := formsOf(lnetdKeys)
	for key := range moduleStrings {
		keys[key] = scalar{Text{"LNet's module parameter of this name", moduleExamples[key]}}
	}
	keys["selection"] = selectionForm
	keys["selftest"] = &shape{key: "selftest", keys: formsOf(selftestKeys), lnetdOnly: true}
	keys["transport"] = &shape{key: "transport", keys: formsOf(transportKeys), lnetdOnly: true}
	keys["proxies"] = &shape{key: "proxies", keys: formsOf(proxiesKeys), lnetdOnly: true}
	keys["metrics"] = &shape{key: "metrics", keys: formsOf(metricsKeys), lnetdOnly: true}
	for k := range drivers {
		d := &drivers[k]
		for _, o := range d.Own {
			keys[o.Name] = scalar{o.Kind}
		}
		if d.Section == "" {
			continue
		}
		s := &shape{key: d.Section, keys: map[string]form{}, lnetdOnly: true}
		for _, o := range d.parameters() {
			s.keys[o.Name] = scalar{o.Kind}
		}
		keys[d.Section] = s
	}
	elsewhere := map[string]string{}
	for _, key := range []string{"net", "peer", "peers", "route", "udsp", "routing", "buffers", "numa", "global"} {
		elsewhere[key] = remedyTopLevel
	}
	return &shape{key: "lnetd", keys: keys, remedies: elsewhere, lnetdOnly: true}
}

var moduleExamples = map[string]string{
	"networks": `"tcp(eth0)"`, "ip2nets": `"tcp(eth0) 10.0.0.*"`, "routes": `"tcp1 10.0.0.20@tcp"`,
}
