package simulation

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// checkIdentity records a violation if a peer of l's node has NIDs of more than one member, which no
// fault excuses. A node may be its own peer, because messages to its own NIDs go over the network
// (decisions 1).
func (w *world) checkIdentity(l *life, p *node.PeerInfo) {
	owner := w.owner(p.Primary)
	if owner == nil {
		w.violate("%v: the primary NID of peer %v belongs to no node", l, p.Primary)
		return
	}
	for _, i := range p.NIs {
		if !owner.has(i.NID) {
			w.violate("%v: peer %v of %v has %v", l, p.Primary, owner, i.NID)
		}
	}
}

// owner returns the member with a NID, or nil.
func (w *world) owner(nid lnet.NID) *member {
	for _, m := range w.members {
		if m.has(nid) {
			return m
		}
	}
	return nil
}

// viewsWithin is the time limit for the discovery rounds that the last messages started.
const viewsWithin = time.Minute

// checkViews makes every two members exchange one more message, and then checks that what each knows
// about the other is correct (decisions 19).
func (w *world) checkViews() {
	if !w.discovers() {
		return
	}
	w.addf("agree")
	w.sendRequired(w.requiredMessages(func(a, b *member) bool { return true }))
	for _, a := range w.members {
		for _, b := range w.members {
			// Peers are not notified when discovery is switched on (discovery 5.2).
			if a != b && a.mustReach(b) && (a.switched || b.switched) {
				w.mustDiscover(a, b)
			}
		}
	}
	w.awaitDiscovery()
	// A node detects on each rail separately that a member has restarted. Each time, it must discover that
	// member again.
	for range w.rails * w.rails {
		needs := w.requiredMessages(w.outdated)
		if len(needs) == 0 {
			break
		}
		w.sendRequired(needs)
		w.awaitDiscovery()
	}
	for _, a := range w.members {
		for _, b := range w.members {
			if a != b && a.mustReach(b) {
				w.checkView(a, b)
			}
		}
	}
}

// requiredMessages returns a message from a to b for each pair of members for which which returns true.
func (w *world) requiredMessages(which func(a, b *member) bool) []*requiredMessage {
	var needs []*requiredMessage
	for _, a := range w.members {
		for _, b := range w.members {
			if a != b && a.mustReach(b) && which(a, b) {
				needs = append(needs, &requiredMessage{from: a, to: b, rail: w.sharedRail(a.absent, b.absent), kind: opAcked})
			}
		}
	}
	return needs
}

// outdated reports whether a's next message to b waits for discovery.
func (w *world) outdated(a, b *member) bool {
	p, ok := a.current().node.Peer(b.nids[w.sharedRail(a.absent, b.absent)])
	return ok && !p.State.Has(discovery.NIDsUpToDate)
}

// mustDiscover makes a discover b, and repeats that after a failure. It records a violation if the
// attempt fails after finalAttempts repetitions too.
func (w *world) mustDiscover(a, b *member) {
	nid := b.nids[w.sharedRail(a.absent, b.absent)]
	for round := 0; !w.discoverNow(a.current(), b, nid, false); round++ {
		if round == finalAttempts {
			w.violate("all faults are over, and %v cannot discover %v", a, b)
			return
		}
		w.result.Retried++
		time.Sleep(time.Second)
	}
}

// underWay are the states in which discovery is in progress, including a push that a round did not wait
// for.
const underWay = discovery.Discovering | discovery.PingSent | discovery.PushSent

// awaitDiscovery waits until no discovery round is pending, for up to viewsWithin.
func (w *world) awaitDiscovery() {
	deadline := w.since() + viewsWithin
	for w.discoveryPending() && w.since() < deadline { // awaitIdle reports a round that does not end
		time.Sleep(250 * time.Millisecond)
	}
}

// discoveryPending reports whether a discovery round is in progress, or will be repeated after a failure
// although the two members can reach each other.
func (w *world) discoveryPending() bool {
	for _, a := range w.members {
		n := a.current().node
		for _, p := range n.Peers() {
			if p.State.Has(underWay) {
				return true
			}
		}
		for _, b := range w.members {
			if a == b || !a.mustReach(b) {
				continue
			}
			if p, _ := n.Peer(b.nids[w.sharedRail(a.absent, b.absent)]); p.State.Has(discovery.Rediscover) {
				return true
			}
		}
	}
	return false
}

// checkView records a violation if what a knows about b differs from what b announces or what a was
// configured with. It returns without a check if faults or settings allow a difference.
func (w *world) checkView(a, b *member) {
	la, lb := a.current(), b.current()
	nid := b.nids[w.sharedRail(a.absent, b.absent)]
	p, ok := la.node.Peer(nid)
	if !ok {
		w.violate("%v does not know %v", la, nid)
		return
	}
	var nids []lnet.NID
	for _, i := range p.NIs {
		nids = append(nids, i.NID)
	}
	slices.SortFunc(nids, lnet.NID.Compare)
	var want node.PeerInfo
	var wantNIDs []lnet.NID
	switch {
	case a.configured && la.cut: // the configured NIDs were removed with the net (discovery 8.3)
		return
	case a.configured:
		want = node.PeerInfo{Primary: b.nids[0], MultiRail: true}
		wantNIDs = slices.Clone(b.nids)
	case a.mode == discovery.Verify, b.mode == discovery.Verify:
		return
	case !b.mustReach(a): // b could not send to a, so a may not know the latest changes of b
		return
	case a.mode == discovery.On && b.mode == discovery.On:
		info := lb.node.PingInfo()
		want = node.PeerInfo{MultiRail: true, Seq: info.Seq, AckedSeq: la.node.PingInfo().Seq}
		if p.Seq == 0 { // b sent no push, and a ping answer of b named another node (discovery 6.7)
			want.Seq = 0
		}
		want.Primary, _ = info.Primary()
		for _, i := range info.NIs {
			if !i.NID.IsLoopback() {
				wantNIDs = append(wantNIDs, i.NID)
			}
		}
	case a.switched || b.switched:
		return
	default:
		want = node.PeerInfo{Primary: nid, Seq: p.Seq, AckedSeq: p.AckedSeq}
		wantNIDs = []lnet.NID{nid}
	}
	slices.SortFunc(wantNIDs, lnet.NID.Compare)
	w.result.Views++
	if a.configured {
		want.Seq, want.AckedSeq = p.Seq, p.AckedSeq
	}
	if p.Primary != want.Primary || p.MultiRail != want.MultiRail || p.Seq != want.Seq || p.AckedSeq != want.AckedSeq || !slices.Equal(nids, wantNIDs) {
		w.violate("%v knows %v as %v with %v, seq %d, told %d, %v; it is %v with %v, seq %d, told %d, Multi-Rail %t",
			la, lb, p.Primary, nids, p.Seq, p.AckedSeq, p.State, want.Primary, wantNIDs, want.Seq, want.AckedSeq, want.MultiRail)
	}
}
