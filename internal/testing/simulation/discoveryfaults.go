package simulation

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// drawRail draws a rail on which the member has an NI.
func (m *member) drawRail(r *rand.Rand) int {
	for {
		if rail := r.IntN(m.w.rails); !m.absent[rail] {
			return rail
		}
	}
}

// changeNIs adds an absent NI of m for good, or removes an NI for good, while m and other exchange
// messages. It does nothing if two members would have no common net left, or if the scenario has
// routers.
func (w *world) changeNIs(r *rand.Rand, m, other *member) {
	for range 1 + r.IntN(2) {
		if w.routers > 0 {
			return
		}
		w.exchange(r, m, other)
		rail := r.IntN(w.rails)
		m.absent[rail] = !m.absent[rail]
		if !w.allConnectedNow() {
			m.absent[rail] = false
			return
		}
		l := m.current()
		w.addf("%v: NI %v absent %t", l, m.nids[rail], m.absent[rail])
		if m.absent[rail] {
			l.removeNI(rail)
		} else {
			l.addNI(rail)
		}
		w.count(FaultNISet, 1)
		w.exchange(r, m, other)
		if r.IntN(2) == 0 {
			pause(faultDuration(r))
		}
	}
}

func (w *world) allConnectedNow() bool {
	absent := make([][]bool, len(w.members))
	for k, m := range w.members {
		absent[k] = m.absent
	}
	return w.allConnected(absent)
}

// switchDiscovery changes the discovery mode of m, usually for a while and sometimes for good.
func (w *world) switchDiscovery(r *rand.Rand, m, other *member) {
	if !w.discovers() {
		return
	}
	l := m.current()
	w.exchange(r, m, other)
	was := m.mode
	switch {
	case r.IntN(6) == 0:
		l.setDiscovery((was + 1) % discovery.Static)
	case was == discovery.On:
		l.setDiscovery(discovery.Off)
	default:
		l.setDiscovery(discovery.On)
	}
	w.exchange(r, m, other)
	if r.IntN(3) > 0 {
		pause(faultDuration(r))
	}
	if r.IntN(4) > 0 {
		l.setDiscovery(was)
		w.exchange(r, m, other)
	}
}

// setDiscovery sets the node's discovery mode.
func (l *life) setDiscovery(mode discovery.Mode) {
	w, m := l.member.w, l.member
	w.addf("%v: discovery %v", l, mode)
	m.mode, m.switched = mode, true
	p := l.node.Admin().Parameters()
	p.Discovery = mode
	if err := l.node.Admin().SetParameters(p); err != nil {
		w.violate("%v: discovery %v: %v", l, mode, err)
	}
	w.count(FaultSwitched, 1)
}

// deletePeer deletes peer b from the node of a. If a is configured with its peers' NIDs, b is configured
// again after a pause.
func (w *world) deletePeer(r *rand.Rand, a, b *member) {
	l := a.current()
	if l == nil {
		return
	}
	w.exchange(r, a, b)
	p, ok := l.node.Peer(b.drawNID(r))
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	remove := l.node.Admin().DeletePeer
	if r.IntN(4) == 0 {
		remove = l.node.Admin().ForceDeletePeer
	}
	err := remove(ctx, p.Primary)
	overtaken := errors.Is(err, discovery.ErrNotFound) || errors.Is(err, discovery.ErrNotPrimary)
	switch {
	case err == nil:
		w.count(FaultPeerRemoved, 1)
	case errors.Is(err, discovery.ErrBusy) && b.isRouter(): // a gateway of routes cannot be deleted
	case overtaken && !a.configured, errors.Is(err, node.ErrClosed) && !l.running():
	default:
		w.violate("%v: delete peer %v: %v", l, p.Primary, err)
	}
	w.exchange(r, a, b)
	pause(faultDuration(r))
	if a.configured {
		l.configure(b)
	}
}

// rediscover requests several discoveries of b by a, and of a by b, without waiting for one to end
// before the next.
func (w *world) rediscover(r *rand.Rand, a, b *member) {
	w.exchange(r, a, b)
	for range 1 + r.IntN(4) {
		if l := a.current(); l != nil {
			w.discover(r, l, b)
			w.count(FaultForced, 1)
		}
		if r.IntN(2) == 0 {
			w.exchange(r, a, b)
		}
		if r.IntN(2) == 0 {
			a, b = b, a
		}
	}
}

// discover starts the discovery of a member by one of its NIDs, and does not wait for its end.
func (w *world) discover(r *rand.Rand, l *life, to *member) {
	nid, force := w.target(r, l.member, to), r.IntN(3) > 0
	if to == l.member {
		nid = lnet.LoopbackNID
	}
	w.later.Go(func() {
		w.discoverNow(l, to, nid, force)
	})
}

// discoverNow discovers a member by its NID and waits for the end. It reports whether the discovery
// succeeded. A result with NIDs of another member is a violation.
func (w *world) discoverNow(l *life, to *member, nid lnet.NID, force bool) bool {
	within := w.discoverWithin() + w.slack()
	if !w.discovers() { // an explicit request waits, unlike messages
		within = callTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	began := w.since()
	w.addf("%v: discover %v, force %t", l, nid, force)
	discover := l.node.Discover
	if force {
		discover = l.node.ForceDiscover
	}
	p, err := discover(ctx, nid)
	w.addf("%v: discovered %v: %v, %v with %d NIs, told %d, %v", l, nid, err, p.Primary, len(p.NIs), p.AckedSeq, p.State)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && w.since()-began >= within:
		w.violate("%v: discovery of %v has no end after %v", l, nid, within)
	case err == nil:
		for _, i := range p.NIs {
			if !to.has(i.NID) {
				w.violate("%v: discovered %v, which has %v", l, nid, i.NID)
			}
		}
	case w.faultless():
		w.violate("%v: the scenario has no faults, but discovery of %v failed: %v", l, nid, err)
	default:
		w.count(FaultUndiscovered, 1)
	}
	return err == nil
}
