package simulation

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// checkHealth checks that the health values of all NIs and peer NIs are in range.
func (w *world) checkHealth() {
	for _, m := range w.members {
		l := m.current()
		if l == nil {
			continue
		}
		for _, i := range l.node.NIs() {
			w.checkValue(l, i.NID, i.Health.Value)
		}
		for _, p := range l.node.Peers() {
			w.checkIdentity(l, &p)
			for _, i := range p.NIs {
				w.checkValue(l, i.NID, i.Health.Value)
			}
		}
	}
}

func (w *world) checkValue(l *life, nid lnet.NID, v int) {
	if v < 0 || v > node.MaxHealth {
		w.violate("%v: health of %v is %d", l, nid, v)
	}
	if v < node.MaxHealth {
		w.count(FaultUnhealthy, 1)
	}
}

// inspect counts whether the node of l ever lacked credits or router buffers. It is called before the
// node is closed.
func (w *world) inspect(l *life) {
	lacked := false
	for _, p := range l.node.Peers() {
		for _, i := range p.NIs {
			lacked = lacked || i.Credits.Min < 0
		}
	}
	for _, i := range l.node.NIs() {
		lacked = lacked || i.Credits.Min < 0
	}
	if lacked {
		w.count(FaultCredits, 1)
	}
	for _, p := range l.node.Admin().Routing().Pools {
		if p.MinCredits < 0 {
			w.count(FaultBuffers, 1)
		}
	}
}

// drain stops the traffic, ends all faults, and waits until every operation has ended.
func (w *world) drain() {
	w.addf("drain")
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.heal()
	w.later.Wait()
	for _, m := range w.members {
		if err := m.current().node.ClearLazy(portalLazy); err != nil {
			w.violate("%v: clear lazy: %v", m, err)
		}
	}
	w.awaitOperations()
	w.finishMachines()
}

// awaitOperations waits until every operation has ended. It records a violation for each that has not
// ended a second after the last deadline.
func (w *world) awaitOperations() {
	for {
		w.mu.Lock()
		open, late := 0, time.Duration(0)
		for _, o := range w.ops {
			if !o.finished() {
				open++
				late = max(late, o.sendBy, o.endBy)
			}
		}
		w.mu.Unlock()
		if open == 0 {
			return
		}
		if w.since() > late+time.Second {
			break
		}
		time.Sleep(250 * time.Millisecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.ops {
		if !o.finished() {
			w.violate("%v does not end: began at %v, %d SEND events (%v), last event %t",
				o, o.began, o.sends, o.sendErr, o.md.ended)
		}
	}
}

// finalAttempts is how often a message or exchange that must succeed after the faults is repeated. The
// first attempt may only detect a dead stream, and nodes pause before they reconnect.
const finalAttempts = 6

// checkReachability checks that every node can reach others after the faults have ended.
func (w *world) checkReachability() {
	w.addf("calm")
	var needs []*requiredMessage
	for k, m := range w.members {
		to := w.members[(k+1)%len(w.members)]
		for rail := range w.rails {
			if m.absent[rail] || to.absent[rail] {
				continue
			}
			if m.mustReach(to) {
				needs = append(needs, &requiredMessage{from: m, to: to, rail: rail, kind: opAcked})
			}
			if to.mustReach(m) {
				needs = append(needs, &requiredMessage{from: to, to: m, rail: rail, kind: opFetch})
			}
		}
	}
	w.sendRequired(needs)
}

// mustReach reports whether m must be able to reach to after the faults. It returns false if m may have
// NIDs of to that have no NI: m was configured by hand, or to is in mode Verify and does not push its
// changes.
func (m *member) mustReach(to *member) bool {
	for _, rail := range m.w.homes[to.index] {
		if (m.configured || to.mode == discovery.Verify) && to.absent[rail] {
			return false
		}
	}
	return true
}

// requiredMessage is a message that must be delivered and answered after the faults have ended.
type requiredMessage struct {
	from, to *member
	rail     int
	kind     opKind
	op       *operation
}

// sendRequired sends the messages, and repeats those that were not answered. It records a violation for
// each that is not answered after finalAttempts repetitions.
func (w *world) sendRequired(needs []*requiredMessage) {
	for round := 0; len(needs) > 0; round++ {
		if round > 0 {
			w.result.Retried += uint64(len(needs))
			time.Sleep(time.Second)
		}
		for _, n := range needs {
			o := w.newOperation(n.kind, n.to, n.to.nids[n.rail])
			o.length = 100
			n.op = o
			n.to.current().oneShot(o, portalOneShot, fitExact, anyone, 1)()
			n.from.current().launch(o)
		}
		w.awaitOperations()
		var left []*requiredMessage
		w.mu.Lock()
		for _, n := range needs {
			if n.op.delivered == 0 || n.op.acks+n.op.replies == 0 {
				left = append(left, n)
			}
		}
		w.mu.Unlock()
		needs = left
		if round == finalAttempts {
			for _, n := range needs {
				w.violate("all faults are over, and %v still cannot reach %v: %v, SEND error %v, %d delivered",
					n.from, n.to, n.op, n.op.sendErr, n.op.delivered)
			}
			return
		}
	}
}

// idleWithin is the time limit for all nodes to become idle after the last operation (see busy).
const idleWithin = 30 * time.Second

// finish closes all nodes and networks, and checks the outcome of every operation and the content of all
// memory.
func (w *world) finish() {
	w.addf("finish")
	w.awaitIdle()
	w.unlinkAll()
	for _, m := range w.members {
		m.end(false)
	}
	if conns := w.network.Conns(); len(conns) > 0 {
		w.violate("%d streams are left", len(conns))
	}
	w.mu.Lock()
	w.faultsOfNetwork(w.network.Faults())
	w.faultsOfVerbs(w.rdma.Faults())
	for _, m := range w.members {
		w.result.Faults[FaultWallJump] += m.wall.hits
	}
	w.mu.Unlock()
	w.network.Close()
	w.rdma.Close()
	for _, o := range w.ops {
		w.checkOutcome(o)
	}
	for _, d := range w.descriptors {
		if !d.failed {
			d.check()
		}
		w.memory.release(d.memory)
	}
	for _, r := range w.regions {
		w.memory.release(r)
	}
	w.result.Violations = w.failures
}

// awaitIdle waits until every node is idle. It records a violation if a node is not idle within
// idleWithin.
func (w *world) awaitIdle() {
	deadline := w.since() + idleWithin
	for _, m := range w.members {
		l := m.current()
		for {
			what := l.busy()
			if what == "" {
				break
			}
			if w.since() > deadline {
				w.violate("%v is not idle: %s", l, what)
				break
			}
			time.Sleep(250 * time.Millisecond)
		}
	}
}

// busy describes one thing that is in progress on the node: a message, a tracker, a discovery, or
// credits and buffers in use. It returns "" if the node is idle.
func (l *life) busy() string {
	c := l.node.Admin().Counters()
	if c.Committed != 0 || c.Trackers != 0 {
		return fmt.Sprintf("%d messages, %d trackers", c.Committed, c.Trackers)
	}
	for _, i := range l.node.NIs() {
		if i.Credits.Available != i.Credits.Max {
			return fmt.Sprintf("%v has %d of %d credits", i.NID, i.Credits.Available, i.Credits.Max)
		}
	}
	for k, p := range l.node.Admin().Routing().Pools {
		if p.Credits != p.Buffers {
			return fmt.Sprintf("router pool %d has %d of %d buffers", k, p.Credits, p.Buffers)
		}
	}
	for _, p := range l.node.Peers() {
		if p.State.Has(underWay) {
			return fmt.Sprintf("peer %v is %v", p.Primary, p.State)
		}
		for _, i := range p.NIs {
			if i.RouterCredits.Available != i.RouterCredits.Max {
				return fmt.Sprintf("peer %v has %d of %d router credits", i.NID, i.RouterCredits.Available, i.RouterCredits.Max)
			}
			if i.Credits.Available != i.Credits.Max || i.QueuedBytes != 0 {
				return fmt.Sprintf("peer %v has %d of %d credits, %d bytes queued",
					i.NID, i.Credits.Available, i.Credits.Max, i.QueuedBytes)
			}
		}
	}
	return ""
}

// unlinkAll unlinks all remaining MDs. No operation uses them, so the last event of each must come
// before Unlink returns.
func (w *world) unlinkAll() {
	w.mu.Lock()
	ds := w.descriptors
	w.mu.Unlock()
	for _, d := range ds {
		w.mu.Lock()
		linked := !d.ended && !d.failed && !d.owner.closed && d.handle.Interface != 0
		w.mu.Unlock()
		if !linked {
			continue
		}
		d.owner.unlink(d)
		w.mu.Lock()
		if !d.ended {
			w.violate("%v: no last event", d)
		}
		w.mu.Unlock()
	}
}

// fullySucceeded reports whether an operation had the outcome that it must have in a scenario without
// faults.
func (o *operation) fullySucceeded() bool {
	answered := o.kind == opPlain || o.acks+o.replies == 1
	switch {
	case o.sendErr != nil:
		return o.giveUp > 0 || o.refusedOverVerbs()
	case o.never:
		return o.delivered == 0
	case o.giveUp > 0, o.portal == portalMailbox:
		return true
	}
	return o.delivered == 1 && answered
}

// served returns how often the target served a GET. Over RDMA, it also counts an answer that failed at
// the target, because the answer may have arrived although the connection was lost.
func (o *operation) served() int {
	if o.from.member.w.verbs.rails != nil && o.delivered == 0 {
		return o.broken
	}
	return o.delivered
}

// refusedOverVerbs reports whether the operation is a GET over RDMA that failed because it matched no
// entry. Only RDMA reports that to the initiator (o2iblnd 10.4).
func (o *operation) refusedOverVerbs() bool {
	return o.kind == opFetch && o.never && o.from.member.w.verbs.rails != nil && errors.Is(o.sendErr, syscall.ENODATA)
}

// checkOutcome checks that the events of an operation are consistent, and that it succeeded if the
// scenario has no faults. It also counts the faults that the outcome shows.
func (w *world) checkOutcome(o *operation) {
	if o.from == nil || o.refused != nil {
		return
	}
	dead := o.from.number != o.from.member.lives-1
	if o.sends != 1 {
		w.violate("%v: %d SEND events", o, o.sends)
	}
	if o.acks > 0 && o.delivered != 1 {
		w.violate("%v: acknowledged, and delivered %d times", o, o.delivered)
	}
	if o.replies > 0 && o.served() != 1 {
		w.violate("%v: answered, and served %d times", o, o.delivered)
	}
	if w.faultless() && !o.fullySucceeded() {
		w.violate("%v: the scenario has no faults, but the operation failed: SEND error %v, delivered %d times, %d ACKs, %d REPLYs",
			o, o.sendErr, o.delivered, o.acks, o.replies)
	}
	gone := o.sends == 1 && o.sendErr == nil && !o.target.IsLoopback()
	switch {
	case o.kind == opFetch && o.delivered > 0 && o.replies+o.stale == 0 && !dead && o.giveUp == 0:
		w.result.Faults[FaultLostReply]++
	case o.kind == opAcked && o.delivered > 0 && o.acks+o.stale == 0 && !dead && o.giveUp == 0:
		w.result.Faults[FaultLostAck]++
	case gone && o.portal == portalEmpty:
		w.result.Faults[FaultNoEntry]++
	case gone && o.never && o.entry != nil && o.entry.memory.n < o.length:
		w.result.Faults[FaultSmallMD]++
	case o.late > 0 && o.delivered > 0 && o.takenAt >= o.began+o.late:
		w.result.Faults[FaultLazyQueue]++
	}
}
