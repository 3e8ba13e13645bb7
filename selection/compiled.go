package selection

import (
	"slices"

	"github.com/lnetd/lnetd/lnet"
)

// Compiled is a set of policies that is prepared for the current NIs and gateways. It is
// immutable: any goroutine may apply it, even to peers that are created later.
//
// The first rule that matches an object determines the result for it. Applying a Compiled
// always sets the complete result, so the effects of previous rules need not be removed
// first.
type Compiled struct {
	local, peers byNet
	revision     uint64
	// lists holds the preferred NIDs of each rule that has preferences. An element is nil if
	// no current NI or gateway matches the rule.
	lists []*preferences
}

// Compile prepares the policies for the NIs in l and the gateways in t. It must be called
// again when a rule, a local NI, a route or the primary NID of a gateway has changed. The
// caller must then call ApplyLocal, and ApplyPeer for every peer unless SamePeers returns
// true.
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
				continue // without preferred NIDs, the next rule applies
			}
		}
		c.peers.add(a)
	}
	return c
}

// SamePeers reports whether c has the same effect on peers as old, so that ApplyPeer need
// not be called. old may be nil.
func (c *Compiled) SamePeers(old *Compiled) bool {
	if old == nil {
		return c.peers.count == 0
	}
	return c.revision == old.revision && slices.EqualFunc(c.lists, old.lists, (*preferences).equal)
}

// ApplyLocal sets the priorities of the nets and NIs of l.
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

// ApplyPeer sets the priorities and preferences of the peer's nets and NIDs. If a policy
// prefers NIs for a peer NI, these replace the NI that was preferred because it served the
// peer NI first.
//
// If policies change while a peer is created, its creator may apply an outdated Compiled
// after the new one was applied. It must therefore check, after ApplyPeer, that the
// Compiled is still current, and otherwise apply the new one.
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

// matching returns the NIDs of the local NIs that match d.
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

// matching returns the primary NIDs of the gateways that match d.
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

// applicable is a rule together with its effect on the objects that it matches.
type applicable struct {
	match     lnet.Pattern
	action    action
	priority  uint32
	preferred *preferences
	// pairs means that the rule is a RulePeer: it makes local NIs preferred for matching peer
	// NIs. If several such rules with the same priority match a peer NI, all of them apply.
	pairs bool
}

// byNet holds rules by the nets that they can match. A rule for exactly one net is stored
// in one, so that the other nets need not visit it; all other rules are in many. The place
// of a rule is its precedence, from 0, over both maps.
type byNet struct {
	count int
	one   map[lnet.Net][]placedRule
	many  map[lnet.NetType][]placedRule
}

type placedRule struct {
	place int
	rule  *applicable
}

func (b *byNet) add(a applicable) {
	if b.one == nil {
		b.one, b.many = make(map[lnet.Net][]placedRule), make(map[lnet.NetType][]placedRule)
	}
	entry := placedRule{place: b.count, rule: &a}
	b.count++
	if net, ok := a.match.OneNet(); ok {
		b.one[net] = append(b.one[net], entry)
		return
	}
	typ := a.match.NetType()
	b.many[typ] = append(b.many[typ], entry)
}

// of returns the rules that can match objects on the net n, in order of precedence.
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

// netPriority returns the priority that the first matching rule gives to a net. rules are
// the rules for that net.
func netPriority(rules []*applicable) uint32 {
	for _, a := range rules {
		if a.action == setPriority && !a.match.HasAddress() {
			return a.priority
		}
	}
	return NoPriority
}

// ruleResult is the effect of the rules on an NI or a peer NI.
type ruleResult struct {
	priority         uint32
	sources, routers *preferences
}

// decide returns the effect of rules, those for the net of nid, on the NI or peer NI with
// this NID.
func decide(rules []*applicable, nid lnet.NID) ruleResult {
	f := ruleResult{priority: NoPriority}
	found := [...]bool{setPriority: false, setSources: false, setRouters: false}
	var pairs *applicable // the rule that determined the sources
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
