package portals_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// put matches and finishes a PUT whose hdr_data is n.
func put(t *testing.T, table *portals.Table, n int) {
	o := newArrival(portals.EventPut, 0, 0)
	o.Event.HdrData = uint64(n)
	if v := table.Match(o); v != portals.Accept {
		t.Errorf("PUT %d: verdict %d", n, v)
		return
	}
	table.Finish(o, nil)
}

// firstNumbers returns the numbers 0 to n-1.
func firstNumbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// Peers cannot queue more than 16384 events for a slow handler.
func TestWaitingEventsAreBounded(t *testing.T) {
	const most = 16384
	table := newTable()
	count := 0
	attach(t, table, portals.Entry{Portal: 1}, portals.MD{
		Threshold: portals.Unlimited, Options: portals.OpPut | portals.OpGet | portals.Truncate,
		Handler: portals.HandlerFunc(func(*portals.Event) {
			if count++; count > 1 {
				return
			}
			taken := newArrival(portals.EventPut, 0, 0) // in time
			match(t, table, taken, portals.Accept)
			for i := range most {
				put(t, table, i)
			}
			match(t, table, newArrival(portals.EventPut, 0, 0), portals.Drop)
			match(t, table, newArrival(portals.EventGet, 0, 0), portals.Drop)
			table.Finish(taken, nil)
			match(t, table, newArrival(portals.EventPut, 0, 0), portals.Drop)
		}),
	})
	other := attach(t, table, portals.Entry{Portal: 1, MatchBits: 1}, portals.MD{Threshold: 1, Options: portals.OpPut})
	put(t, table, 0)
	if count != most+2 {
		t.Errorf("%d events, want %d", count, most+2)
	}
	put(t, table, 0) // the handler has caught up
	if count != most+3 {
		t.Errorf("%d events, want %d", count, most+3)
	}
	o := newArrival(portals.EventPut, 1, 0)
	match(t, table, o, portals.Accept)
	if o.Event.MD != other {
		t.Errorf("MD %v, want %v", o.Event.MD, other)
	}
	table.Finish(o, nil)
}

// Events of the program's own requests are delivered, however many are queued.
func TestAnswersAreNotBounded(t *testing.T) {
	const rounds = 6000 // of four events each
	table := newTable()
	var h lnet.Handle
	count := 0
	h = bind(t, table, portals.MD{Threshold: portals.Unlimited, Handler: portals.HandlerFunc(func(*portals.Event) {
		if count++; count > 1 {
			return
		}
		for range rounds {
			exchanging(t, table, h, get)()
			exchanging(t, table, h, putWithAck)()
		}
	})})
	table.Finish(begin(t, table, h, putAlone), nil)
	if want := 4*rounds + 1; count != want {
		t.Errorf("%d events, want %d", count, want)
	}
}

// A goroutine that delivers an event delivers 64 queued events and hands the rest over. The
// next goroutine does the same. Events stay in order, and the last one comes last.
func TestDrainingIsHandedOver(t *testing.T) {
	// lnet-core 3.3 (1)-(2), 2.2 unlink (6)
	var runs []func()
	table := portals.New(portals.Config{Cookie: cookie, Spawn: func(run func()) { runs = append(runs, run) }})
	var got []int
	last := false
	h := attach(t, table, portals.Entry{Portal: 1}, portals.MD{
		Threshold: portals.Unlimited, Options: portals.OpPut,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			if len(got) == 0 {
				for i := 1; i < 150; i++ {
					put(t, table, i)
				}
			}
			if last = e.Unlinked; !last {
				got = append(got, int(e.HdrData))
			}
		}),
	})
	put(t, table, 0)
	if len(got) != 1+64 || len(runs) != 1 {
		t.Fatalf("%d events, handed over %d times", len(got), len(runs))
	}
	put(t, table, 150)
	if err := table.Unlink(h); err != nil {
		t.Error(err)
	}
	if len(got) != 1+64 || len(runs) != 1 || last {
		t.Fatalf("%d events, handed over %d times, before anybody runs", len(got), len(runs))
	}
	for _, want := range []int{1 + 2*64, 151} {
		run := runs[0]
		runs = runs[1:]
		run()
		if len(got) != want {
			t.Errorf("%d events, want %d", len(got), want)
		}
	}
	if d := cmp.Diff(firstNumbers(151), got); d != "" || !last || len(runs) != 0 {
		t.Errorf("last %v, %d to run, events (-want +got):\n%s", last, len(runs), d)
	}
}

// If a handler queues at most 64 events, they are delivered in the same goroutine.
func TestShortRunsAreNotHandedOver(t *testing.T) {
	table := portals.New(portals.Config{Spawn: func(func()) { t.Error("handed over") }})
	count := 0
	attach(t, table, portals.Entry{Portal: 1}, portals.MD{
		Threshold: portals.Unlimited, Options: portals.OpPut,
		Handler: portals.HandlerFunc(func(*portals.Event) {
			if count++; count == 1 {
				for i := range 64 {
					put(t, table, i)
				}
			}
		}),
	})
	put(t, table, 0)
	if count != 65 {
		t.Errorf("%d events", count)
	}
}

// Many goroutines cause events of one MD. These and the goroutines that draining is handed
// to take turns. All events are delivered, and those of each goroutine in order.
func TestDrainersAlternate(t *testing.T) {
	// lnet-core 3.3 (1)-(2)
	const workers, each = 4, 4000 // fewer events than the limit
	var group sync.WaitGroup
	var handed atomic.Int64
	table := portals.New(portals.Config{Cookie: cookie, Spawn: func(run func()) {
		handed.Add(1)
		group.Go(run)
	}})
	entered := make(chan struct{})
	var backlog sync.WaitGroup
	backlog.Add(workers)
	var running atomic.Bool
	var got [workers][]int // guarded by running
	calls, lasts := 0, 0
	h := attach(t, table, portals.Entry{Portal: 1}, portals.MD{
		Threshold: portals.Unlimited, Options: portals.OpPut,
		Handler: portals.HandlerFunc(func(e *portals.Event) {
			if running.Swap(true) {
				t.Error("two handler calls at a time")
			}
			if lasts > 0 {
				t.Error("an event after the last")
			}
			n := int(e.HdrData)
			switch calls++; {
			case calls == 1:
				close(entered)
				backlog.Wait()
			case e.Unlinked:
				lasts++
			default:
				got[n%workers] = append(got[n%workers], n/workers)
			}
			running.Store(false)
		}),
	})
	group.Go(func() { put(t, table, 0) })
	<-entered
	for w := range workers {
		group.Go(func() {
			for i := range each {
				put(t, table, i*workers+w)
				if i == each/4 {
					backlog.Done()
				}
			}
		})
	}
	group.Wait()
	if err := table.Unlink(h); err != nil {
		t.Error(err)
	}
	for w, list := range got {
		if d := cmp.Diff(firstNumbers(each), list); d != "" {
			t.Errorf("events of worker %d (-want +got):\n%s", w, d)
		}
	}
	if lasts != 1 || handed.Load() == 0 {
		t.Errorf("%d last events, handed over %d times", lasts, handed.Load())
	}
}
