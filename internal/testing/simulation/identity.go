package simulation

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// checkIdentity checks a node's view of a peer: it must never contain the NIDs of two nodes, whatever
// goes wrong. A node may be its own peer, because messages to its own NIDs go over the network (decisions
// 1).
func (w *world) checkIdentity(l *life, p *node.PeerInfo) {
	owner := w.owner(p.Primary)
	if owner == nil {
		w.violate("%v: peer %v is nobody", l, p.Primary)
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

// agreement is the time limit for discovery rounds that the last messages started.
const agreement = time.Minute

// agree makes every two members exchange one more message, and then checks that each has a correct view
// of the other (decisions 19).
func (w *world) agree() {
	if !w.discovers() {
		return
	}
	w.addf("agree")
	w.meet(w.needs(func(a, b *member) bool { return true }))
	for _, a := range w.members {
		for _, b := range w.members {
			// Peers are not notified when discovery is switched on (discovery 5.2).
			if a != b && a.may(b) && (a.switched || b.switched) {
				w.find(a, b)
			}
		}
	}
	w.rest()
	// Each rail detects separately that a member has begun a new life. Each time, the view of that member
	// becomes invalid.
	for range w.rails * w.rails {
		needs := w.needs(w.outdated)
		if len(needs) == 0 {
			break
		}
		w.meet(needs)
		w.rest()
	}
	for _, a := range w.members {
		for _, b := range w.members {
			if a != b && a.may(b) {
				w.compare(a, b)
			}
		}
	}
}

// needs returns an exchange of messages for each selected pair of members.
func (w *world) needs(which func(a, b *member) bool) []*need {
	var needs []*need
	for _, a := range w.members {
		for _, b := range w.members {
			if a != b && a.may(b) && which(a, b) {
				needs = append(needs, &need{from: a, to: b, rail: w.sharedRail(a.absent, b.absent), kind: opAcked})
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

// find makes a discover b.
func (w *world) find(a, b *member) {
	nid := b.nids[w.sharedRail(a.absent, b.absent)]
	for round := 0; !w.discoverNow(a.current(), b, nid, false); round++ {
		if round == calmRounds {
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

// rest waits until all rounds have ended successfully.
func (w *world) rest() {
	deadline := w.since() + agreement
	for w.restless() && w.since() < deadline { // quiet reports those that do not end
		time.Sleep(250 * time.Millisecond)
	}
}

// restless reports whether a round is in progress, or has failed and will be repeated between two members
// that can reach each other.
func (w *world) restless() bool {
	for _, a := range w.members {
		n := a.current().node
		for _, p := range n.Peers() {
			if p.State.Has(underWay) {
				return true
			}
		}
		for _, b := range w.members {
			if a == b || !a.may(b) {
				continue
			}
			if p, _ := n.Peer(b.nids[w.sharedRail(a.absent, b.absent)]); p.State.Has(discovery.Rediscover) {
				return true
			}
		}
	}
	return false
}

// compare compares a's view of b with b itself.
func (w *world) compare(a, b *member) {
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
	case !b.may(a): // and b has not sent since, so it may have changes to announce
		return
	case a.mode == discovery.On && b.mode == discovery.On:
		info := lb.node.PingInfo()
		want = node.PeerInfo{MultiRail: true, Seq: info.Seq, Told: la.node.PingInfo().Seq}
		if p.Seq == 0 { // no push of it came, and it answered as another node (discovery 6.7)
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
		want = node.PeerInfo{Primary: nid, Seq: p.Seq, Told: p.Told}
		wantNIDs = []lnet.NID{nid}
	}
	slices.SortFunc(wantNIDs, lnet.NID.Compare)
	w.result.Views++
	if a.configured {
		want.Seq, want.Told = p.Seq, p.Told
	}
	if p.Primary != want.Primary || p.MultiRail != want.MultiRail || p.Seq != want.Seq || p.Told != want.Told || !slices.Equal(nids, wantNIDs) {
		w.violate("%v knows %v as %v with %v, seq %d, told %d, %v; it is %v with %v, seq %d, told %d, Multi-Rail %t",
			la, lb, p.Primary, nids, p.Seq, p.Told, p.State, want.Primary, wantNIDs, want.Seq, want.Told, want.MultiRail)
	}
}
