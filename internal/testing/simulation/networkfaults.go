package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
)

// networkFaults are the faults of the TCP network. breakNetwork causes them.
var networkFaults = [...]Fault{
	FaultCut, FaultHalfClose, FaultStall, FaultReset, FaultPartition, FaultOneWay, FaultSlow, FaultRace, FaultLostReply,
	FaultRuleDrop, FaultRuleFail, FaultRuleDelay, FaultUnhealthy, FaultPeerRemoved,
	FaultUnlinked, FaultLazyCleared, FaultForced, FaultForced, FaultPeerRemoved,
}

// faultDurationMax is the upper limit of faultDuration.
const faultDurationMax = 6 * time.Second

// faultDuration draws the duration of a fault: up to a second, or in a third of the cases up to
// faultDurationMax.
func faultDuration(r *rand.Rand) time.Duration {
	d := 100*time.Millisecond + time.Duration(r.Int64N(int64(900*time.Millisecond)))
	if r.IntN(3) == 0 {
		d = time.Duration(r.Int64N(int64(faultDurationMax)))
	}
	return d
}

// breakNetwork causes the planned faults of the network, one after the other, distributed over the
// duration of the scenario.
func (w *world) breakNetwork(r *rand.Rand) {
	for _, f := range w.networkFaults {
		pause(time.Duration(r.Int64N(int64(w.duration) / int64(len(w.networkFaults)))))
		a, b := w.pair(r)
		w.addf("%v: %v, %v", f, a, b)
		switch f {
		case FaultCut:
			w.cut(r, a, b, simlnd.CutReset)
		case FaultHalfClose:
			w.cut(r, a, b, simlnd.CutEnd)
		case FaultStall:
			w.stall(r, a, b)
		case FaultReset:
			w.exchange(r, a, b)
			w.count(FaultReset, uint64(w.network.Break(a.host, b.host)))
		case FaultPartition:
			w.partition(r, a, b, simlnd.Both, f)
		case FaultOneWay:
			w.partition(r, a, b, simlnd.Forward, f)
		case FaultSlow:
			w.slow(r, a, b)
		case FaultRace:
			w.race(r, a, b)
		case FaultLostReply:
			w.loseReply(r, a, b)
		case FaultRuleDrop, FaultRuleFail, FaultRuleDelay:
			w.rule(r, a, b, f)
		case FaultUnhealthy:
			w.setHealth(r, a, b)
		case FaultPeerRemoved:
			w.deletePeer(r, a, b)
		case FaultForced:
			w.rediscover(r, a, b)
		case FaultUnlinked:
			w.unlinkTargets(r, a, b)
		case FaultLazyCleared:
			w.clearLazy(r, a, b)
		}
		w.addf("%v: over", f)
	}
}

// count counts n effects of a fault. w.mu is not held.
func (w *world) count(f Fault, n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Faults[f] += n
}

// exchange makes two members send a few messages to each other, so that a fault between them has an
// effect.
func (w *world) exchange(r *rand.Rand, a, b *member) {
	for range 1 + r.IntN(4) {
		n := w.length(r)
		if r.IntN(4) == 0 {
			n = w.fabric.SendBuffer/2 + r.IntN(64<<10) // more than a stream's buffer holds
		}
		if l := a.current(); l != nil {
			l.launch(w.drawOperation(r, l, b, n))
		}
		a, b = b, a
	}
}

// streams returns the TCP connections between two members.
func (w *world) streams(a, b *member) []*simlnd.Conn { return w.network.ConnsBetween(a.host, b.host) }

// cut breaks each stream between two members, in one direction, when some more bytes have been sent.
func (w *world) cut(r *rand.Rand, a, b *member, m simlnd.CutMode) {
	w.exchange(r, a, b)
	for _, c := range w.streams(a, b) {
		d := simlnd.Forward + simlnd.Direction(r.IntN(2))
		c.Cut(d, c.Sent(d)+r.Uint64N(1<<r.IntN(12)), m)
	}
	w.exchange(r, a, b)
}

// stall stops one direction of the streams between two members, for a while or until all faults have
// ended. It models a receiver that does not read. It does not model a network that stops, which would
// also stop acknowledgements.
func (w *world) stall(r *rand.Rand, a, b *member) {
	w.exchange(r, a, b)
	d := simlnd.Forward + simlnd.Direction(r.IntN(2))
	conns := w.streams(a, b)
	sent := make([]uint64, len(conns))
	for k, c := range conns {
		sent[k] = c.Sent(d)
		c.Stall(d)
	}
	w.exchange(r, a, b)
	pause(faultDuration(r))
	forever := r.IntN(4) == 0
	for k, c := range conns {
		if c.Sent(d) > sent[k] {
			w.count(FaultStall, 1)
		}
		if !forever {
			c.Resume(d)
		}
	}
}

// heal ends the faults that still have an effect: stalled streams and faulty RDMA links.
func (w *world) heal() {
	for _, c := range w.network.Conns() {
		c.Resume(simlnd.Both)
	}
	w.healVerbs()
}

// partition separates two members in direction d for a while. It counts fault f if the partition
// affected a message.
func (w *world) partition(r *rand.Rand, a, b *member, d simlnd.Direction, f Fault) {
	if r.IntN(2) == 0 {
		w.exchange(r, a, b)
	}
	sent := w.sentBetween(a, b)
	lost := w.network.Faults().RequestsLost
	w.network.Partition(a.host, b.host, d)
	w.exchange(r, a, b)
	pause(faultDuration(r))
	if w.sentBetween(a, b) > sent || w.network.Faults().RequestsLost > lost {
		w.count(f, 1)
	}
	w.network.Heal(a.host, b.host, d)
}

func (w *world) sentBetween(a, b *member) (n uint64) {
	for _, c := range w.streams(a, b) {
		n += c.Sent(simlnd.Both)
	}
	return n
}

// slow makes b receive slowly from a for a while.
func (w *world) slow(r *rand.Rand, a, b *member) {
	sent := w.sentBetween(a, b)
	link := w.fabric.Link
	link.Bandwidth = slowest + r.Int64N(64<<10)
	w.network.SetLink(a.host, b.host, simlnd.Forward, link)
	for range 4 {
		w.exchange(r, a, b)
	}
	pause(faultDuration(r))
	if w.sentBetween(a, b) > sent {
		w.count(FaultSlow, 1)
	}
	w.network.SetLink(a.host, b.host, simlnd.Forward, w.fabric.Link)
}

// race breaks the connections between two members and makes both connect to each other at the same time.
func (w *world) race(r *rand.Rand, a, b *member) {
	there := w.network.Hold(a.host, b.host, simlnd.Forward)
	back := w.network.Hold(a.host, b.host, simlnd.Backward)
	w.network.Break(a.host, b.host)
	for range 20 {
		w.exchange(r, a, b)
		pause(50 * time.Millisecond)
		if there.Waiting() > 0 && back.Waiting() > 0 {
			w.count(FaultRace, 1)
			break
		}
	}
	there.Release()
	back.Release()
}

// loseReply makes a send a GET to b, and breaks the connection when b answers, so that the answer is
// lost.
func (w *world) loseReply(r *rand.Rand, a, b *member) {
	w.exchange(r, a, b)
	pause(100 * time.Millisecond)
	from, to := a.current(), b.current()
	if from == nil || to == nil {
		return
	}
	o := w.newOperation(opFetch, b, b.drawNID(r))
	o.length = 64 + r.IntN(4<<10)
	for _, c := range w.streams(a, b) {
		d := simlnd.Forward
		if a.hasAddress(c.From().Addr()) {
			d = simlnd.Backward
		}
		c.Cut(d, c.Sent(d)+1+r.Uint64N(90), simlnd.CutReset)
	}
	o.answered = func() {
		w.network.Break(a.host, b.host)
		w.rdma.Break(a.verbs, b.verbs)
	}
	to.oneShot(o, portalOneShot, fitExact, anyone, 1)()
	from.launch(o)
}
