package daemon

import (
	"context"
	"maps"
	"slices"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// runningState returns the configuration of the running node, whether it came from a file, a document
// or commands. The node and its drivers are the only place where it is stored, so the result is always
// current. It omits peers that were only discovered. runningState must run under changes.inTurn.
func (t *nodeTask) runningState(ctx context.Context) (config.State, error) {
	t.engines.followRenames(t.NIs())
	s := config.State{
		NIs:        t.engines.configured(),
		Parameters: t.allParameters(),
		Policies:   config.Policies{Rules: t.Rules(), TypedRules: t.TypedRules()},
		Buffers:    t.Buffers(),
		Drivers:    t.engines.values,
	}
	if state := t.Routing().State; state == node.RoutingEnabled || state == node.RoutingStarting {
		s.Routing = config.RoutingOn
	}
	s.Routes = t.postponed.all()
	for _, r := range t.Routes() {
		s.Routes = append(s.Routes, config.Route{
			Net: r.Net, Gateway: r.Gateway, RouteOptions: node.RouteOptions{Hops: r.Hops, Priority: r.Priority},
		})
	}
	for p, err := range t.PeersAfter(ctx, 0) {
		if err != nil {
			return s, err
		}
		if p.State.Has(discovery.Configured) {
			s.Peers = append(s.Peers, configuredPeer(&p))
		}
	}
	return s, nil
}

// configuredPeer converts a peer of the node to the form of the configuration.
func configuredPeer(i *node.PeerInfo) config.Peer {
	p := config.Peer{
		Primary: i.Primary, SingleRail: !i.State.Has(discovery.MultiRail), Locked: i.State.Has(discovery.LockPrimary),
		Found: !i.State.Has(discovery.Configured),
	}
	for k := range i.NIs {
		if nid := i.NIs[k].NID; nid != i.Primary {
			p.Others = append(p.Others, nid)
		}
	}
	return p
}

// shown converts the state s, and the settings of lnetd itself in around, to the form of the control
// interface. The keys of around are those of the section "lnetd". Peers keep the order of s, which is
// the order of "export" if s is the node's own state. s may also be a state that the node does not have.
func (b *backend) shown(s *config.State, around map[string]any) api.Configuration {
	c := api.Configuration{
		Nets: []api.Net{}, Routes: []api.Route{}, Peers: make([]api.ConfiguredPeer, len(s.Peers)),
		UDSP: server.ShownRules(s.Rules), Selection: server.ShownTypedRules(s.TypedRules),
		Globals: globalsOf(&s.Parameters), Routing: shownRouting(s), Lnetd: s.Section(b.node.drivers.Options()),
	}
	maps.Copy(c.Lnetd, around)
	for k := range s.NIs {
		ni := &s.NIs[k]
		at := slices.IndexFunc(c.Nets, func(n api.Net) bool { return n.Net == ni.Net })
		if at < 0 {
			at = len(c.Nets)
			c.Nets = append(c.Nets, api.Net{Net: ni.Net})
		}
		c.Nets[at].NIs = append(c.Nets[at].NIs, b.shownNI(ni, s.Drivers))
	}
	for _, r := range s.Routes {
		c.Routes = append(c.Routes, api.Route{Net: r.Net, Gateway: r.Gateway, Hops: r.Hops, Priority: r.Priority})
	}
	slices.SortFunc(c.Routes, compareRoutes) // a node keeps them in random order
	for k := range s.Peers {
		p := &s.Peers[k]
		shown := api.ConfiguredPeer{Primary: p.Primary, MultiRail: !p.SingleRail, NIs: make([]api.ConfiguredPeerNI, 1, 1+len(p.Others))}
		shown.NIs[0].NID = p.Primary
		for _, nid := range p.Others {
			shown.NIs = append(shown.NIs, api.ConfiguredPeerNI{NID: nid})
		}
		c.Peers[k] = shown
	}
	return c
}

func compareRoutes(a, b api.Route) int {
	if c := int(int64(a.Net) - int64(b.Net)); c != 0 {
		return c
	}
	return a.Gateway.Compare(b.Gateway)
}

// shownRouting converts the routing settings of s to the form of the control interface. The result has
// router buffers only if routing is enabled or their numbers differ from the defaults.
func shownRouting(s *config.State) (r api.Routing) {
	buffers := s.Buffers.Resolved()
	if s.Routing != config.RoutingOff {
		r.State, r.Ever = api.RoutingEnabled, true
	}
	if r.Ever || buffers != (node.Buffers{}).Resolved() {
		r.CPTs = []api.Pools{{
			Tiny: api.Pool{Buffers: buffers.Tiny}, Small: api.Pool{Buffers: buffers.Small}, Large: api.Pool{Buffers: buffers.Large},
		}}
	}
	return r
}

// shownNI converts the configuration of an NI, without its state, to the form of the control
// interface: the interface, the NID if it was configured, and the settings. The map values holds the
// options of the drivers, from which defaults are derived.
func (b *backend) shownNI(ni *config.NI, values map[lnet.NetType]config.Values) api.NI {
	shown := api.NI{NID: ni.NID, CPT: allCPTs(b.node.cpts())}
	if ni.CPTs != nil {
		shown.CPT = listCPTs(ni.CPTs)
	}
	shown.Proxy = ni.Proxy
	if device := b.node.engines.deviceOf(ni); device != "" {
		shown.Interfaces = []string{device}
	}
	shown.Tunables = api.Tunables{
		PeerTimeout: int(inSeconds(ni.Tunables.PeerTimeout)), PeerCredits: ni.Tunables.PeerCredits,
		PeerBufferCredits: ni.Tunables.PeerBufferCredits, Credits: ni.Tunables.Credits,
	}
	if ni.Tunables.PeerTimeout < 0 {
		shown.Tunables.PeerTimeout = -1 // the driver's default
	}
	shown.LND = b.node.drivers.of(ni.Net.Type()).listed(b.node.engines.optionsOf(ni, values))
	return shown
}

// namedByNIDs returns copies of both states in which an NI whose interface has a new address is
// identified by its NID. Without the NID, its old and its new form would look the same.
func namedByNIDs(have, want *config.State) (before, after config.State) {
	before, after = *have, *want
	before.NIs, after.NIs = slices.Clone(have.NIs), slices.Clone(want.NIs)
	for k := range after.NIs {
		to := &after.NIs[k]
		for i := range before.NIs {
			if from := &before.NIs[i]; from.Moved(to) {
				from.NID, to.NID = from.Own, to.Own
			}
		}
	}
	return before, after
}
