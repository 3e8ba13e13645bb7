package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// rule adds fault rules to a node, which affect what it exchanges with another.
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
		pause(episode(r) / 3)
	}
	w.count(f, removeRules(l.node, one.Kind))
}

// hurt sets health values by hand.
func (w *world) hurt(r *rand.Rand, a, b *member) {
	l := a.current()
	if l == nil {
		return
	}
	value := r.IntN(node.MaxHealth + 1)
	if r.IntN(2) == 0 {
		_ = l.node.Admin().SetNIHealth(a.draw(r), value) // the NI may have been removed
	} else {
		_ = l.node.Admin().SetPeerHealth(b.draw(r), value) // the peer may be unknown
	}
	w.exchange(r, a, b)
	w.checkHealth()
}

// unlinkTargets unlinks some of a node's targets while messages for them arrive.
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

// clearLazy discards the messages that wait on a node's lazy portal.
func (w *world) clearLazy(r *rand.Rand, a, b *member) {
	l := b.current()
	if l == nil {
		return
	}
	for range 3 {
		o := w.newOperation(opAcked, b, b.draw(r))
		o.portal, o.never, o.length = portalLazy, true, r.IntN(8<<10)
		if from := a.current(); from != nil {
			from.launch(o)
		}
	}
	pause(episode(r))
	dropped := l.node.Admin().Counters().Dropped
	if err := l.node.ClearLazy(portalLazy); err != nil {
		w.violate("%v: clear lazy: %v", l, err)
	}
	w.count(FaultLazyCleared, l.node.Admin().Counters().Dropped-dropped)
	if err := l.node.SetLazy(portalLazy); err != nil {
		w.violate("%v: lazy portal: %v", l, err)
	}
}
