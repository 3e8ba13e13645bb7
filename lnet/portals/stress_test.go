package portals_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// eventChecker is a handler that checks the events of one MD.
type eventChecker struct {
	totals   *totals
	running  atomic.Bool
	unlinked atomic.Bool
}

// totals holds the totals of a stress run.
type totals struct {
	t                                *testing.T
	mds, ended                       atomic.Int64 // MDs created, and last events
	arrived, dropped                 atomic.Int64
	begun, finished, events, unlinks atomic.Int64
}

func (w *eventChecker) HandleEvent(e *portals.Event) {
	if w.running.Swap(true) {
		w.totals.t.Error("two handler calls at a time")
	}
	if w.unlinked.Load() {
		w.totals.t.Error("an event after the last")
	}
	if e.Offset < 0 || e.Type != portals.EventAck && e.Length > len(e.Bytes) {
		w.totals.t.Errorf("%d bytes at %d of %d", e.Length, e.Offset, len(e.Bytes))
	}
	if e.Type == portals.EventUnlink {
		w.totals.unlinks.Add(1)
	} else {
		w.totals.events.Add(1)
	}
	if e.Unlinked {
		w.unlinked.Store(true)
		w.totals.ended.Add(1)
	}
	w.running.Store(false)
}

// Many goroutines use few portals at once. Every operation ends once, and every MD has one
// last event.
func TestStress(t *testing.T) {
	// lnet-core 3.3 (1)-(2)
	const workers, rounds, kept = 8, 3000, 20
	table := newTable()
	a := &totals{t: t}
	for p := range uint32(2) {
		if err := table.SetLazy(p + 1); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var handles [kept]lnet.Handle // any worker may use and unlink them

	drop := func(q portals.Operations) {
		for o := q.Next(); o != nil; o = q.Next() {
			a.dropped.Add(1)
		}
	}
	work := func(random *rand.Rand) {
		var open []*portals.Operation
		md := func() portals.MD {
			a.mds.Add(1)
			return portals.MD{
				Bytes: make([]byte, 8), Threshold: random.IntN(4) - 1, Unlink: random.IntN(2) == 0,
				Handler: &eventChecker{totals: a},
			}
		}
		keep := func(h lnet.Handle) {
			mu.Lock()
			i := random.IntN(kept)
			old := handles[i]
			handles[i] = h
			mu.Unlock()
			_ = table.Unlink(old) // may already be unlinked
		}
		some := func() lnet.Handle {
			mu.Lock()
			defer mu.Unlock()
			return handles[random.IntN(kept)]
		}
		for range rounds {
			switch random.IntN(10) {
			case 0, 1:
				d := md()
				d.Options = portals.OpPut | portals.ManageRemote
				e := portals.Entry{
					Portal: 1 + random.Uint32N(2), MatchBits: random.Uint64N(8), IgnoreBits: random.Uint64N(3),
					Position: portals.Position(random.IntN(2)),
				}
				h, accepted, dropped, err := table.Attach(e, d)
				if err != nil {
					t.Error(err)
				}
				for o := accepted.Next(); o != nil; o = accepted.Next() {
					open = append(open, o)
				}
				drop(dropped)
				keep(h)
			case 2:
				h, err := table.Bind(md())
				if err != nil {
					t.Error(err)
				}
				keep(h)
			case 3, 4, 5:
				o := newArrival(portals.EventPut, random.Uint64N(8), random.IntN(10))
				o.Event.Portal = 1 + random.Uint32N(2)
				a.arrived.Add(1)
				switch table.Match(o) {
				case portals.Accept:
					open = append(open, o)
				case portals.Drop:
					a.dropped.Add(1)
				}
			case 6:
				o := new(portals.Operation)
				b := tracked(get, 1)
				if random.IntN(2) == 0 {
					b = tracked(putWithAck, 1)
				}
				if _, err := table.Begin(some(), o, b); err == nil {
					a.begun.Add(1)
					open = append(open, o)
				}
			case 7:
				o := new(portals.Operation)
				if h := some(); table.BeginReply(h, o, 8) || table.BeginAck(h, o) {
					a.finished.Add(1)
					open = append(open, o)
				}
			case 8:
				switch random.IntN(20) {
				case 0:
					drop(table.DropDelayed(func(o *portals.Operation) bool { return o.Length%2 == 0 }))
				case 1:
					for _, o := range table.AppendOverdue(nil, 1000) {
						_ = table.Unlink(o.Handle) // another worker may have unlinked it
					}
				}
			case 9:
				for len(open) > 0 {
					table.Finish(open[0], nil)
					open = open[1:]
				}
			}
		}
		for _, o := range open {
			table.Finish(o, nil)
		}
	}
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() { work(rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	group.Wait()

	// Retained MDs that were replaced while they were busy are already unlinked. The
	// remaining ones are in handles.
	for _, h := range handles {
		_ = table.Unlink(h)
	}
	drop(table.Close())
	operations := a.arrived.Load() - a.dropped.Load() + a.begun.Load() + a.finished.Load()
	if got := a.events.Load(); got != operations {
		t.Errorf("%d events of %d operations", got, operations)
	}
	if made, ended := a.mds.Load(), a.ended.Load(); made != ended {
		t.Errorf("%d MDs made, %d last events", made, ended)
	}
	if n := table.Trackers(); n != 0 {
		t.Errorf("%d trackers are left", n)
	}
	t.Logf("%d MDs, %d arrived, %d dropped, %d begun, %d responses, %d UNLINK events",
		a.mds.Load(), a.arrived.Load(), a.dropped.Load(), a.begun.Load(), a.finished.Load(), a.unlinks.Load())
}
