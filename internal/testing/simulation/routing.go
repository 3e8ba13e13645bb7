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

// routedNets is the number of nets in a scenario with routers. The first members are routers and are on
// all nets. Each other member is on one net.
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

// drawHomes sets the rails on which each member has NIs.
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

// isRouter reports whether the member is a router.
func (m *member) isRouter() bool { return m.index < m.w.routers }

// drawNID draws one of the member's NIDs on its rails.
func (m *member) drawNID(r *rand.Rand) lnet.NID {
	home := m.w.homes[m.index]
	return m.nids[home[r.IntN(len(home))]]
}

// target draws a NID of member to as the target of a message from member from. If the scenario has no
// faults and to is a router, it returns the router's NID on the sender's net, because members learn the
// other NIDs only when they first check the gateway.
func (w *world) target(r *rand.Rand, from, to *member) lnet.NID {
	if w.faultless() && to.isRouter() {
		return to.nidTowards(from.nids[w.homes[from.index][0]])
	}
	return to.drawNID(r)
}

// nidTowards returns the member's NID on the rail of nid. If the member is not on that rail, it returns
// the member's first NID, which is reachable through a router.
func (m *member) nidTowards(nid lnet.NID) lnet.NID {
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

// isRouterNID reports whether a NID belongs to a router.
func (w *world) isRouterNID(nid lnet.NID) bool {
	o := w.owner(nid)
	return o != nil && o.isRouter()
}

// addRoutes adds routes to the nets that the node is not on, unless it has them already.
func (l *life) addRoutes() {
	m, w := l.member, l.member.w
	if w.routers == 0 || m.isRouter() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
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
