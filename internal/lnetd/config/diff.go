package config

import (
	"maps"
	"reflect"
	"slices"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Diff returns the steps that change a node from state have to state want, in an order that a
// node accepts. The order is: removals, dependents first (routes, peers, NIs); options of
// drivers; policies; parameters; additions in the opposite order; buffers. Policies are therefore
// in force before anything that they apply to exists, and remain in force until it is gone.
// Routing comes last, whether it is enabled or disabled, because a router that has begun to stop
// must restart to be restored.
//
// The inverses in reverse order lead back to have, except that NIs that were removed come after
// the others.
//
// A change of a driver's options replaces the driver, so all NIs on its nets are removed and
// added again. Dependents are removed before and added after: peers with NIDs on a net and routes
// by gateways on it, when the net loses its last NI or gains its first one; routes by a peer that
// changes; and routes to a net that an NI joins. Positions in files are not compared, nor is the
// order of peers and routes. The order of NIs is compared, because the first one determines the
// node's primary NID.
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

// differ records which NIs, peers and routes stay unchanged. All others are removed or added.
type differ struct {
	have, want *State

	// drivers are the changes of drivers; replaced holds their net types.
	drivers  []Step
	replaced map[lnet.NetType]bool

	nis    map[niKey]bool
	peers  map[lnet.NID]bool // by primary NID
	routes map[routeKey]bool
	// unstableNets holds the nets without an NI that stays throughout. When the last NI of such a net is
	// removed, on the way there or back, everything that depends on the net is removed too.
	unstableNets map[lnet.Net]bool
	// havePeers and wantPeers are the present and the wanted peers, by primary NID.
	havePeers, wantPeers map[lnet.NID]*Peer
}

func newDiffer(have, want *State, drivers []DriverOptions) *differ {
	d := &differ{
		have: have, want: want,
		nis: map[niKey]bool{}, peers: map[lnet.NID]bool{}, routes: map[routeKey]bool{}, unstableNets: map[lnet.Net]bool{},
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

// keepNIs finds the NIs that stay. It returns the nets that new NIs join.
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

// keepPeers finds the peers that stay unchanged. It returns the NIDs of the others.
func (d *differ) keepPeers() (changed map[lnet.NID]bool) {
	changed = map[lnet.NID]bool{}
	for _, peers := range []map[lnet.NID]*Peer{d.havePeers, d.wantPeers} {
		for primary, p := range peers {
			h, w := d.havePeers[primary], d.wantPeers[primary]
			if h != nil && w != nil && h.equal(w) && !d.onUnstableNet(h) {
				d.peers[primary] = true
				continue
			}
			for _, nid := range p.nids() {
				changed[nid] = true
			}
		}
	}
	return changed
}

// onUnstableNet reports whether the peer has a NID on a net that is temporarily without NIs.
func (d *differ) onUnstableNet(p *Peer) bool {
	return slices.ContainsFunc(p.nids(), func(n lnet.NID) bool { return d.unstableNets[n.Net()] })
}

// remainingPeer returns the part of an existing peer that stays until its new NIDs are added, or nil.
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

// changedNIs returns the changes of NIs that stay but get other tunables.
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

// order returns a step that reorders the NIs if they are out of order after all have been added.
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
		if rest := d.remainingPeer(p); rest == nil || len(rest.Others) < len(p.Others) {
			steps = append(steps, Change[Peer]{From: p, To: rest})
		}
	}
	return steps
}

func (d *differ) addedPeers() (steps []Step) {
	for k := range d.want.Peers {
		p := &d.want.Peers[k]
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

// policies returns the change of all policies if now is true and they differ.
func (d *differ) policies(now bool) []Step {
	h, w := &d.have.Policies, &d.want.Policies
	if !now || h.equal(w) {
		return nil
	}
	return []Step{Change[Policies]{h, w}}
}

// changeDrivers finds the drivers whose options differ.
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

// Forgets returns a function that reports whether a node forgets a discovered peer while it
// changes from have to want. It does if all NIs on one of the peer's nets are removed, or routes
// by the peer are.
func Forgets(have, want *State, drivers []DriverOptions) func(*Peer) bool {
	d := newDiffer(have, want, drivers)
	gone := map[lnet.NID]bool{}
	for k := range have.Routes {
		if r := &have.Routes[k]; !d.routes[r.key()] {
			gone[r.Gateway] = true
		}
	}
	return func(p *Peer) bool {
		return d.onUnstableNet(p) || slices.ContainsFunc(p.nids(), func(n lnet.NID) bool { return gone[n] })
	}
}

// KeepDrivers changes want so that it does not replace drivers of which have contains NIs. It
// returns the driver changes that it dropped.
func KeepDrivers(have, want *State) (out []Step) {
	kept := maps.Clone(want.Drivers)
	for _, s := range newDiffer(have, want, nil).drivers {
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
