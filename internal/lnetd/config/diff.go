package config

import (
	"maps"
	"reflect"
	"slices"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Diff returns the steps that change a node from state have to state want, in an order that a node
// accepts: routes, peers and NIs are removed; options of drivers, policies and parameters change; NIs,
// peers and routes are added; router buffers change; and routing is enabled or disabled. Policies
// change between removals and additions, so that they are in force as long as the NIs, peers and routes
// that they apply to exist. Routing comes last, because a router that has begun to stop cannot be
// restored without a restart.
//
// The inverse steps in reverse order lead back to have, except that NIs that were removed and added
// again come after the other NIs.
//
// A change of a driver's options replaces the driver, so all NIs on its nets are removed and added
// again. Dependents of a changed item are also removed before and added again after the change: peers
// with NIDs on a net, and routes through gateways on it, if the net loses its last NI or gains its first
// one; routes through a peer that changes; and routes to a net on which an NI is added. Diff ignores
// positions in files and the order of peers and routes. It compares the order of NIs, because the first
// NI determines the node's primary NID.
func Diff(have, want *State, drivers []DriverOptions) []Step {
	d := newDiffer(have, want, drivers)
	var steps []Step
	steps = append(steps, d.removedRoutes()...)
	steps = append(steps, d.removedPeers()...)
	steps = append(steps, d.removedNIs()...)
	steps = append(steps, d.drivers...)
	steps = append(steps, d.policies(want.Policies.empty())...)

	if have.Parameters != want.Parameters {
		steps = append(steps, Change[Parameters]{&have.Parameters, &want.Parameters})
	}

	steps = append(steps, d.policies(!want.Policies.empty())...)
	steps = append(steps, d.changedNIs()...)
	steps = append(steps, d.addedNIs()...)
	steps = append(steps, d.order()...)
	steps = append(steps, d.addedPeers()...)
	steps = append(steps, d.addedRoutes()...)
	if have.Buffers != want.Buffers {
		steps = append(steps, Change[node.Buffers]{&have.Buffers, &want.Buffers})
	}
	if (have.Routing == RoutingOff) != (want.Routing == RoutingOff) { // whether routing is on from start or later does not matter here
		steps = append(steps, Change[Routing]{&have.Routing, &want.Routing})
	}
	return steps
}

// differ computes the result of Diff. It records which NIs, peers and routes stay. All others are
// removed or added.
type differ struct {
	have, want *State

	// drivers holds the steps that change driver options; replaced holds their net types.
	drivers  []Step
	replaced map[lnet.NetType]bool

	// nis, peers (by primary NID) and routes hold true for each item that stays.
	nis    map[niKey]bool
	peers  map[lnet.NID]bool
	routes map[routeKey]bool
	// unstableNets holds the nets on which no NI stays. Such a net is without NIs for some time, so
	// everything that depends on the net is removed and added again.
	unstableNets map[lnet.Net]bool
	// havePeers and wantPeers are the present and the wanted peers, by primary NID.
	havePeers, wantPeers map[lnet.NID]*Peer
}

func newDiffer(have, want *State, drivers []DriverOptions) *differ {
	d := &differ{
		have: have, want: want,
		nis: map[niKey]bool{}, peers: make(map[lnet.NID]bool, min(len(have.Peers), len(want.Peers))), routes: map[routeKey]bool{}, unstableNets: map[lnet.Net]bool{},
		havePeers: byKey(have.Peers, func(p *Peer) lnet.NID { return p.Primary }),
		wantPeers: byKey(want.Peers, func(p *Peer) lnet.NID { return p.Primary }),
	}
	d.changeDrivers()
	joined := d.keepNIs(drivers)
	changed := d.keepPeers()
	wanted := byKey(want.Routes, (*Route).key)
	for k := range have.Routes {
		r := &have.Routes[k]
		o := wanted[r.key()]
		d.routes[r.key()] = o != nil && r.equal(o) &&
			!d.unstableNets[r.Gateway.Net()] && !joined[r.Net] && !changed[r.Gateway]
	}
	return d
}

func byKey[K comparable, T any](list []T, key func(*T) K) map[K]*T {
	m := make(map[K]*T, len(list))
	for k := range list {
		m[key(&list[k])] = &list[k]
	}
	return m
}

// keepNIs records in d.nis the NIs that stay, and in d.unstableNets the nets on which no NI stays. It
// returns the nets on which NIs are added.
func (d *differ) keepNIs(drivers []DriverOptions) (joined map[lnet.Net]bool) {
	haves := byKey(d.have.NIs, (*NI).key)
	joined = map[lnet.Net]bool{}
	for k := range d.want.NIs {
		i := &d.want.NIs[k]
		o := haves[i.key()]
		if d.nis[i.key()] = o != nil && !d.replaced[i.Net.Type()] && (i.equal(o) || o.changesInPlace(i, drivers)); !d.nis[i.key()] {
			joined[i.Net] = true
		}
	}
	for _, i := range slices.Concat(d.have.NIs, d.want.NIs) {
		d.unstableNets[i.Net] = true
	}
	for k := range d.have.NIs {
		if i := &d.have.NIs[k]; d.nis[i.key()] {
			delete(d.unstableNets, i.Net)
		}
	}
	return joined
}

// keepPeers records in d.peers the peers that stay unchanged. It returns the NIDs of all other peers
// that are gateways of existing routes.
func (d *differ) keepPeers() (changed map[lnet.NID]bool) {
	changed = map[lnet.NID]bool{}
	gateways := gatewaysOf(d.have.Routes)
	for primary, h := range d.havePeers {
		if w := d.wantPeers[primary]; w != nil && h.equal(w) && !d.onUnstableNet(h) {
			d.peers[primary] = true
		}
	}
	for _, peers := range []map[lnet.NID]*Peer{d.havePeers, d.wantPeers} {
		for primary, p := range peers {
			if d.peers[primary] {
				continue
			}
			for nid := range p.eachNID() {
				if gateways[nid] {
					changed[nid] = true
				}
			}
		}
	}
	return changed
}

// onUnstableNet reports whether the peer has a NID on one of d.unstableNets.
func (d *differ) onUnstableNet(p *Peer) bool {
	return p.hasAny(func(n lnet.NID) bool { return d.unstableNets[n.Net()] })
}

// remainingPeer returns what is left of the existing peer p after its removal step: p with the NIDs that
// it will still have at the end. It returns nil if the whole peer is removed, possibly to be added
// again.
func (d *differ) remainingPeer(p *Peer) *Peer {
	w := d.wantPeers[p.Primary]
	if w == nil || w.SingleRail != p.SingleRail || w.Locked != p.Locked || d.onUnstableNet(p) {
		return nil
	}
	rest := p.shared(w)
	return &rest
}

func (d *differ) removedNIs() (steps []Step) {
	for k := range slices.Backward(d.have.NIs) {
		if i := &d.have.NIs[k]; !d.nis[i.key()] {
			steps = append(steps, Change[NI]{From: i})
		}
	}
	return steps
}

// changedNIs returns the steps that change the tunables of NIs that stay up.
func (d *differ) changedNIs() (steps []Step) {
	haves := byKey(d.have.NIs, (*NI).key)
	for k := range d.want.NIs {
		if i := &d.want.NIs[k]; d.nis[i.key()] && !i.equal(haves[i.key()]) {
			steps = append(steps, Change[NI]{From: haves[i.key()], To: i})
		}
	}
	return steps
}

func (d *differ) addedNIs() (steps []Step) {
	for k := range d.want.NIs {
		if i := &d.want.NIs[k]; !d.nis[i.key()] {
			steps = append(steps, Change[NI]{To: i})
		}
	}
	return steps
}

// order returns a step that puts the NIs in the wanted order, if they are in another order after the
// steps for single NIs.
func (d *differ) order() []Step {
	nis := slices.DeleteFunc(slices.Clone(d.have.NIs), func(i NI) bool { return !d.nis[i.key()] })
	for k := range d.want.NIs {
		if i := &d.want.NIs[k]; !d.nis[i.key()] {
			nis = append(nis, *i)
		}
	}
	from, to := orderOf(nis), orderOf(d.want.NIs)
	if from.equal(to) {
		return nil
	}
	return []Step{Change[Order]{&from, &to}}
}

func (d *differ) removedPeers() (steps []Step) {
	for k := range slices.Backward(d.have.Peers) {
		p := &d.have.Peers[k]
		if d.peers[p.Primary] {
			continue
		}
		if rest := d.remainingPeer(p); rest == nil || len(rest.Others) < len(p.Others) {
			steps = append(steps, Change[Peer]{From: p, To: rest})
		}
	}
	return steps
}

func (d *differ) addedPeers() (steps []Step) {
	for k := range d.want.Peers {
		p := &d.want.Peers[k]
		if d.peers[p.Primary] {
			continue
		}
		var rest *Peer
		if h := d.havePeers[p.Primary]; h != nil {
			rest = d.remainingPeer(h)
		}
		if rest == nil || len(rest.Others) < len(p.Others) {
			steps = append(steps, Change[Peer]{From: rest, To: p})
		}
	}
	return steps
}

func (d *differ) removedRoutes() (steps []Step) {
	for k := range slices.Backward(d.have.Routes) {
		if r := &d.have.Routes[k]; !d.routes[r.key()] {
			steps = append(steps, Change[Route]{From: r})
		}
	}
	return steps
}

func (d *differ) addedRoutes() (steps []Step) {
	for k := range d.want.Routes {
		if r := &d.want.Routes[k]; !d.routes[r.key()] {
			steps = append(steps, Change[Route]{To: r})
		}
	}
	return steps
}

func (p *Policies) equal(o *Policies) bool {
	return len(p.Rules) == len(o.Rules) && len(p.TypedRules) == len(o.TypedRules) &&
		(len(p.Rules) == 0 || reflect.DeepEqual(p.Rules, o.Rules)) &&
		(len(p.TypedRules) == 0 || reflect.DeepEqual(p.TypedRules, o.TypedRules))
}

func (p *Policies) empty() bool { return len(p.Rules) == 0 && len(p.TypedRules) == 0 }

// policies returns the step that changes the policies, if they differ. It returns no step if now is
// false, because the change comes at another place in the order of steps.
func (d *differ) policies(now bool) []Step {
	h, w := &d.have.Policies, &d.want.Policies
	if !now || h.equal(w) {
		return nil
	}
	return []Step{Change[Policies]{h, w}}
}

// changeDrivers records in d.drivers and d.replaced the drivers whose options differ.
func (d *differ) changeDrivers() {
	d.replaced = map[lnet.NetType]bool{}
	types := maps.Clone(d.have.Drivers)
	if types == nil {
		types = map[lnet.NetType]Values{}
	}
	maps.Copy(types, d.want.Drivers)
	for _, t := range slices.Sorted(maps.Keys(types)) {
		if h, w := d.have.Drivers[t], d.want.Drivers[t]; !maps.Equal(h, w) {
			d.replaced[t] = true
			d.drivers = append(d.drivers, DriverChange{Type: t, From: h, To: w})
		}
	}
}

// Forgets returns a function that reports whether a node forgets a discovered peer while it changes
// from state have to state want. A node forgets the peer if it removes all NIs on one of the peer's
// nets, or a route through the peer.
func Forgets(have, want *State, drivers []DriverOptions) func(*Peer) bool {
	d := newDiffer(have, want, drivers)
	gone := map[lnet.NID]bool{}
	for k := range have.Routes {
		if r := &have.Routes[k]; !d.routes[r.key()] {
			gone[r.Gateway] = true
		}
	}
	return func(p *Peer) bool {
		return d.onUnstableNet(p) || p.hasAny(func(n lnet.NID) bool { return gone[n] })
	}
}

// KeepDrivers sets the options of drivers in want to those in have, if have contains NIs of the driver,
// because a change of options would replace the driver and interrupt these NIs. It returns the driver
// changes that it has removed from want in this way.
func KeepDrivers(have, want *State) (out []Step) {
	kept := maps.Clone(want.Drivers)
	d := differ{have: have, want: want}
	d.changeDrivers()
	for _, s := range d.drivers {
		c := s.(DriverChange)
		if !slices.ContainsFunc(have.NIs, func(i NI) bool { return i.Net.Type() == c.Type }) {
			continue
		}
		if out = append(out, c); kept == nil {
			kept = map[lnet.NetType]Values{}
		}
		if kept[c.Type] = c.From; len(c.From) == 0 {
			delete(kept, c.Type)
		}
	}
	want.Drivers = kept
	return out
}
