package selection

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// Compiled are policies made ready for the NIs and gateways that there are. They
// never change: any goroutine may apply them, also to peers that appear later.
//
// Of the rules about an object the first decides. So whatever was changed, the
// result of applying is that of the rules as they are, and nothing has to be
// undone.
type Compiled struct {
	local, peers byNet
	revision     uint64
	// lists are whom each rule about preferences prefers, nil for nobody.
	lists []*preferences
}

// Compile makes the policies ready. It has to be done again when a rule, a local
// NI, a route or the primary NID of a gateway has changed; then ApplyLocal, and,
// unless SamePeers says that they need it not, ApplyPeer for every peer.
func (p *Policies) Compile(l *Local, t *Routing) *Compiled {
	c := &Compiled{revision: p.revision}
	for k, r := range p.effective() {
		a := applicable{match: r.Dst, action: setPriority, priority: r.Priority}
		switch {
		case r.Dst.IsZero():
			a.match = r.Src
			c.local.add(a)
			continue
		case !r.Src.IsZero():
			a.action, a.preferred = setSources, newPreferences(l.matching(r.Src))
			a.pairs = k >= len(p.rules)
		case !r.Rte.IsZero():
			a.action, a.preferred = setRouters, newPreferences(t.matching(r.Rte))
		}
		if a.action != setPriority {
			c.lists = append(c.lists, a.preferred)
			if a.preferred == nil {
				continue // who prefers nobody leaves the choice to the next
			}
		}
		c.peers.add(a)
	}
	return c
}

// SamePeers tells whether c does to peers what old did, which may be nil.
func (c *Compiled) SamePeers(old *Compiled) bool {
	if old == nil {
		return c.peers.count == 0
	}
	return c.revision == old.revision && slices.EqualFunc(c.lists, old.lists, (*preferences).equal)
}

// ApplyLocal gives the nets and NIs of l their priorities.
func (c *Compiled) ApplyLocal(l *Local) {
	nets := l.Nets
	if l.loopback != nil {
		nets = append(slices.Clone(nets), l.loopback)
	}
	for _, n := range nets {
		rules := c.local.of(n.ID)
		n.priority.set(netPriority(rules))
		for _, i := range n.NIs {
			i.priority.set(decide(rules, i.NID).priority)
		}
	}
}

// ApplyPeer gives the peer's nets and NIDs their priorities and preferences.
// What a policy prefers replaces the NI that first served a peer NI. Peers that
// are made while policies change may be reached by an old Compiled last: whoever
// makes one looks afterwards whether the one that it applied is still in force,
// and else applies the new one too.
func (c *Compiled) ApplyPeer(p *Peer) {
	for _, n := range p.Nets {
		rules := c.peers.of(n.ID)
		n.priority.set(netPriority(rules))
		for _, i := range n.NIs {
			f := decide(rules, i.NID)
			i.priority.set(f.priority)
			i.sources.Store(f.sources)
			i.routers.Store(f.routers)
			if f.sources != nil {
				i.first.Store(nil)
			}
		}
	}
}

// matching are the NIDs of the NIs that d covers.
func (l *Local) matching(d lnet.Pattern) []lnet.NID {
	var nids []lnet.NID
	for _, n := range l.Nets {
		for _, i := range n.NIs {
			if d.MatchNID(i.NID) {
				nids = append(nids, i.NID)
			}
		}
	}
	return nids
}

// matching are the primary NIDs of the gateways that d covers.
func (t *Routing) matching(d lnet.Pattern) []lnet.NID {
	if t == nil {
		return nil
	}
	var nids []lnet.NID
	seen := make(map[lnet.NID]struct{})
	for _, r := range t.all {
		p := r.Gateway.peer.Load()
		if p == nil || !d.MatchNID(p.Primary) {
			continue
		}
		if _, twice := seen[p.Primary]; !twice {
			seen[p.Primary] = struct{}{}
			nids = append(nids, p.Primary)
		}
	}
	return nids
}

type action uint8

const (
	setPriority action = iota
	setSources
	setRouters
)

// applicable is a rule with what it does to whom it matches.
type applicable struct {
	match     lnet.Pattern
	action    action
	priority  uint32
	preferred *preferences
	// pairs says that the rule ties each of the preferred NIs to each NID that it matches, beside
	// other such rules with the same priority.
	pairs bool
}

// byNet finds the rules about a net in their order. A rule about one net is
// kept with that net, so that a peer only meets those that may concern it; the
// places say how both lists go together.
type byNet struct {
	count int
	one   map[lnet.Net][]placed
	many  map[lnet.NetType][]placed
}

type placed struct {
	place int
	rule  *applicable
}

func (b *byNet) add(a applicable) {
	if b.one == nil {
		b.one, b.many = make(map[lnet.Net][]placed), make(map[lnet.NetType][]placed)
	}
	entry := placed{place: b.count, rule: &a}
	b.count++
	if net, ok := a.match.OneNet(); ok {
		b.one[net] = append(b.one[net], entry)
		return
	}
	typ := a.match.NetType()
	b.many[typ] = append(b.many[typ], entry)
}

// of are the rules about a net, the most important first.
func (b *byNet) of(n lnet.Net) []*applicable {
	one, many := b.one[n], b.many[n.Type()]
	rules := make([]*applicable, 0, len(one)+len(many))
	for len(one)+len(many) > 0 {
		if len(many) == 0 || len(one) > 0 && one[0].place < many[0].place {
			rules, one = append(rules, one[0].rule), one[1:]
			continue
		}
		if many[0].rule.match.MatchNet(n) {
			rules = append(rules, many[0].rule)
		}
		many = many[1:]
	}
	return rules
}

// netPriority is what rules about a net come to.
func netPriority(rules []*applicable) uint32 {
	for _, a := range rules {
		if a.action == setPriority && !a.match.HasAddress() {
			return a.priority
		}
	}
	return NoPriority
}

// fate is what rules make of an NI or a peer NI.
type fate struct {
	priority         uint32
	sources, routers *preferences
}

// decide finds what the rules about its net come to for a NID.
func decide(rules []*applicable, nid lnet.NID) fate {
	f := fate{priority: NoPriority}
	found := [...]bool{setPriority: false, setSources: false, setRouters: false}
	var pairs *applicable // that decided about sources
	for _, a := range rules {
		if pairs != nil && a.pairs && a.priority == pairs.priority && a.match.MatchNID(nid) {
			f.sources = f.sources.with(a.preferred)
			continue
		}
		if found[a.action] || a.action == setPriority && !a.match.HasAddress() || !a.match.MatchNID(nid) {
			continue
		}
		found[a.action] = true
		switch a.action {
		case setPriority:
			f.priority = a.priority
		case setSources:
			if f.sources = a.preferred; a.pairs {
				pairs = a
			}
		case setRouters:
			f.routers = a.preferred
		}
	}
	return f
}
