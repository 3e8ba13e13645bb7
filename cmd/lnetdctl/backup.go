package main

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/lnet"
)

// Documents of "export --backup": the configuration of the node (lnetctl 8.2).

// derivedTunables holds the LND tunables whose values follow from other parameters. A backup omits them.
var derivedTunables = map[string]bool{"timeout": true}

func backupNets(nets []api.Net) mapping {
	var list sequence
	for k := range nets {
		var nis sequence
		for i := range nets[k].NIs {
			if ni := &nets[k].NIs[i]; !ni.NID.IsLoopback() {
				nis = append(nis, backupNI(ni))
			}
		}
		if len(nis) > 0 {
			list = append(list, mapping{{"net type", text(nets[k].Net.String())}, {"local NI(s)", nis}})
		}
	}
	return section("net", list)
}

func backupNI(ni *api.NI) (m mapping) {
	if !ni.NID.IsZero() {
		m = append(m, entry{"nid", text(ni.NID.String())})
	}
	if len(ni.Interfaces) > 0 {
		names := mapping{}
		for i, name := range ni.Interfaces {
			names = append(names, entry{strconv.Itoa(i), text(name)})
		}
		m = append(m, entry{"interfaces", names})
	}
	if ni.Proxy != "" {
		m = append(m, entry{"proxy", text(ni.Proxy)})
	}
	m = append(m, entry{"tunables", mapping{
		{"peer_timeout", number(ni.Tunables.PeerTimeout)},
		{"peer_credits", number(ni.Tunables.PeerCredits)},
		{"peer_buffer_credits", number(ni.Tunables.PeerBufferCredits)},
		{"credits", number(ni.Tunables.Credits)},
	}})
	own := slices.DeleteFunc(slices.Clone(ni.LND), func(t api.Tunable) bool { return derivedTunables[t.Name] })
	if lnd := tunablesDocument(own); len(lnd) > 0 {
		m = append(m, entry{"lnd tunables", lnd})
	}
	return append(m, entry{"CPT", quoted(ni.CPT)})
}

func backupRoutes(routes []api.Route) mapping {
	var list sequence
	for k := range routes {
		r := &routes[k]
		hops := int64(r.Hops)
		if hops == 0 {
			hops = -1
		}
		list = append(list, mapping{
			{"net", text(r.Net.String())}, {"gateway", text(r.Gateway.String())},
			{"hop", number(hops)}, {"priority", number(uint64(r.Priority))},
		})
	}
	return section("route", list)
}

// backupPeer returns the item for a peer in the section "peer" of a backup.
func backupPeer(p *api.Peer) mapping {
	nids := make(sequence, 0, len(p.NIs))
	for k := range p.NIs {
		nids = append(nids, mapping{{"nid", text(p.NIs[k].NID.String())}})
	}
	return backupPeerWith(p.Primary, p.MultiRail, nids)
}

// backupConfiguredPeers yields the items for the peers of a configuration.
func backupConfiguredPeers(peers []api.ConfiguredPeer) iter.Seq2[mapping, error] {
	return func(yield func(mapping, error) bool) {
		for k := range peers {
			p := &peers[k]
			nids := make(sequence, 0, len(p.NIs))
			for i := range p.NIs {
				nids = append(nids, mapping{{"nid", text(p.NIs[i].NID.String())}})
			}
			if !yield(backupPeerWith(p.Primary, p.MultiRail, nids), nil) {
				return
			}
		}
	}
}

func backupPeerWith(primary lnet.NID, multiRail bool, nids sequence) mapping {
	return mapping{{"primary nid", text(primary.String())}, {"Multi-Rail", boolean(multiRail)}, {"peer ni", nids}}
}

// backupRouting returns the sections "routing" and "buffers" of a backup. "routing" is omitted if the node
// has not been a router since it started, and "buffers" if r contains no router buffers.
func backupRouting(r api.Routing) (m mapping) {
	if r.Ever {
		m = append(m, entry{"routing", mapping{{"enable", number(int(r.State))}}})
	}
	if len(r.CPTs) > 0 {
		m = append(m, entry{"buffers", buffersDocument(r.Buffers())})
	}
	return m
}

func buffersDocument(b api.Buffers) mapping {
	return mapping{{"tiny", number(b.Tiny)}, {"small", number(b.Small)}, {"large", number(b.Large)}}
}

// globalsDocument returns the document of "global show" (lnetctl 5.9).
func globalsDocument(g api.Globals) mapping {
	values := mapping{}
	for _, one := range parameters.Shown() {
		v, ok := g.Values[one.Name]
		if !ok {
			continue // an older lnetd does not have it
		}
		value := number(v)
		if one.Name == discoveryName && g.Verify {
			value = text("verify")
		}
		values = append(values, entry{one.Name, value})
	}
	return mapping{{"global", values}}
}

// backupGlobals returns the section "global" of a backup, with values that kernels accept. The discovery mode
// "verify", which kernels do not have, is therefore 1 here; the section "lnetd" has the exact mode.
func backupGlobals(g api.Globals) mapping {
	g.Verify = false
	return globalsDocument(g)
}

// lnetdDocument returns the section "lnetd" of a backup. It has the selection rules (decision 22) and the
// settings in rest, by key. It is nil if there are neither.
func lnetdDocument(rules []api.SelectionRule, rest map[string]any) mapping {
	var m mapping
	if len(rules) > 0 {
		m = selectionDocument(rules)
	}
	m = append(m, sortedMapping(rest)...)
	if len(m) == 0 {
		return nil
	}
	return mapping{{"lnetd", m}}
}

func sortedMapping(values map[string]any) (m mapping) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		m = append(m, entry{key, valueDocument(values[key])})
	}
	return m
}

// valueDocument converts a value that was decoded from JSON to the form of documents.
func valueDocument(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return sortedMapping(v)
	case []any:
		var items scalars
		var list sequence
		for _, item := range v {
			if m, ok := item.(map[string]any); ok {
				list = append(list, sortedMapping(m))
			} else {
				items = append(items, valueDocument(item).(scalar))
			}
		}
		if list != nil {
			return list
		}
		return items
	case float64:
		return number(int64(v))
	case bool:
		return boolean(v)
	case string:
		return text(v)
	}
	return nil
}
