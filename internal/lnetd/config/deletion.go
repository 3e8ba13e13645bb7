package config

import (
	"context"
	"fmt"
	"slices"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Deletion is the parsed form of a document that lists what to delete (lnetctl 7.4). An entry needs
// only what identifies the item to delete, such as a net or the "idx" of a rule.
type Deletion struct {
	// Nets are the nets of which all NIs are deleted. NIs are single NIs to delete.
	Nets []NamedNet
	NIs  []NI
	// Peers lose the NIDs in Others or Listed. A peer for which both are empty is deleted.
	Peers  []Peer
	Routes []Route
	// Rules holds the positions of "udsp" rules to delete in the node's list of rules.
	Rules      []Numbered
	TypedRules []TypedDeletion
	// Globals holds the keys of "global" that are reset to their defaults. Keys that lnetctl does
	// not reset are ignored.
	Globals map[string]bool
	// If Routing is set, routing is disabled. If Buffers is set, the numbers of router buffers are reset
	// to their defaults.
	Routing, Buffers bool
	// Site holds "ip2nets" rules that select NIs to delete on a host.
	Site Site
	// Details holds the levels of detail that the document requests for "import --show". The keys
	// are names of nets, first NIDs of peers, and "route" for all routes.
	Details map[string]int64
	// Warnings names settings that have no effect.
	Warnings Problems
	name     string
}

// NamedNet is a net that a document refers to.
type NamedNet struct {
	Net lnet.Net
	// Where is the position in the file, "name:line: key".
	Where string
}

// Numbered is an item that a document refers to by a number, such as the "idx" of a rule.
type Numbered struct {
	Number int
	// Where is the position in the file, "name:line: key".
	Where string
}

// ParseDeletion parses a document that lists what to delete. The document is called name in messages.
// ParseDeletion returns the same errors as ParseOver.
func ParseDeletion(ctx context.Context, name string, data []byte, drivers []DriverOptions) (Deletion, error) {
	r := newReading(ctx, name, drivers)
	f := r.read(data)
	d := Deletion{name: name, Globals: keys(f.globals), Routing: len(f.routing) > 0, Buffers: len(f.buffers) > 0}
	var c Config
	for k := range f.nets {
		d.net(&f.nets[k], &c)
	}
	c.addNetRules(f.netRules)
	c.addModuleStrings(f.lnetd.options)
	d.NIs = append(d.NIs, c.NIs...)
	d.Routes, c.Site.Routes = c.Site.Routes, nil
	d.Site = c.Site
	f.eachRoute(func(at place) {
		c.addRoute(at)
		d.noteDetail("route", at)
	})
	d.Routes = append(d.Routes, c.Routes...)
	f.eachPeer(d.peer)
	d.Rules = indexes(f.rules)
	d.TypedRules = readTypedDeletions(f.typed)
	var err error
	d.Warnings, err = r.result()
	return d, err
}

// net adds an item of "net" to d: the NIs that the item names, or the whole net if it names no NI. An
// item that selects NIs by an address pattern is added to c as a rule instead.
func (d *Deletion) net(f *fileNet, c *Config) {
	if f.name.node == f.at.node {
		return // already reported
	}
	n, ok := f.name.net()
	if !ok || n.Type() == lnet.TypeLO {
		return
	}
	d.noteDetail(n.String(), f.at)
	switch {
	case f.direct.pattern == nil:
	case !f.patternAlone():
		return
	case len(f.direct.interfaces) == 0:
		c.addNetPattern(n, &f.direct)
		return
	}
	items := f.nis
	if !f.list {
		items = []fileNI{f.direct}
	}
	named := false
	for _, item := range items {
		if len(item.interfaces) == 0 && item.nid == nil {
			continue
		}
		named = true
		for _, ni := range item.places(n) {
			ni.Where = item.at.position()
			d.NIs = append(d.NIs, ni)
		}
	}
	if !named {
		d.Nets = append(d.Nets, NamedNet{n, f.at.position()})
	}
}

// peer adds an entry of "peer" or "peers" to d. An entry of "peer" asks to delete the whole peer if it
// lists the primary NID among the NIDs, or lists no NIDs.
func (d *Deletion) peer(f *filePeer) {
	p, ok := f.peer()
	if !ok {
		return
	}
	if f.listsPrimary && !f.list {
		p.Others = nil
	}
	d.Peers = append(d.Peers, p)
	d.noteDetail(p.Primary.String(), f.at)
}

// noteDetail records the level of detail that a block requests for the item name, if it requests one.
// If several blocks request a level for the same item, the highest level applies.
func (d *Deletion) noteDetail(name string, at place) {
	at.warnDetails()
	level, ok := at.numberUnder("detail")
	if before, has := d.Details[name]; !ok || has && before >= level {
		return
	}
	if d.Details == nil {
		d.Details = map[string]int64{}
	}
	d.Details[name] = level
}

// indexes returns the values of "idx" in the "udsp" rules that the document lists.
func indexes(list []place) (out []Numbered) {
	for _, at := range list {
		value, ok := at.member("idx")
		if !ok {
			at.warn("the key \"idx\" is missing: the rule is skipped").remedyf("give the idx that lnetdctl udsp show prints for the rule")
			continue
		}
		if n, ok := value.in(api.RuleIDRange); ok {
			out = append(out, Numbered{n, at.position()})
		}
	}
	return out
}

// Delete returns the state have without the items that d describes, and a warning for each item that
// does not exist. The names in d.NIs must have the same form as in have.NIs, so that they can be
// compared. The error is a Problems.
func Delete(have *State, d *Deletion) (State, Problems, error) {
	m := &merge{State: have.clone(), name: d.name}
	absent := m.warn
	for _, n := range d.Nets {
		if !m.deleteNIs(func(i *NI) bool { return i.Net == n.Net }) {
			absent(n.Where, fmt.Sprintf("net %s does not exist; nothing is deleted", n.Net))
		}
	}
	for k := range d.NIs {
		i := &d.NIs[k]
		if !m.deleteNIs(i.same) {
			absent(i.Where, fmt.Sprintf("NI %s does not exist; nothing is deleted", i))
		}
	}
	stay := byKey(m.Routes, (*Route).key)
	for k := range d.Routes {
		r := &d.Routes[k]
		if stay[r.key()] == nil {
			absent(r.Where, fmt.Sprintf("a route to %s through %s does not exist; nothing is deleted", r.Net, r.Gateway))
		}
		delete(stay, r.key())
	}
	m.Routes = slices.DeleteFunc(slices.Clone(m.Routes), func(r Route) bool { return stay[r.key()] == nil })
	m.deletePeers(d.Peers, absent)
	m.deleteRules(d.Rules, absent)
	m.deleteTypedRules(d.TypedRules, absent)
	m.reset(d.Globals)
	if d.Routing {
		m.Routing = RoutingOff
	}
	if d.Buffers {
		m.Buffers = node.Buffers{}.Resolved()
	}
	m.Settled(have)
	var named map[lnet.NID]int // for each NID in d.Peers, the first entry with it
	m.checkGateways(have, func(lost int) string {
		if named == nil {
			named = d.peersByNID()
		}
		p := &have.Peers[lost]
		first := len(d.Peers)
		for nid := range p.eachNID() {
			if k, ok := named[nid]; ok {
				first = min(first, k)
			}
		}
		if first == len(d.Peers) {
			return "peer " + p.Primary.String()
		}
		return d.Peers[first].Where
	}, "delete the routes in the same document")
	return m.result()
}

// peersByNID returns for each NID in d.Peers the position of the first entry with it.
func (d *Deletion) peersByNID() map[lnet.NID]int {
	named := map[lnet.NID]int{}
	for k := range slices.Backward(d.Peers) {
		p := &d.Peers[k]
		for _, nid := range append(p.nids(), p.Listed...) {
			named[nid] = k
		}
	}
	return named
}

// same reports whether n, an NI of a document, identifies o, an NI of the node: by its device, by its
// NID, or by both.
func (n *NI) same(o *NI) bool {
	if n.Net != o.Net {
		return false
	}
	if n.Device != "" && n.Device != o.Device {
		return false
	}
	return n.Device != "" && n.NID.IsZero() || !n.NID.IsZero() && (n.NID == o.NID || n.NID == o.Own)
}

func (m *merge) deleteNIs(which func(*NI) bool) bool {
	had := len(m.NIs)
	m.NIs = slices.DeleteFunc(m.NIs, func(i NI) bool { return which(&i) })
	return len(m.NIs) < had
}

// deletePeers deletes the given peers or, for a peer with further NIDs, only those NIDs. It calls absent
// for each entry that does not exist.
func (m *merge) deletePeers(peers []Peer, absent func(where, what string)) {
	m.index(nil)
	m.deleted = map[int]bool{}
	for k := range peers {
		p := &peers[k]
		if p.Listed != nil {
			m.deleteListed(p, absent)
			continue
		}
		switch at, ok := m.ownerIndex[p.Primary]; {
		case !ok || m.deleted[at]:
			absent(p.Where, fmt.Sprintf("peer %s does not exist; nothing is deleted", p.Primary))
		case m.Peers[at].Primary != p.Primary:
			absent(p.Where, fmt.Sprintf("%s is not the primary NID of its peer, which is %s; nothing is deleted", p.Primary, m.Peers[at].Primary))
		case len(p.Others) == 0:
			m.deleted[at] = true
		default:
			m.Peers[at].deleteNIDs(p, absent)
		}
	}
	var left []Peer
	for k := range m.Peers {
		if !m.deleted[k] {
			left = append(left, m.Peers[k])
		}
	}
	m.Peers = left
}

// deleteNIDs deletes from p the NIDs in named.Others. It calls absent for each NID that p does not have.
func (p *Peer) deleteNIDs(named *Peer, absent func(where, what string)) {
	for _, nid := range named.Others {
		if !slices.Contains(p.Others, nid) {
			absent(named.Where, fmt.Sprintf("peer %s does not have the NID %s; nothing is deleted", p.Primary, nid))
		}
	}
	p.Others = Without(p.Others, named.Others)
}

// deleteRules deletes the "udsp" rules at the given positions. All positions refer to the list before
// the first deletion.
func (m *merge) deleteRules(list []Numbered, absent func(where, what string)) {
	m.Rules = slices.Clone(m.Rules)
	rules := slices.SortedStableFunc(slices.Values(list), func(a, b Numbered) int { return a.Number - b.Number })
	rules = slices.CompactFunc(rules, func(a, b Numbered) bool { return a.Number == b.Number })
	for _, r := range slices.Backward(rules) {
		if r.Number >= len(m.Rules) {
			absent(r.Where, fmt.Sprintf("rule %d does not exist; nothing is deleted", r.Number))
			continue
		}
		m.Rules = slices.Delete(m.Rules, r.Number, r.Number+1)
	}
}

// reset sets the parameters of "global" whose names are in keys to their defaults. Parameters that
// lnetctl does not reset keep their values (lnetctl 7.4).
func (m *merge) reset(keys map[string]bool) {
	for _, p := range parametersIn(parameters.Global) {
		if keys[p.Name] && p.Resets {
			p.set(&m.Parameters, p.Default)
		}
	}
}

// Settled changes s as a node changes its routes and peers when it loses all NIs on a net (lnetctl
// 4.3). Such a net has NIs in have, but not in s. Routes through gateways on that net are removed. A
// peer whose primary NID is on that net is removed if it has no NID on a local net. Otherwise a NID on a
// local net becomes its primary NID, unless the primary NID is locked. A peer that stays although it
// has no NID on a local net loses its NIDs on the lost net.
func (s *State) Settled(have *State) {
	local, gone := map[lnet.Net]bool{}, map[lnet.Net]bool{}
	for k := range s.NIs {
		local[s.NIs[k].Net] = true
	}
	for k := range have.NIs {
		if n := have.NIs[k].Net; !local[n] {
			gone[n] = true
		}
	}
	s.Routes = slices.DeleteFunc(s.Routes, func(r Route) bool { return gone[r.Gateway.Net()] })
	s.Peers = slices.DeleteFunc(s.Peers, func(p Peer) bool {
		return gone[p.Primary.Net()] && !slices.ContainsFunc(p.Others, func(n lnet.NID) bool { return local[n.Net()] })
	})
	for k := range s.Peers {
		p := &s.Peers[k]
		if !p.hasAny(func(n lnet.NID) bool { return local[n.Net()] }) {
			p.Others = slices.DeleteFunc(slices.Clone(p.Others), func(n lnet.NID) bool { return gone[n.Net()] })
			continue
		}
		if gone[p.Primary.Net()] && !p.Locked {
			at := slices.IndexFunc(p.Others, func(n lnet.NID) bool { return local[n.Net()] })
			others := slices.Clone(p.Others)
			others[at], p.Primary = p.Primary, others[at]
			p.Others = others
		}
	}
}
