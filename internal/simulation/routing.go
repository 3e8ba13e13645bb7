package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// routedNets is how many nets there are in a scenario with routers. The first
// members route between them; each of the others is on one net.
const routedNets = 3

// drawRouters makes a scenario one with routers.
func (s *scenario) drawRouters(r *rand.Rand) {
	s.routers = 1 + r.IntN(2)
	s.nodes = s.routers + 3 + r.IntN(4)
	s.rails, s.oneNet = routedNets, false
	s.checkInterval = time.Duration(1+r.IntN(3)) * time.Second
	if r.IntN(2) == 0 {
		s.buffers = node.Buffers{Tiny: 1 + r.IntN(8), Small: 1 + r.IntN(8), Large: 1 + r.IntN(3)}
	}
}

// drawHomes says which rails members have NIs on.
func (s *scenario) drawHomes() {
	for k := range s.nodes {
		var home []int
		for rail := range s.rails {
			if s.routers == 0 || k < s.routers || rail == k%s.rails {
				home = append(home, rail)
			}
		}
		s.homes = append(s.homes, home)
	}
}

// routes says that the member is a router.
func (m *member) routes() bool { return m.index < m.w.routers }

// draw draws one of the member's NIDs.
func (m *member) draw(r *rand.Rand) lnet.NID {
	home := m.w.homes[m.index]
	return m.nids[home[r.IntN(len(home))]]
}

// target draws the NID of a member that a message from another one is for. While all
// is well a router is called by the NID on the sender's net: its other NIDs are known
// to be its own from the first check of the gateway on.
func (w *world) target(r *rand.Rand, from, to *member) lnet.NID {
	if w.faultless() && to.routes() {
		return to.towards(from.nids[w.homes[from.index][0]])
	}
	return to.draw(r)
}

// towards is the member's NID that is on the net of another one, or else the
// first one: a router is in between.
func (m *member) towards(nid lnet.NID) lnet.NID {
	home := m.w.homes[m.index]
	if rail := m.w.rail(nid); slices.Contains(home, rail) {
		return m.nids[rail]
	}
	return m.nids[home[0]]
}

// rail is the rail of a NID.
func (w *world) rail(nid lnet.NID) int {
	for _, o := range w.members {
		if k := slices.Index(o.nids, nid); k >= 0 {
			return k
		}
	}
	return 0
}

// routed tells whether a NID is a router's.
func (w *world) routed(nid lnet.NID) bool {
	o := w.owner(nid)
	return o != nil && o.routes()
}

// addRoutes tells the node the ways to the nets that it is not on, unless it
// knows them.
func (l *life) addRoutes() {
	m, w := l.member, l.member.w
	if w.routers == 0 || m.routes() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	home := w.homes[m.index][0]
	for rail := range w.rails {
		for _, router := range w.members[:w.routers] {
			if rail == home {
				continue
			}
			err := l.node.AddRoute(ctx, w.net(rail), router.nids[home], node.RouteOptions{})
			if err != nil && !errors.Is(err, node.ErrExists) && l.running() {
				w.violate("%v: add route to %v by %v: %v", l, w.net(rail), router, err)
			}
		}
	}
}
