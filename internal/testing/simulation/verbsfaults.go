package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// breakVerbs causes the planned faults of the RDMA network, one after the other, distributed over the
// duration of the scenario.
func (w *world) breakVerbs(r *rand.Rand) {
	for _, f := range w.verbs.faults {
		pause(time.Duration(r.Int64N(int64(w.duration) / int64(len(w.verbs.faults)))))
		a, b := w.pair(r)
		w.addf("%v: %v, %v", f, a, b)
		switch f {
		case FaultVerbsBroken:
			w.exchange(r, a, b)
			w.rdma.Break(a.verbs, b.verbs)
			w.exchange(r, a, b)
		case FaultVerbsCut, FaultVerbsOneWay:
			w.cutVerbs(r, a, b, f)
		case FaultVerbsRace:
			w.raceVerbs(r, a, b)
		default:
			w.degradeLink(r, a, b, f)
		}
		w.addf("%v: over", f)
	}
}

// cutVerbs interrupts RDMA between two members for a while: in both directions for FaultVerbsCut,
// otherwise from a to b. It counts the fault if that stalled an operation.
func (w *world) cutVerbs(r *rand.Rand, a, b *member, f Fault) {
	if r.IntN(2) == 0 {
		w.exchange(r, a, b)
	}
	stalls := w.rdma.Faults().Stalls
	d := fabric.Forward
	if f == FaultVerbsCut {
		d = fabric.Both
	}
	w.rdma.Partition(a.verbs, b.verbs, d)
	w.exchange(r, a, b)
	pause(faultDuration(r))
	if w.rdma.Faults().Stalls > stalls {
		w.count(f, 1)
	}
	w.rdma.Heal(a.verbs, b.verbs, d)
}

// raceVerbs breaks the RDMA connection between two members and makes both connect to each other at the
// same time.
func (w *world) raceVerbs(r *rand.Rand, a, b *member) {
	there, back := w.rdma.Hold(a.verbs, b.verbs, fabric.Forward), w.rdma.Hold(a.verbs, b.verbs, fabric.Backward)
	w.rdma.Break(a.verbs, b.verbs)
	for range 20 {
		w.exchange(r, a, b)
		pause(50 * time.Millisecond)
		if there.Waiting() > 0 && back.Waiting() > 0 {
			w.count(FaultVerbsRace, 1)
			break
		}
	}
	there.Release()
	back.Release()
}

// degradeLink raises the rate of fault f on the link between two members for a while.
func (w *world) degradeLink(r *rand.Rand, a, b *member, f Fault) {
	link := w.verbs.fabric.Link
	switch f {
	case FaultVerbsLost:
		link.Loss = 0.3
	case FaultVerbsNotReady:
		link.RNR = 0.6
	case FaultVerbsFailed:
		link.Fail = 0.2
	case FaultVerbsCMLost:
		link.CMLoss = 0.8
	case FaultVerbsStale:
		link.Stale = 0.5
	}
	w.rdma.SetLink(a.verbs, b.verbs, fabric.Both, link)
	if link.CMLoss+link.Stale > 0.4 { // an established connection is not affected
		w.rdma.Break(a.verbs, b.verbs)
	}
	for range 3 {
		w.exchange(r, a, b)
		pause(faultDuration(r) / 3)
	}
	w.rdma.SetLink(a.verbs, b.verbs, fabric.Both, w.verbs.fabric.Link)
}

// healVerbs makes all RDMA links faultless.
func (w *world) healVerbs() {
	for _, a := range w.members {
		for _, b := range w.members {
			w.rdma.SetLink(a.verbs, b.verbs, fabric.Both, faultlessLink(w.verbs.fabric.Link))
		}
	}
}

// changeDevice changes the path to the address of one of m's RDMA devices if f is FaultVerbsMoved.
// Otherwise it removes the device for a while.
func (w *world) changeDevice(r *rand.Rand, m, other *member, f Fault) {
	var mine []*verbsDevice
	for _, rail := range w.homes[m.index] {
		if d, ok := m.devices[rail].(*verbsDevice); ok {
			mine = append(mine, d)
		}
	}
	if len(mine) == 0 {
		return
	}
	d := mine[r.IntN(len(mine))]
	w.exchange(r, m, other)
	if f == FaultVerbsMoved {
		d.current.Port(1).ChangeAddress()
		w.count(f, 1)
	} else {
		d.replace(func() {
			w.exchange(r, m, other)
			pause(faultDuration(r))
		})
	}
	w.exchange(r, m, other)
}
