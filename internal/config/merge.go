package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// merge is a State that grows, and what was wrong and worth a word.
type merge struct {
	State
	name     string // the document's
	problems Problems
	warnings Problems

	// routeAt and ownerAt are the places of routes, and of the peers that NIDs belong to.
	routeAt map[routeKey]int
	ownerAt map[lnet.NID]int
	// gone are the places of peers that are deleted.
	gone map[int]bool
}

// index notes the places of routes and peers.
func (m *merge) index() {
	m.routeAt, m.ownerAt = make(map[routeKey]int, len(m.Routes)), make(map[lnet.NID]int, len(m.Peers))
	for k := range m.Routes {
		m.routeAt[m.Routes[k].key()] = k
	}
	for k := range m.Peers {
		for _, nid := range m.Peers[k].nids() {
			m.ownerAt[nid] = k
		}
	}
}

// ownerOf is the peer that has the NID, or nil.
func (m *merge) ownerOf(nid lnet.NID) *Peer {
	k, ok := m.ownerAt[nid]
	if !ok {
		return nil
	}
	return &m.Peers[k]
}

// wrong notes an entry of the document that does not go together with others, or with what
// the node is. Where is its place, or what it is.
func (m *merge) wrong(where, text, remedy string) {
	m.problems = append(m.problems, m.problem(where, text, remedy))
}

func (m *merge) warn(where, text string) { m.warnings = append(m.warnings, m.problem(where, text, "")) }

func (m *merge) problem(where, text, remedy string) *Problem {
	return ProblemAt(m.name, where, text, remedy)
}

func (m *merge) done() (State, Problems, error) {
	if len(m.problems) > 0 {
		return m.State, inOrder(m.warnings), inOrder(m.problems)
	}
	return m.State, inOrder(m.warnings), nil
}

// clone is a copy of which the lists can be changed.
func (s *State) clone() State {
	c := *s
	c.NIs, c.Peers, c.Routes = slices.Clone(s.NIs), slices.Clone(s.Peers), slices.Clone(s.Routes)
	for k := range c.Peers {
		c.Peers[k].Others = slices.Clone(c.Peers[k].Others)
	}
	c.Drivers = maps.Clone(s.Drivers)
	return c
}

// Add is what a node which is have shall be with what a document has added, which
// ParseOver has read over have, and which is settled (lnetctl 7). The document's NIs are
// in the form that those of have are in, and its options of drivers are those of have with the
// document's (AddDrivers). The error is Problems, one for each entry that
// cannot be added; the others are warnings. name is the document's.
func Add(have *State, name string, c *Config) (State, Problems, error) {
	m := &merge{State: have.clone(), name: name}
	m.index()
	m.Parameters, m.Routing, m.Buffers = c.Parameters, c.Routing, c.Buffers
	for k := range c.NIs {
		m.addNI(c.NIs[k])
	}
	for k := range c.Routes {
		m.addRoute(c.Routes[k])
	}
	gateways := gatewaysOf(m.Routes)
	lists := m.claim(c.Peers)
	for k := range c.Peers {
		at, there := lists[k]
		switch p := &c.Peers[k]; {
		case p.Listed == nil:
			m.mergePeer(p, gateways)
		case there:
			m.refreshPeer(p, at)
		default:
			m.refreshPeer(p, -1)
		}
	}
	m.checkGateways(have, func(lost *Peer) string {
		return m.Peers[slices.IndexFunc(have.Peers, func(p Peer) bool { return p.Primary == lost.Primary })].Where
	}, "delete the routes first, or list the NID")
	m.addPolicies(c)
	m.Drivers = c.Drivers
	m.check()
	return m.done()
}

// Replace is what a node which is have shall be if it is to be what a document says and
// nothing else, as Add takes it.
func Replace(have *State, name string, c *Config) (State, Problems, error) {
	m := &merge{State: c.State.clone(), name: name}
	m.TypedRules = c.KeepRuleIDs(have)
	m.Peers = nil
	haves, gateways := byKey(have.Peers, func(p *Peer) lnet.NID { return p.Primary }), gatewaysOf(c.Routes)
	for k := range c.Peers {
		p := c.Peers[k]
		h := haves[p.Primary]
		switch {
		case h != nil && h.equal(&p):
			m.Peers = append(m.Peers, *h)
		case h == nil && p.undiscovered(gateways):
		default:
			m.Peers = append(m.Peers, p)
		}
	}
	m.check()
	return m.done()
}

func find[T any](list []T, is func(*T) bool) *T {
	for k := range list {
		if is(&list[k]) {
			return &list[k]
		}
	}
	return nil
}

// addNI adds an NI. One that is there in the same form is no change; one that differs in
// what can be changed in place is changed.
func (m *merge) addNI(i NI) {
	if has := find(m.NIs, func(o *NI) bool { return o.key() == i.key() }); has != nil {
		switch {
		case has.equal(&i):
		case has.moved(&i):
			*has = i
		case has.changesInPlace(&i):
			i.Own = has.Own
			*has = i
		default:
			m.wrong(i.place(), fmt.Sprintf("the NI %s is there already, with other tunables: cannot add LNet NI", &i),
				"delete it first, or make the node what the whole file says: lnetdctl apply")
		}
		return
	}
	if first := find(m.NIs, func(o *NI) bool { return o.Net == i.Net }); first != nil && first.Tunables != i.Tunables {
		if i.Tunables != (lnd.Tunables{PeerTimeout: -1}) {
			m.warn(i.place(), "All tunables of NIs of a net should be the same; those of the first NI hold")
		}
		i.Tunables = first.Tunables
	}
	m.takeTimeout(&i)
	m.NIs = append(m.NIs, i)
}

// timeoutOption is the option of NIs that is the LND timeout.
const timeoutOption = "timeout"

// takeTimeout gives an NI that says none the LND timeout that holds for its whole net, as
// "net set --net" sets it (lnetctl 4.5).
func (m *merge) takeTimeout(i *NI) {
	if _, given := i.Options[timeoutOption]; given {
		return
	}
	all := ""
	for k := range m.NIs {
		if o := &m.NIs[k]; o.Net == i.Net {
			v := o.Options[timeoutOption]
			if v == "" || all != "" && v != all {
				return
			}
			all = v
		}
	}
	if all != "" {
		i.Options = maps.Clone(i.Options)
		if i.Options == nil {
			i.Options = Values{}
		}
		i.Options[timeoutOption] = all
	}
}

func (m *merge) addRoute(r Route) {
	if k, ok := m.routeAt[r.key()]; ok {
		m.Routes[k] = r
		return
	}
	m.routeAt[r.key()] = len(m.Routes)
	m.Routes = append(m.Routes, r)
}

// mergePeer adds a peer, or NIDs to one that is configured.
func (m *merge) mergePeer(p *Peer, gateways map[lnet.NID]bool) {
	has := m.ownerOf(p.Primary)
	if has != nil && has.Primary != p.Primary {
		has = nil
	}
	switch {
	case has == nil && p.undiscovered(gateways):
	case has == nil:
		for _, nid := range p.nids() {
			if o := m.ownerOf(nid); o != nil {
				m.wrong(p.Where, fmt.Sprintf("%s belongs to the peer %s already", nid, o.Primary), "see that each NID stands at one peer alone")
				return
			}
		}
		for _, nid := range p.nids() {
			m.ownerAt[nid] = len(m.Peers)
		}
		m.Peers = append(m.Peers, *p)
	case p.undiscovered(gateways):
	case has.SingleRail != p.SingleRail:
		m.wrong(p.Where, fmt.Sprintf("the peer %s is configured already, with another \"Multi-Rail\"", p.Primary), "delete the peer first")
	default:
		for _, nid := range p.Others {
			switch o := m.ownerOf(nid); {
			case o == nil:
				m.ownerAt[nid] = m.ownerAt[p.Primary]
				has.Others = append(has.Others, nid)
			case o.Primary != p.Primary:
				m.wrong(p.Where, fmt.Sprintf("%s belongs to the peer %s already", nid, o.Primary), "see that each NID stands at one peer alone")
			}
		}
		has.Locked = has.Locked || p.Locked
		has.Where = p.Where
	}
}

// undiscovered tells whether an entry is that of a gateway that had not been discovered
// when a kernel exported its configuration: such are never Multi-Rail and have one NID.
// What says so little must not keep discovery from its work.
func (p *Peer) undiscovered(gateways map[lnet.NID]bool) bool {
	return p.SingleRail && !p.Locked && len(p.Others) == 0 && gateways[p.Primary]
}

// gatewaysOf are the NIDs that routes lead through.
func gatewaysOf(routes []Route) map[lnet.NID]bool {
	all := make(map[lnet.NID]bool, len(routes))
	for k := range routes {
		all[routes[k].Gateway] = true
	}
	return all
}

// checkGateways notes the peers of have that lose a NID that routes lead through. Nodes refuse that.
// where is the place of the entry by which a peer loses it.
func (m *merge) checkGateways(have *State, where func(lost *Peer) string, remedy string) {
	lost := gatewaysOf(m.Routes)
	for k := range m.Peers {
		for _, nid := range m.Peers[k].nids() {
			delete(lost, nid)
		}
	}
	if len(lost) == 0 {
		return
	}
	for k := range have.Peers {
		p := &have.Peers[k]
		for _, nid := range p.nids() {
			if lost[nid] {
				m.wrong(where(p), fmt.Sprintf("routes lead by the peer %s: failed to del primary peer", nid), remedy)
				break
			}
		}
	}
}

// LeaveUndiscovered leaves out the entries of gateways that discovery has to make.
func (s *State) LeaveUndiscovered() {
	gateways := gatewaysOf(s.Routes)
	s.Peers = slices.DeleteFunc(slices.Clone(s.Peers), func(p Peer) bool { return p.undiscovered(gateways) })
}

// addPolicies adds rules at their places. One that is there is no change.
func (m *merge) addPolicies(c *Config) {
	var p selection.Policies
	for _, r := range m.Rules {
		_ = p.Add(r, selection.Append) // they are in force
	}
	for k, r := range c.Rules {
		if err := p.Add(r, c.Given.Indexes[k]); err != nil && !errors.Is(err, selection.ErrExists) {
			m.wrong("udsp "+r.String(), err.Error(), "")
		}
	}
	m.Rules = p.Rules()
	for _, r := range m.TypedRules {
		_, _ = p.AddTyped(r)
	}
	m.addTypedRules(&p, c)
	m.TypedRules = p.Typed()
}

// AddDrivers puts the options of drivers that the document has over those of have. An option
// that the document gives its default loses its value in have.
func (c *Config) AddDrivers(have *State) {
	drivers := maps.Clone(have.Drivers)
	for t, given := range c.Given.Drivers {
		all := maps.Clone(drivers[t])
		maps.DeleteFunc(all, func(name, _ string) bool { return given[name] })
		if all == nil {
			all = Values{}
		}
		maps.Copy(all, c.Drivers[t])
		if drivers == nil {
			drivers = map[lnet.NetType]Values{}
		}
		drivers[t] = all
	}
	c.Drivers = drivers
}

// check says what does not go together, and leaves out the routes that are not for this node.
func (m *merge) check() {
	m.checkRoutes()
	if most := m.Parameters.InterfacesMax; most > 0 && len(m.NIs) >= most {
		m.wrong("net", fmt.Sprintf("%d NIs: too many NIs, check lnet_interfaces_max", len(m.NIs)), fmt.Sprintf("max_interfaces is %d, with 0@lo", most))
	}
}

// checkRoutes leaves out routes of the document that are not for this node. A route that was
// there before is an error.
func (m *merge) checkRoutes() {
	misplaced := misplacedRoutes(m.NIs)
	m.Routes = slices.DeleteFunc(m.Routes, func(r Route) bool {
		why, remedy := misplaced(&r)
		if why == "" {
			return false
		}
		route := fmt.Sprintf("route to %s by %s", r.Net, r.Gateway)
		if r.Where == "" {
			m.wrong(route, why, remedy)
			return false
		}
		m.warn(r.Where, "the "+route+" is left out: "+why)
		return true
	})
}

// changesInPlace tells whether an NI can become o while it is up.
func (n *NI) changesInPlace(o *NI) bool {
	if n.key() != o.key() || n.moved(o) || n.Tunables != o.Tunables || !slices.Equal(n.CPTs, o.CPTs) {
		return false
	}
	differ := func(a, b Values) bool {
		for name, v := range a {
			if w, ok := b[name]; (!ok || v != w) && !inPlace[name] {
				return true
			}
		}
		return false
	}
	return !differ(n.Options, o.Options) && !differ(o.Options, n.Options)
}

// inPlace are the options of NIs that can be changed while they are up (lnetctl 4.5).
var inPlace = map[string]bool{"conns_per_peer": true, "timeout": true}
