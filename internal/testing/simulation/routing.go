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

// routedNets is the number of nets in a scenario with routers. The first members route between them. Each
// other member is on one net.
const routedNets = 3

// drawRouters adds routers to a scenario.
func (s *scenario) drawRouters(r *rand.Rand) {
	s.routers = 1 + r.IntN(2)
	s.nodes = s.routers + 3 + r.IntN(4)
	s.rails, s.oneNet = routedNets, false
	s.checkInterval = time.Duration(1+r.IntN(3)) * time.Second
	if r.IntN(2) == 0 {
		s.buffers = node.Buffers{Tiny: 1 + r.IntN(8), Small: 1 + r.IntN(8), Large: 1 + r.IntN(3)}
	}
}

// drawHomes sets the rails on which members have NIs.
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

// routes reports whether the member is a router.
func (m *member) routes() bool { return m.index < m.w.routers }

// draw draws one of the member's NIDs.
func (m *member) draw(r *rand.Rand) lnet.NID {
	home := m.w.homes[m.index]
	return m.nids[home[r.IntN(len(home))]]
}

// target draws a NID of the member to as the target of a message from another member. Without faults, it
// returns a router's NID on the sender's net: other members learn its other NIDs only when they first
// check the gateway.
func (w *world) target(r *rand.Rand, from, to *member) lnet.NID {
	if w.faultless() && to.routes() {
		return to.towards(from.nids[w.homes[from.index][0]])
	}
	return to.draw(r)
}

// towards returns the member's NID on the net of nid. Otherwise it returns the first NID, which a router
// connects.
func (m *member) towards(nid lnet.NID) lnet.NID {
	home := m.w.homes[m.index]
	if rail := m.w.rail(nid); slices.Contains(home, rail) {
		return m.nids[rail]
	}
	return m.nids[home[0]]
}

// rail returns the rail of a NID.
func (w *world) rail(nid lnet.NID) int {
	for _, o := range w.members {
		if k := slices.Index(o.nids, nid); k >= 0 {
			return k
		}
	}
	return 0
}

// routed reports whether a NID belongs to a router.
func (w *world) routed(nid lnet.NID) bool {
	o := w.owner(nid)
	return o != nil && o.routes()
}

// addRoutes adds routes to the nets that the node is not on, unless it has them already.
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
			err := l.node.Admin().AddRoute(ctx, w.net(rail), router.nids[home], node.RouteOptions{})
			if err != nil && !errors.Is(err, node.ErrExists) && l.running() {
				w.violate("%v: add route to %v by %v: %v", l, w.net(rail), router, err)
			}
		}
	}
}
