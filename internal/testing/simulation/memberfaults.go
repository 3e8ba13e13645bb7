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

// memberFaults are the faults of nodes. breakMembers causes them.
var memberFaults = [...]Fault{
	FaultRestart, FaultRestart, FaultDuplicateCookie, FaultLinkDown, FaultNIRemoved, FaultWallJump,
	FaultNISet, FaultNISet, FaultSwitched, FaultSwitched,
}

// breakMembers causes the planned faults of nodes, one after the other, distributed over the duration of
// the scenario.
func (w *world) breakMembers(r *rand.Rand) {
	for _, f := range w.memberFaults {
		pause(time.Duration(r.Int64N(int64(w.duration) / int64(len(w.memberFaults)))))
		m, other := w.pair(r)
		if w.routers > 0 && other.isRouter() && r.IntN(2) == 0 {
			m, other = other, m
		}
		w.addf("%v: %v", f, m)
		switch f {
		case FaultRestart:
			w.restart(r, m, other, restartNew)
			w.count(FaultRestart, 1)
		case FaultDuplicateCookie:
			w.restart(r, m, other, restartSameCookie+restartKind(r.IntN(2)))
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
				w.restart(r, m, other, restartNew)
			} else {
				w.removeNI(r, m, other)
			}
		}
		w.addf("%v: over", f)
	}
}

// restart ends the node of m and starts a new one, under traffic with other.
func (w *world) restart(r *rand.Rand, m, other *member, how restartKind) {
	w.exchange(r, m, other)
	if how != restartNew || r.IntN(3) == 0 {
		w.restartWithDelayedAnswers(r, m, other, how)
		return
	}
	if m.isRouter() {
		w.count(FaultRouterLost, 1)
	}
	m.end(r.IntN(3) > 0)
	if l := other.current(); l != nil {
		l.launch(w.drawOperation(r, l, m, w.length(r))) // its answer will be for a handle that no longer exists
	}
	if r.IntN(2) == 0 {
		pause(faultDuration(r))
	}
	m.start(how)
	w.exchange(r, m, other)
}

// restartWithDelayedAnswers restarts m while answers from other to m are delayed. If the new node has
// the same interface cookie, it uses the same handles and may receive these answers.
func (w *world) restartWithDelayedAnswers(r *rand.Rand, m, other *member, how restartKind) {
	l, asked := m.current(), other.current()
	first := l.advanceCookie(0)
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
		l.advanceCookie(first)
		w.ask(r, l, other)
	}
	pause(delayMax)
	w.count(FaultRuleDelay, removeRules(asked.node, fault.Delay))
}

// ask sends a few operations with an answer, PUTs with ACK and GETs, from l to member to.
func (w *world) ask(r *rand.Rand, l *life, to *member) {
	for range 6 {
		o := w.newOperation(opAcked+opKind(r.IntN(2)), to, to.drawNID(r))
		o.length = r.IntN(1024)
		to.current().oneShot(o, portalOneShot, fitExact, anyone, 1)()
		l.launch(o)
	}
}

// advanceCookie binds and unlinks MDs until the object cookie of an MD is at least until, and returns
// that cookie.
func (l *life) advanceCookie(until uint64) uint64 {
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

// linkDown takes one device of m down for a while. It counts the fault if the NI reported the link as
// down.
func (w *world) linkDown(r *rand.Rand, m, other *member) {
	w.exchange(r, m, other)
	rail := m.drawRail(r)
	m.devices[rail].SetUp(false)
	w.exchange(r, m, other)
	pause(faultDuration(r))
	for _, i := range m.current().node.NIs() {
		if i.NID == m.nids[rail] && i.Link == lnd.LinkDown {
			w.count(FaultLinkDown, 1)
		}
	}
	m.devices[rail].SetUp(true)
}

// removeNI removes an NI of m for a while.
func (w *world) removeNI(r *rand.Rand, m, other *member) {
	w.exchange(r, m, other)
	rail := m.drawRail(r)
	l := m.current()
	l.removeNI(rail)
	w.exchange(r, m, other)
	if r.IntN(2) == 0 {
		pause(faultDuration(r))
	}
	l.addNI(rail)
	l.addRoutes()
	w.count(FaultNIRemoved, 1)
}

// hasAddress reports whether the IP address belongs to one of the member's NIDs.
func (m *member) hasAddress(a netip.Addr) bool {
	for _, nid := range m.nids {
		if nid.IP() == a {
			return true
		}
	}
	return false
}
