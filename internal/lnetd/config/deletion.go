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

// Deletion is the parsed form of a document that lists what to delete (lnetctl 7.4). An entry
// needs no more than what identifies it, such as the net or the "idx".
type Deletion struct {
	// Nets are deleted with all of their NIs. NIs are deleted one by one.
	Nets []NamedNet
	NIs  []NI
	// Peers lose the NIDs in Others or Listed. A peer with neither is deleted.
	Peers  []Peer
	Routes []Route
	// Rules holds positions in the list of rules.
	Rules      []Numbered
	TypedRules []TypedDeletion
	// Globals holds the keys of "global" to reset. Only some of them have a default to reset to.
	Globals map[string]bool
	// Routing disables routing. Buffers resets the router buffers to their defaults.
	Routing, Buffers bool
	// Site holds deletions that depend on the host, namely NIs by "ip2nets".
	Site Site
	// Details holds the levels of detail that "import --show" uses: for nets by their name, for
	// peers by their first NID, and for all routes under the key "route".
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

// Numbered is an item that a document refers to by number.
type Numbered struct {
	Number int
	// Where is the position in the file, "name:line: key".
	Where string
}

// ParseDeletion parses a document that lists what to delete. It returns the same errors as
// ParseOver.
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
	for _, at := range f.routes {
		c.addRoute(at)
		d.noteDetail("route", at)
	}
	d.Routes = append(d.Routes, c.Routes...)
	for k := range f.peers {
		d.peer(&f.peers[k])
	}
	d.Rules = indexes(f.rules)
	d.TypedRules = readTypedDeletions(f.typed)
	var err error
	d.Warnings, err = r.result()
	return d, err
}

// net adds a block of "net": its NIs, or the whole net if it names no NI. A block that names NIs
// only by an address pattern becomes a rule of c instead.
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

// peer adds an entry of "peer" or "peers". An entry of "peer" stands for the whole peer if it
// lists the primary NID among its NIDs, or lists no NIDs.
func (d *Deletion) peer(f *filePeer) {
	p, ok := f.peer()
	if !ok {
		return
	}
	for _, at := range f.nids {
		if nids, ok := at.nids(peerNIDsMax); ok && !f.list && slices.Contains(nids, p.Primary) {
			p.Others = nil
		}
	}
	d.Peers = append(d.Peers, p)
	d.noteDetail(p.Primary.String(), f.at)
}

// noteDetail records the level of detail that a block requests. The highest level under a name wins.
func (d *Deletion) noteDetail(name string, at place) {
	level, ok := at.numberUnder("detail")
	if before, has := d.Details[name]; !ok || has && before >= level {
		return
	}
	if d.Details == nil {
		d.Details = map[string]int64{}
	}
	d.Details[name] = level
}

// indexes returns the positions of the "udsp" rules that the document lists.
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

// Delete returns have without what d describes. The NIs of d must be resolved in the same way as
// those of have. Each item that does not exist gives a warning. The error is a Problems.
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
	m.checkGateways(have, func(lost *Peer) string {
		named := find(d.Peers, func(p *Peer) bool {
			return slices.ContainsFunc(append(p.nids(), p.Listed...), func(n lnet.NID) bool { return slices.Contains(lost.nids(), n) })
		})
		if named == nil {
			return "peer " + lost.Primary.String()
		}
		return named.Where
	}, "delete the routes in the same document")
	return m.result()
}

// same reports whether n identifies the running NI o.
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

// deletePeers deletes the given peers, or only the NIDs listed with them.
func (m *merge) deletePeers(peers []Peer, absent func(where, what string)) {
	m.index()
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

// deleteNIDs deletes the other NIDs that named lists.
func (p *Peer) deleteNIDs(named *Peer, absent func(where, what string)) {
	for _, nid := range named.Others {
		if !slices.Contains(p.Others, nid) {
			absent(named.Where, fmt.Sprintf("peer %s does not have the NID %s; nothing is deleted", p.Primary, nid))
		}
	}
	p.Others = slices.DeleteFunc(p.Others, func(n lnet.NID) bool { return slices.Contains(named.Others, n) })
}

// deleteRules deletes rules by position. All positions refer to the list before the first
// deletion.
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

// reset sets the parameters in keys to their defaults. Keys that lnetctl does not reset are left as
// they are (lnetctl 7.4).
func (m *merge) reset(keys map[string]bool) {
	for _, p := range parametersIn(parameters.Global) {
		if keys[p.Name] && p.Resets {
			p.set(&m.Parameters, p.Default)
		}
	}
}

// Settled removes from s what cannot exist without the NIs that have contains and s does not. It
// does what a node does when it loses all NIs of a net (lnetctl 4.3). Routes by gateways on that
// net are removed. A peer with its primary NID on that net is removed, unless it has another NID
// on a local net: then that NID becomes its primary one, unless the primary NID is locked. Peers
// without any NID on a local net lose their NIDs on the net.
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
		if !slices.ContainsFunc(p.nids(), func(n lnet.NID) bool { return local[n.Net()] }) {
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
