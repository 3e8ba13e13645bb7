package config

import (
	"maps"
	"reflect"
	"slices"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Diff returns the steps that make a node which is have into one which is want, in an
// order in which a node takes them: what goes, what stands on others first (routes, peers,
// NIs); options of drivers; policies; parameters; what comes, in the opposite order;
// buffers. So policies are in force before there is anything that they are about, and as
// long. The inverses in the opposite order lead back, but that NIs which went are behind the
// others. Routing is last, whether it begins or ends: a router that has begun to stop has to
// start anew on the way back.
//
// A driver is replaced when its options change, so all NIs on its nets go and come back.
// What stands on something that goes or comes goes before and comes back after it:
// with the last and the first NI of a net the peers that have NIDs there and the
// routes by gateways there; with a peer that changes the routes by it; and routes to
// a net that an NI joins. Where entries stand in files is no difference, nor is the order of
// peers and routes. That of NIs is: the first one has the node's primary NID.
func Diff(have, want *State) []Step {
	d := newDiffer(have, want)
	var steps []Step
	steps = append(steps, d.routesThatGo()...)
	steps = append(steps, d.peersThatGo()...)
	steps = append(steps, d.nisThatGo()...)
	steps = append(steps, d.drivers...)
	steps = append(steps, d.policies(want.Policies.empty())...)

	if have.Parameters != want.Parameters {
		steps = append(steps, Change[Parameters]{&have.Parameters, &want.Parameters})
	}

	steps = append(steps, d.policies(!want.Policies.empty())...)
	steps = append(steps, d.nisThatChange()...)
	steps = append(steps, d.nisThatCome()...)
	steps = append(steps, d.order()...)
	steps = append(steps, d.peersThatCome()...)
	steps = append(steps, d.routesThatCome()...)
	if have.Buffers != want.Buffers {
		steps = append(steps, Change[node.Buffers]{&have.Buffers, &want.Buffers})
	}
	if (have.Routing == RoutingOff) != (want.Routing == RoutingOff) { // how it begins makes no difference later
		steps = append(steps, Change[Routing]{&have.Routing, &want.Routing})
	}
	return steps
}

// differ knows what stays as it is. What stands in neither map goes, or comes.
type differ struct {
	have, want *State

	// drivers are the changes of drivers, and replaced the net types that they are for.
	drivers  []Step
	replaced map[lnet.NetType]bool

	nis    map[niKey]bool
	peers  map[lnet.NID]bool // by primary NID
	routes map[routeKey]bool
	// away are the nets without an NI that is there all the time: when the last one
	// goes, on the way there or back, it takes along what stands on the net.
	away map[lnet.Net]bool
	// haves are the peers that there are, wants those that shall be.
	haves, wants map[lnet.NID]*Peer
}

func newDiffer(have, want *State) *differ {
	d := &differ{
		have: have, want: want,
		nis: map[niKey]bool{}, peers: map[lnet.NID]bool{}, routes: map[routeKey]bool{}, away: map[lnet.Net]bool{},
		haves: byKey(have.Peers, func(p *Peer) lnet.NID { return p.Primary }),
		wants: byKey(want.Peers, func(p *Peer) lnet.NID { return p.Primary }),
	}
	d.changeDrivers()
	joined := d.keepNIs()
	changed := d.keepPeers()
	wanted := byKey(want.Routes, (*Route).key)
	for k := range have.Routes {
		r := &have.Routes[k]
		o := wanted[r.key()]
		d.routes[r.key()] = o != nil && r.equal(o) &&
			!d.away[r.Gateway.Net()] && !joined[r.Net] && !changed[r.Gateway]
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

// keepNIs finds the NIs that stay, and returns the nets that others join.
func (d *differ) keepNIs() (joined map[lnet.Net]bool) {
	haves := byKey(d.have.NIs, (*NI).key)
	joined = map[lnet.Net]bool{}
	for k := range d.want.NIs {
		i := &d.want.NIs[k]
		o := haves[i.key()]
		if d.nis[i.key()] = o != nil && !d.replaced[i.Net.Type()] && (i.equal(o) || o.changesInPlace(i)); !d.nis[i.key()] {
			joined[i.Net] = true
		}
	}
	for _, i := range slices.Concat(d.have.NIs, d.want.NIs) {
		d.away[i.Net] = true
	}
	for k := range d.have.NIs {
		if i := &d.have.NIs[k]; d.nis[i.key()] {
			delete(d.away, i.Net)
		}
	}
	return joined
}

// keepPeers finds the peers that stay as they are, and returns the NIDs of the
// others.
func (d *differ) keepPeers() (changed map[lnet.NID]bool) {
	changed = map[lnet.NID]bool{}
	for _, peers := range []map[lnet.NID]*Peer{d.haves, d.wants} {
		for primary, p := range peers {
			h, w := d.haves[primary], d.wants[primary]
			if h != nil && w != nil && h.equal(w) && !d.onAway(h) {
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

// onAway tells whether a peer has a NID on a net that is away for a while.
func (d *differ) onAway(p *Peer) bool {
	return slices.ContainsFunc(p.nids(), func(n lnet.NID) bool { return d.away[n.Net()] })
}

// remains is what of a peer that there is remains until NIDs come; nil: nothing.
func (d *differ) remains(p *Peer) *Peer {
	w := d.wants[p.Primary]
	if w == nil || w.SingleRail != p.SingleRail || w.Locked != p.Locked || d.onAway(p) {
		return nil
	}
	rest := p.shared(w)
	return &rest
}

func (d *differ) nisThatGo() (steps []Step) {
	for k := range slices.Backward(d.have.NIs) {
		if i := &d.have.NIs[k]; !d.nis[i.key()] {
			steps = append(steps, Change[NI]{From: i})
		}
	}
	return steps
}

// nisThatChange are those that stay, with other tunables.
func (d *differ) nisThatChange() (steps []Step) {
	haves := byKey(d.have.NIs, (*NI).key)
	for k := range d.want.NIs {
		if i := &d.want.NIs[k]; d.nis[i.key()] && !i.equal(haves[i.key()]) {
			steps = append(steps, Change[NI]{From: haves[i.key()], To: i})
		}
	}
	return steps
}

func (d *differ) nisThatCome() (steps []Step) {
	for k := range d.want.NIs {
		if i := &d.want.NIs[k]; !d.nis[i.key()] {
			steps = append(steps, Change[NI]{To: i})
		}
	}
	return steps
}

// order puts the NIs in order, if they are not when all have come.
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

func (d *differ) peersThatGo() (steps []Step) {
	for k := range slices.Backward(d.have.Peers) {
		p := &d.have.Peers[k]
		if rest := d.remains(p); rest == nil || len(rest.Others) < len(p.Others) {
			steps = append(steps, Change[Peer]{From: p, To: rest})
		}
	}
	return steps
}

func (d *differ) peersThatCome() (steps []Step) {
	for k := range d.want.Peers {
		p := &d.want.Peers[k]
		var rest *Peer
		if h := d.haves[p.Primary]; h != nil {
			rest = d.remains(h)
		}
		if rest == nil || len(rest.Others) < len(p.Others) {
			steps = append(steps, Change[Peer]{From: rest, To: p})
		}
	}
	return steps
}

func (d *differ) routesThatGo() (steps []Step) {
	for k := range slices.Backward(d.have.Routes) {
		if r := &d.have.Routes[k]; !d.routes[r.key()] {
			steps = append(steps, Change[Route]{From: r})
		}
	}
	return steps
}

func (d *differ) routesThatCome() (steps []Step) {
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

// policies changes them as a whole, if it is their turn.
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

// Forgets returns a function that reports whether a node on its way from have to want forgets a
// peer that discovery has found: all NIs on a net of it go, or routes by it do.
func Forgets(have, want *State) func(*Peer) bool {
	d := newDiffer(have, want)
	gone := map[lnet.NID]bool{}
	for k := range have.Routes {
		if r := &have.Routes[k]; !d.routes[r.key()] {
			gone[r.Gateway] = true
		}
	}
	return func(p *Peer) bool {
		return d.onAway(p) || slices.ContainsFunc(p.nids(), func(n lnet.NID) bool { return gone[n] })
	}
}

// KeepDrivers changes want so that no driver on whose nets have has NIs is replaced. It
// returns the changes that it takes out.
func KeepDrivers(have, want *State) (out []Step) {
	kept := maps.Clone(want.Drivers)
	for _, s := range newDiffer(have, want).drivers {
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
