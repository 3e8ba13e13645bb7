package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// rule adds a fault rule to the node of a for a while, during which a and b exchange messages.
func (w *world) rule(r *rand.Rand, a, b *member, f Fault) {
	l := a.current()
	if l == nil {
		return
	}
	status := lnd.StatusLocalInterrupt + lnd.Status(r.IntN(int(lnd.StatusNetworkTimeout)))
	only := lnet.MsgType(r.IntN(int(lnet.MsgHello) + 1))
	latency := 1 + time.Duration(r.Int64N(int64(delayMax)))
	one := rule(f, status, 1+r.IntN(3), latency, only)
	if err := l.node.Admin().AddFault(one); err != nil {
		w.violate("%v: add rule %+v: %v", l, one, err)
		return
	}
	for range 3 {
		w.exchange(r, a, b)
		pause(faultDuration(r) / 3)
	}
	w.count(f, removeRules(l.node, one.Kind))
}

// setHealth sets the health of an NI of a, or of a peer NI of b on a.
func (w *world) setHealth(r *rand.Rand, a, b *member) {
	l := a.current()
	if l == nil {
		return
	}
	value := r.IntN(node.MaxHealth + 1)
	if r.IntN(2) == 0 {
		_ = l.node.Admin().SetNIHealth(a.drawNID(r), value) // the NI may have been removed
	} else {
		_ = l.node.Admin().SetPeerHealth(b.drawNID(r), value) // the peer may be unknown
	}
	w.exchange(r, a, b)
	w.checkHealth()
}

// unlinkTargets unlinks about a third of the MDs on b's portals while messages from a arrive.
func (w *world) unlinkTargets(r *rand.Rand, a, b *member) {
	l := b.current()
	if l == nil {
		return
	}
	for range 4 {
		w.exchange(r, a, b)
	}
	w.mu.Lock()
	var targets []*descriptor
	for _, d := range w.descriptors {
		if d.owner == l && d.op == nil && !d.ended && !d.failed && d.handle.Interface != 0 && r.IntN(3) == 0 {
			targets = append(targets, d)
		}
	}
	w.mu.Unlock()
	time.Sleep(time.Duration(r.Int64N(int64(10 * time.Millisecond))))
	for _, d := range targets {
		l.unlink(d)
	}
	w.count(FaultUnlinked, uint64(len(targets)))
}

// clearLazy sends messages from a to the lazy portal of b, where no entry matches them, and then
// discards them there.
func (w *world) clearLazy(r *rand.Rand, a, b *member) {
	l := b.current()
	if l == nil {
		return
	}
	for range 3 {
		o := w.newOperation(opAcked, b, b.drawNID(r))
		o.portal, o.never, o.length = portalLazy, true, r.IntN(8<<10)
		if from := a.current(); from != nil {
			from.launch(o)
		}
	}
	pause(faultDuration(r))
	dropped := l.node.Admin().Counters().Dropped
	if err := l.node.ClearLazy(portalLazy); err != nil {
		w.violate("%v: clear lazy: %v", l, err)
	}
	w.count(FaultLazyCleared, l.node.Admin().Counters().Dropped-dropped)
	if err := l.node.SetLazy(portalLazy); err != nil {
		w.violate("%v: lazy portal: %v", l, err)
	}
}
