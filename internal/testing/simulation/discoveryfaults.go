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

// changeNIs permanently adds an absent NI, or removes one, while peers have its NID. It does nothing if
// members would lose all common nets.
func (w *world) changeNIs(r *rand.Rand, m, other *member) {
	for range 1 + r.IntN(2) {
		if w.routers > 0 {
			return
		}
		w.exchange(r, m, other)
		rail := r.IntN(w.rails)
		m.absent[rail] = !m.absent[rail]
		if !w.joinedNow() {
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
			pause(episode(r))
		}
	}
}

func (w *world) joinedNow() bool {
	absent := make([][]bool, len(w.members))
	for k, m := range w.members {
		absent[k] = m.absent
	}
	return w.joined(absent)
}

// switchDiscovery changes the discovery mode of a member, for a while or for good.
func (w *world) switchDiscovery(r *rand.Rand, m, other *member) {
	if !w.discovers() {
		return
	}
	l := m.current()
	w.exchange(r, m, other)
	was := m.mode
	switch {
	case r.IntN(6) == 0:
		l.turn((was + 1) % discovery.Static)
	case was == discovery.On:
		l.turn(discovery.Off)
	default:
		l.turn(discovery.On)
	}
	w.exchange(r, m, other)
	if r.IntN(3) > 0 {
		pause(episode(r))
	}
	if r.IntN(4) > 0 {
		l.turn(was)
		w.exchange(r, m, other)
	}
}

// turn applies a mode.
func (l *life) turn(mode discovery.Mode) {
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

// forget deletes a peer, named by one of its NIDs, from a node. If the peer was configured by hand, it is
// configured again.
func (w *world) forget(r *rand.Rand, a, b *member) {
	l := a.current()
	if l == nil {
		return
	}
	w.exchange(r, a, b)
	p, ok := l.node.Peer(b.draw(r))
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	case errors.Is(err, discovery.ErrBusy) && b.routes(): // it is the gateway of routes
	case overtaken && !a.configured, errors.Is(err, node.ErrClosed) && !l.running():
	default:
		w.violate("%v: delete peer %v: %v", l, p.Primary, err)
	}
	w.exchange(r, a, b)
	pause(episode(r))
	if a.configured {
		l.configure(b)
	}
}

// rediscover discovers a peer by hand, several times at once.
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

// discover discovers a peer by one of its NIDs.
func (w *world) discover(r *rand.Rand, l *life, to *member) {
	nid, force := w.target(r, l.member, to), r.IntN(3) > 0
	if to == l.member {
		nid = lnet.LoopbackNID
	}
	w.later.Go(func() {
		w.discoverNow(l, to, nid, force)
	})
}

// discoverNow waits until a peer is discovered. It reports whether that succeeded.
func (w *world) discoverNow(l *life, to *member, nid lnet.NID, force bool) bool {
	within := w.discoverWithin() + w.slack()
	if !w.discovers() { // an explicit request waits, unlike messages
		within = patience
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
	w.addf("%v: discovered %v: %v, %v with %d NIs, told %d, %v", l, nid, err, p.Primary, len(p.NIs), p.Told, p.State)
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
		w.violate("%v: nothing was broken, and yet: discover %v: %v", l, nid, err)
	default:
		w.count(FaultUndiscovered, 1)
	}
	return err == nil
}
