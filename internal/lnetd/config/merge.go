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

// merge is a State to which a document is being applied, together with the problems and warnings found
// so far.
type merge struct {
	State
	name     string // the name of the document
	drivers  []DriverOptions
	problems Problems
	warnings Problems

	// routeIndex holds the positions of routes in State.Routes. ownerIndex holds for each NID the
	// position in State.Peers of the peer that has it.
	routeIndex map[routeKey]int
	ownerIndex map[lnet.NID]int
	// deleted holds the positions in State.Peers of deleted peers, which are removed at the end.
	deleted map[int]bool
}

// index fills routeIndex and ownerIndex. It makes room for the peers of a document.
func (m *merge) index(peers []Peer) {
	m.routeIndex = make(map[routeKey]int, len(m.Routes))
	m.ownerIndex = make(map[lnet.NID]int, max(countNIDs(m.Peers), countNIDs(peers)))
	m.Peers = slices.Grow(m.Peers, max(0, len(peers)-len(m.Peers)))
	for k := range m.Routes {
		m.routeIndex[m.Routes[k].key()] = k
	}
	for k := range m.Peers {
		for nid := range m.Peers[k].eachNID() {
			m.ownerIndex[nid] = k
		}
	}
}

// countNIDs returns the number of NIDs of the peers.
func countNIDs(peers []Peer) (n int) {
	for k := range peers {
		n += 1 + len(peers[k].Others)
	}
	return n
}

// ownerOf returns the peer that has the NID, or nil.
func (m *merge) ownerOf(nid lnet.NID) *Peer {
	k, ok := m.ownerIndex[nid]
	if !ok {
		return nil
	}
	return &m.Peers[k]
}

// addConflict records an entry of the document that conflicts with another one or with the node's
// state. The argument where is the entry's position, or its name.
func (m *merge) addConflict(where, text, remedy string) {
	m.problems = append(m.problems, m.problem(where, text, remedy))
}

func (m *merge) warn(where, text string) { m.warnings = append(m.warnings, m.problem(where, text, "")) }

func (m *merge) problem(where, text, remedy string) *Problem {
	return ProblemAt(m.name, where, text, remedy)
}

func (m *merge) result() (State, Problems, error) {
	if len(m.problems) > 0 {
		return m.State, sortAndLimit(m.warnings), sortAndLimit(m.problems)
	}
	return m.State, sortAndLimit(m.warnings), nil
}

// clone returns a copy of s whose lists can be changed without changing s. The NIDs of a peer are shared with
// s, because there may be very many peers: the copy may append to Others, but must not change its elements.
func (s *State) clone() State {
	c := *s
	c.NIs, c.Peers, c.Routes = slices.Clone(s.NIs), slices.Clone(s.Peers), slices.Clone(s.Routes)
	for k := range c.Peers {
		c.Peers[k].Others = slices.Clip(c.Peers[k].Others) // append makes a copy
	}
	c.Drivers = maps.Clone(s.Drivers)
	return c
}

// Add returns the state of a node in state have after the document c has been added to its configuration
// (lnetctl 7), and warnings. The error is a Problems with each entry that cannot be added. The document
// is called name in messages.
//
// The caller must have read c with ParseOver, for the same drivers and the base have, resolved it with
// Settle, and called AddDrivers. The names in c.NIs must have the same form as in have.NIs, so that they
// can be compared.
func Add(have *State, name string, c *Config, drivers []DriverOptions) (State, Problems, error) {
	m := &merge{State: have.clone(), name: name, drivers: drivers}
	m.index(c.Peers)
	m.Parameters, m.Routing, m.Buffers = c.Parameters, c.Routing, c.Buffers
	for k := range c.NIs {
		m.addNI(c.NIs[k])
	}
	for k := range c.Routes {
		m.addRoute(c.Routes[k])
	}
	gateways := gatewaysOf(m.Routes)
	lists := m.matchLists(c.Peers)
	for k := range c.Peers {
		at, there := lists[k]
		switch p := &c.Peers[k]; {
		case p.Listed == nil:
			m.mergePeer(p, gateways)
		case there:
			m.updatePeer(p, at)
		default:
			m.updatePeer(p, -1)
		}
	}
	m.checkGateways(have, func(lost int) string { return m.Peers[lost].Where }, "delete the routes first, or keep the NID in the list")
	m.addPolicies(c)
	m.Drivers = c.Drivers
	m.check()
	return m.result()
}

// Replace returns the state of a node in state have after the document c has replaced its configuration,
// and warnings. The error is a Problems. The caller must have resolved c with Settle, and the names in
// c.NIs must have the same form as in have.NIs.
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
	return m.result()
}

func find[T any](list []T, is func(*T) bool) *T {
	for k := range list {
		if is(&list[k]) {
			return &list[k]
		}
	}
	return nil
}

// addNI adds the NI i. If the node already has it and it differs only in settings that can be changed
// while it is up, addNI changes these. Any other difference is a conflict. The NI gets the common
// tunables of its net.
func (m *merge) addNI(i NI) {
	if has := find(m.NIs, func(o *NI) bool { return o.key() == i.key() }); has != nil {
		switch {
		case has.equal(&i):
		case has.moved(&i):
			*has = i
		case has.changesInPlace(&i, m.drivers):
			i.Own = has.Own
			*has = i
		default:
			m.addConflict(i.place(), fmt.Sprintf("the NI %s exists already with other tunables: cannot add LNet NI", &i),
				"delete it first, or make the node match the file with: lnetdctl apply")
		}
		return
	}
	if first := find(m.NIs, func(o *NI) bool { return o.Net == i.Net }); first != nil && first.Tunables != i.Tunables {
		if i.Tunables != (lnd.Tunables{PeerTimeout: -1}) {
			m.warn(i.place(), "All NIs of a net should have the same tunables; those of the first NI apply")
		}
		i.Tunables = first.Tunables
	}
	m.inheritTimeout(&i)
	m.NIs = append(m.NIs, i)
}

// timeoutOption is the NI option for the LND timeout.
const timeoutOption = "timeout"

// inheritTimeout sets the LND timeout of the new NI i, unless i has one. If all NIs on its net have the
// same timeout, it was set for the net (lnetctl 4.5), so i gets it too.
func (m *merge) inheritTimeout(i *NI) {
	if _, given := i.Options[timeoutOption]; given {
		return
	}
	var all *int64
	for k := range m.NIs {
		if o := &m.NIs[k]; o.Net == i.Net {
			v, given := o.Options[timeoutOption]
			if !given || all != nil && v != *all {
				return
			}
			all = &v
		}
	}
	if all != nil {
		i.Options = i.Options.With(timeoutOption, *all)
	}
}

func (m *merge) addRoute(r Route) {
	if k, ok := m.routeIndex[r.key()]; ok {
		m.Routes[k] = r
		return
	}
	m.routeIndex[r.key()] = len(m.Routes)
	m.Routes = append(m.Routes, r)
}

// mergePeer adds the peer p, an entry of "peer". If a peer with the same primary NID is configured, it
// gets the NIDs of p in addition. A NID that belongs to another peer is a conflict.
func (m *merge) mergePeer(p *Peer, gateways map[lnet.NID]bool) {
	has := m.ownerOf(p.Primary)
	if has != nil && has.Primary != p.Primary {
		has = nil
	}
	switch {
	case has == nil && p.undiscovered(gateways):
	case has == nil:
		for nid := range p.eachNID() {
			if o := m.ownerOf(nid); o != nil {
				m.addConflict(p.Where, fmt.Sprintf("%s belongs to the peer %s already", nid, o.Primary), "make sure that each NID belongs to only one peer")
				return
			}
		}
		for nid := range p.eachNID() {
			m.ownerIndex[nid] = len(m.Peers)
		}
		m.Peers = append(m.Peers, *p)
	case p.undiscovered(gateways):
	case has.SingleRail != p.SingleRail:
		m.addConflict(p.Where, fmt.Sprintf("the peer %s is already configured with another value of \"Multi-Rail\"", p.Primary), "delete the peer first")
	default:
		for _, nid := range p.Others {
			switch o := m.ownerOf(nid); {
			case o == nil:
				m.ownerIndex[nid] = m.ownerIndex[p.Primary]
				has.Others = append(has.Others, nid)
			case o.Primary != p.Primary:
				m.addConflict(p.Where, fmt.Sprintf("%s belongs to the peer %s already", nid, o.Primary), "make sure that each NID belongs to only one peer")
			}
		}
		has.Locked = has.Locked || p.Locked
		has.Where = p.Where
	}
}

// undiscovered reports whether p is the entry of a gateway that a kernel had not discovered yet when it
// exported its configuration. Such an entry is not Multi-Rail and has one NID. Entries for which
// undiscovered returns true must be left out, because a configured peer is not discovered.
func (p *Peer) undiscovered(gateways map[lnet.NID]bool) bool {
	return p.SingleRail && !p.Locked && len(p.Others) == 0 && gateways[p.Primary]
}

// gatewaysOf returns the gateways of routes.
func gatewaysOf(routes []Route) map[lnet.NID]bool {
	all := make(map[lnet.NID]bool, len(routes))
	for k := range routes {
		all[routes[k].Gateway] = true
	}
	return all
}

// checkGateways adds a conflict for each peer of have that loses a NID that is the gateway of a route,
// because nodes reject such a change. The function where returns the position of the entry that takes
// the NID from the peer at a position in have.Peers. The remedy is what to tell the operator.
func (m *merge) checkGateways(have *State, where func(lost int) string, remedy string) {
	lost := gatewaysOf(m.Routes)
	for k := range m.Peers {
		for nid := range m.Peers[k].eachNID() {
			delete(lost, nid)
		}
	}
	if len(lost) == 0 {
		return
	}
	for k := range have.Peers {
		p := &have.Peers[k]
		for nid := range p.eachNID() {
			if lost[nid] {
				m.addConflict(where(k), fmt.Sprintf("routes use the peer %s: failed to del primary peer", nid), remedy)
				break
			}
		}
	}
}

// LeaveUndiscovered removes from s the peers that are gateways not yet discovered by the kernel that
// exported the configuration. If they were configured, they would not be discovered (see undiscovered).
func (s *State) LeaveUndiscovered() {
	gateways := gatewaysOf(s.Routes)
	s.Peers = slices.DeleteFunc(slices.Clone(s.Peers), func(p Peer) bool { return p.undiscovered(gateways) })
}

// addPolicies inserts the "udsp" rules of c at the positions that their "idx" gives, and adds its
// "selection" rules. Rules that exist already do not change.
func (m *merge) addPolicies(c *Config) {
	var p selection.Policies
	for _, r := range m.Rules {
		_ = p.Add(r, selection.Append) // cannot fail, because the node accepted these rules
	}
	for k, r := range c.Rules {
		if err := p.Add(r, c.Given.Indexes[k]); err != nil && !errors.Is(err, selection.ErrExists) {
			m.addConflict("udsp "+r.String(), err.Error(), "")
		}
	}
	m.Rules = p.Rules()
	for _, r := range m.TypedRules {
		_, _ = p.AddTyped(r)
	}
	m.addTypedRules(&p, c)
	m.TypedRules = p.Typed()
}

// AddDrivers completes the driver options of the document c with those of have. Options that the document
// contains have precedence. An option that the document sets to its default is absent from the result.
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

// check removes routes that are not for this node (see checkRoutes), and adds a conflict if there are
// too many NIs.
func (m *merge) check() {
	m.checkRoutes()
	if most := m.Parameters.InterfacesMax; most > 0 && len(m.NIs) >= most {
		m.addConflict("net", fmt.Sprintf("%d NIs: too many NIs, check lnet_interfaces_max", len(m.NIs)), fmt.Sprintf("max_interfaces is %d, including 0@lo", most))
	}
}

// checkRoutes removes the routes of the document that are not for this node (see misplacedRoutes), with
// a warning. If a route that the node had before is no longer for this node, because NIs change, it is a
// conflict.
func (m *merge) checkRoutes() {
	misplaced := misplacedRoutes(m.NIs)
	m.Routes = slices.DeleteFunc(m.Routes, func(r Route) bool {
		why, remedy := misplaced(&r)
		if why == "" {
			return false
		}
		route := fmt.Sprintf("route to %s through %s", r.Net, r.Gateway)
		if r.Where == "" {
			m.addConflict(route, why, remedy)
			return false
		}
		m.warn(r.Where, "the "+route+" is ignored: "+why)
		return true
	})
}

// changesInPlace reports whether the NI n can be changed to o while it is up: they must be the same NI
// and differ only in options that can be changed while an NI is up.
func (n *NI) changesInPlace(o *NI, drivers []DriverOptions) bool {
	if n.key() != o.key() || n.moved(o) || n.Tunables != o.Tunables || n.Proxy != o.Proxy || !slices.Equal(n.CPTs, o.CPTs) {
		return false
	}
	differ := func(a, b lnd.Values) bool {
		for name, v := range a {
			if w, ok := b[name]; (!ok || v != w) && !isLive(drivers, n.Net.Type(), name) {
				return true
			}
		}
		return false
	}
	return !differ(n.Options, o.Options) && !differ(o.Options, n.Options)
}
