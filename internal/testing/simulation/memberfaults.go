package simulation

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node/fault"
)

// memberFaults are the faults of nodes. One goroutine inflicts them.
var memberFaults = [...]Fault{
	FaultRestart, FaultRestart, FaultDuplicateCookie, FaultLinkDown, FaultNIRemoved, FaultWallJump,
	FaultNISet, FaultNISet, FaultSwitched, FaultSwitched,
}

// breakMembers inflicts the faults of nodes, distributed over the scenario.
func (w *world) breakMembers(r *rand.Rand) {
	for _, f := range w.memberFaults {
		pause(time.Duration(r.Int64N(int64(w.duration) / int64(len(w.memberFaults)))))
		m, other := w.pair(r)
		if w.routers > 0 && other.routes() && r.IntN(2) == 0 {
			m, other = other, m
		}
		w.addf("%v: %v", f, m)
		switch f {
		case FaultRestart:
			w.restart(r, m, other, rebirthNew)
			w.count(FaultRestart, 1)
		case FaultDuplicateCookie:
			w.restart(r, m, other, rebirthCookie+rebirth(r.IntN(2)))
		case FaultLinkDown:
			w.linkDown(r, m, other)
		case FaultNIRemoved:
			w.removeNI(r, m, other)
		case FaultVerbsRemoved, FaultVerbsMoved:
			w.changeDevice(r, m, other, f)
		case FaultNISet:
			w.changeNIs(r, m, other)
		case FaultSwitched:
			w.switchDiscovery(r, m, other)
		case FaultWallJump:
			d := time.Duration(r.Int64N(int64(1000 * time.Hour)))
			if r.IntN(2) == 0 {
				d = -d
			}
			m.wall.jump(d)
			if r.IntN(2) == 0 {
				w.restart(r, m, other, rebirthNew)
			} else {
				w.removeNI(r, m, other)
			}
		}
		w.addf("%v: over", f)
	}
}

// restart ends a member's life and starts another.
func (w *world) restart(r *rand.Rand, m, other *member, how rebirth) {
	w.exchange(r, m, other)
	if how != rebirthNew || r.IntN(3) == 0 {
		w.haunt(r, m, other, how)
		return
	}
	if m.routes() {
		w.count(FaultRouterLost, 1)
	}
	m.end(r.IntN(3) > 0)
	if l := other.current(); l != nil {
		l.launch(w.draw(r, l, m, w.length(r))) // to a handle that does not exist
	}
	if r.IntN(2) == 0 {
		pause(episode(r))
	}
	m.start(how)
	w.exchange(r, m, other)
}

// haunt restarts a member while answers to it are delayed. The new life uses the same handles, so it may
// receive them.
func (w *world) haunt(r *rand.Rand, m, other *member, how rebirth) {
	l, asked := m.current(), other.current()
	first := l.burn(0)
	for _, t := range [...]lnet.MsgType{lnet.MsgAck, lnet.MsgReply} {
		if err := asked.node.Admin().AddFault(rule(FaultRuleDelay, 0, 1, delayMax, t)); err != nil {
			w.violate("%v: add rule: %v", asked, err)
		}
	}
	w.ask(r, l, other)
	pause(delayMax / 4)
	m.end(r.IntN(3) > 0)
	m.start(how)
	if l = m.current(); l != nil {
		l.burn(first)
		w.ask(r, l, other)
	}
	pause(delayMax)
	w.count(FaultRuleDelay, removeRules(asked.node, fault.Delay))
}

// ask sends a few requests that are answered.
func (w *world) ask(r *rand.Rand, l *life, to *member) {
	for range 6 {
		o := w.newOperation(opAcked+opKind(r.IntN(2)), to, to.draw(r))
		o.length = r.IntN(1024)
		to.current().oneShot(o, portalOneShot, fitExact, anyone, 1)()
		l.launch(o)
	}
}

// burn creates descriptors until the next one has at least the given object cookie, and returns that
// one's cookie.
func (l *life) burn(until uint64) uint64 {
	for {
		h, err := l.node.Bind(portals.MD{})
		if err != nil {
			l.member.w.violate("%v: bind: %v", l, err)
			return 0
		}
		if err := l.node.Unlink(h); err != nil {
			l.member.w.violate("%v: unlink: %v", l, err)
		}
		if h.Object >= until {
			return h.Object
		}
	}
}

// linkDown takes a device down for a while.
func (w *world) linkDown(r *rand.Rand, m, other *member) {
	w.exchange(r, m, other)
	rail := m.drawRail(r)
	m.devices[rail].SetUp(false)
	w.exchange(r, m, other)
	pause(episode(r))
	for _, i := range m.current().node.NIs() {
		if i.NID == m.nids[rail] && i.Link == lnd.LinkDown {
			w.count(FaultLinkDown, 1)
		}
	}
	m.devices[rail].SetUp(true)
}

// removeNI removes an NI for a while.
func (w *world) removeNI(r *rand.Rand, m, other *member) {
	w.exchange(r, m, other)
	rail := m.drawRail(r)
	l := m.current()
	l.removeNI(rail)
	w.exchange(r, m, other)
	if r.IntN(2) == 0 {
		pause(episode(r))
	}
	l.addNI(rail)
	l.addRoutes()
	w.count(FaultNIRemoved, 1)
}

// hasAddress reports whether an address belongs to the member.
func (m *member) hasAddress(a netip.Addr) bool {
	for _, nid := range m.nids {
		if nid.IP() == a {
			return true
		}
	}
	return false
}
