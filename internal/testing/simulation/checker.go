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

// checkHealth checks that all health values are in range.
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

// inspect adds the counters of a node to the report before the node is closed.
func (w *world) inspect(l *life) {
	starved := false
	for _, p := range l.node.Peers() {
		for _, i := range p.NIs {
			starved = starved || i.Credits.Min < 0
		}
	}
	for _, i := range l.node.NIs() {
		starved = starved || i.Credits.Min < 0
	}
	if starved {
		w.count(FaultCredits, 1)
	}
	for _, p := range l.node.Admin().Routing().Pools {
		if p.MinCredits < 0 {
			w.count(FaultBuffers, 1)
		}
	}
}

// drain stops the traffic and waits until every operation has ended.
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
	w.settle()
	w.settleMachines()
}

// settle waits until every operation has ended, or is overdue.
func (w *world) settle() {
	for {
		w.mu.Lock()
		open, late := 0, time.Duration(0)
		for _, o := range w.ops {
			if !o.settled() {
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
		if !o.settled() {
			w.violate("%v does not end: began at %v, %d SEND events (%v), last event %t",
				o, o.began, o.sends, o.sendErr, o.md.ended)
		}
	}
}

// calmRounds is the largest number of attempts after the faults have ended. Nodes need several: an
// attempt to send detects a dead stream, and they pause before they reconnect.
const calmRounds = 6

// calm checks that every node can reach others after the faults have ended.
func (w *world) calm() {
	w.addf("calm")
	var needs []*need
	for k, m := range w.members {
		to := w.members[(k+1)%len(w.members)]
		for rail := range w.rails {
			if m.absent[rail] || to.absent[rail] {
				continue
			}
			if m.may(to) {
				needs = append(needs, &need{from: m, to: to, rail: rail, kind: opAcked})
			}
			if to.may(m) {
				needs = append(needs, &need{from: to, to: m, rail: rail, kind: opFetch})
			}
		}
	}
	w.meet(needs)
}

// may reports whether m must be able to reach another member. It returns false if m may have NIDs that do
// not exist: because m was configured by hand, or because the other member only verifies and does not
// push.
func (m *member) may(to *member) bool {
	for _, rail := range m.w.homes[to.index] {
		if (m.configured || to.mode == discovery.Verify) && to.absent[rail] {
			return false
		}
	}
	return true
}

// need is a message that must get from one member to another.
type need struct {
	from, to *member
	rail     int
	kind     opKind
	op       *operation
}

// meet sends messages until each was answered.
func (w *world) meet(needs []*need) {
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
		w.settle()
		var left []*need
		w.mu.Lock()
		for _, n := range needs {
			if n.op.delivered == 0 || n.op.acks+n.op.replies == 0 {
				left = append(left, n)
			}
		}
		w.mu.Unlock()
		needs = left
		if round == calmRounds {
			for _, n := range needs {
				w.violate("all faults are over, and %v still cannot reach %v: %v, SEND error %v, %d delivered",
					n.from, n.to, n.op, n.op.sendErr, n.op.delivered)
			}
			return
		}
	}
}

// quietWithin is the time limit for gauges to return to their initial values after the last operation.
const quietWithin = 30 * time.Second

// finish closes everything and checks what is left.
func (w *world) finish() {
	w.addf("finish")
	w.quiet()
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
		w.judge(o)
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

// quiet waits until credits, queues and messages are as they were at the start.
func (w *world) quiet() {
	deadline := w.since() + quietWithin
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

// busy describes what is in progress on a node. It returns "" if nothing is.
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

// unlinkAll unlinks all remaining descriptors. Nothing is in progress on any of them, so each must have
// its last event immediately.
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

// blessed reports whether an operation succeeded in every respect, as it must without faults.
func (o *operation) blessed() bool {
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

// served returns how often a GET was served. Over RDMA, the server cannot know whether the answer arrived
// if the connection is lost.
func (o *operation) served() int {
	if o.from.member.w.verbs.rails != nil && o.delivered == 0 {
		return o.broken
	}
	return o.delivered
}

// refusedOverVerbs reports whether the operation is a GET that matched no entry. Over RDMA the initiator
// is notified of that (o2iblnd 10.4).
func (o *operation) refusedOverVerbs() bool {
	return o.kind == opFetch && o.never && o.from.member.w.verbs.rails != nil && errors.Is(o.sendErr, syscall.ENODATA)
}

// judge checks the outcome of an operation at the end.
func (w *world) judge(o *operation) {
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
	if w.faultless() && !o.blessed() {
		w.violate("%v: nothing was broken, and yet: SEND error %v, delivered %d times, %d ACKs, %d REPLYs",
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
