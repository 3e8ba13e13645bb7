package transport

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

// crash is the environment variable that selects how the child of TestCallbackExitsInTheWorker
// ends.
const crash = "LNETD_TEST_CALLBACK"

// A callback that panics in the worker ends the program like any panic. One that calls runtime.Goexit ends
// it with a panic that explains the cause, even if another goroutine waits for the TM.
//
// transport 3.10 guarantees
func TestCallbackExitsInTheWorker(t *testing.T) {
	ways := map[string]func(){"goexit": runtime.Goexit, "panic": func() { panic("the callback's own") }}
	if way, of, found := strings.Cut(os.Getenv(crash), " "); found {
		waitForCrash(of, ways[way])
		os.Exit(0)
	}
	for way, says := range map[string]string{
		"goexit": "panic: transport: a callback has called runtime.Goexit",
		"panic":  "panic: the callback's own",
	} {
		for _, of := range []string{"buffer", "TM", "pool"} {
			child := exec.Command(os.Args[0], "-test.run=^TestCallbackExitsInTheWorker$", "-test.timeout=60s")
			child.Env = append(os.Environ(), crash+"="+way+" "+of)
			out, err := child.CombinedOutput()
			if err == nil || !strings.Contains(string(out), says) {
				t.Errorf("%s in the callback of a %s: %v, and it says:\n%s", way, of, err, out)
			}
			if !strings.Contains(string(out), "waitForCrash") {
				t.Errorf("%s in the callback of a %s: the trace does not lead to it:\n%s", way, of, out)
			}
		}
	}
}

// waitForCrash makes a callback that does not return, and waits for the end of the TM, which
// never comes.
func waitForCrash(of string, leave func()) {
	core, ctx := newFakeCore(), context.Background()
	d, err := NewDomain(ctx, core)
	if err != nil {
		return
	}
	on := func(who string) func() {
		return func() {
			if who == of {
				leave()
			}
		}
	}
	pool, err := d.NewPool(PoolConfig{Segments: 1, SegmentSize: 4096, Threshold: 9, Low: func(*Pool) { on("pool")() }})
	if err != nil {
		return
	}
	if _, err := pool.Provision(ctx, 2); err != nil {
		return
	}
	how := Provisioning{Callbacks: &Callbacks{MsgRecv: func(*BufferEvent) { on("buffer")() }}, MinReceiveSize: 1, MaxMessages: 1}
	tm, err := d.Open(ctx, address, func(*TMEvent) { on("TM")() },
		func(tm *TransferMachine) error { return tm.AttachPool(pool, how) })
	if err != nil {
		return
	}
	fake := core.tms[0]
	fake.fail(fake.ops[0].Buffer.(*fakeBuffer).token.(*Buffer), syscall.EIO)
	_ = tm.Await(ctx, StateStopped)
}

// inAnother runs f in a new goroutine, which f may end in any way, and waits for it.
func inAnother(f func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() { _ = recover() }()
		f()
	}()
	<-over
}

// A callback that does not return to DeliverAll ends only that call. The next call continues with the
// remaining events, and the TM can be stopped and closed.
//
// transport 3.14 table, 3.14 (2)
func TestCallbackExitsInDeliverAll(t *testing.T) {
	for way, leave := range map[string]func(){"goexit": runtime.Goexit, "panic": func() { panic("caught") }} {
		t.Run(way, func(t *testing.T) {
			withSynchronousFixture(t, func(w *fixture) {
				leaves := true
				var again *Buffer // added at the end of the round, and refused
				var more *Channel // signalled when there are more events
				w.on = func(e *BufferEvent) {
					if e.Buffer == again && e.Err == nil {
						w.ok(e.Add(again))
					} else if leaves {
						w.ok(w.tm.Notify(more))
						leave()
					}
				}
				var bs []*Buffer
				for range 4 {
					bs = append(bs, w.added(MsgRecv))
				}
				again = bs[0]
				told := w.tm.Channel().Wait()
				for _, b := range bs {
					w.fake.finish(b, 1)
				}
				refusals := 1
				w.fake.submit = func(_ *fakeTM, ops []Op) (int, error) {
					if refusals--; refusals >= 0 {
						return 0, syscall.ENOMEM
					}
					return len(ops), nil
				}
				for range 4 { // three of MsgRecv, and the refusal
					if !w.tm.Pending() {
						t.Error("nothing is pending")
					}
					more = new(Channel)
					wake := more.Wait()
					inAnother(func() { _, _ = w.tm.DeliverAll() })
					if !signalled(wake) {
						t.Error("whoever waits for events does not hear that there are more")
					}
				}
				if len(w.events) != 5 || !signalled(told) {
					t.Fatalf("%d events, the channel was signalled: %v", len(w.events), signalled(told))
				}
				leaves = false
				if n, err := w.tm.DeliverAll(); n != 0 || err != nil || w.tm.Pending() {
					t.Errorf("%d more events, %v", n, err)
				}
				w.is(w.finals(again)[1].Err, syscall.ENOMEM)
				if n := w.fake.has(); n != 0 {
					t.Errorf("the core has %d operations", n)
				}
				if w.tm.batchesInUse != 0 || w.tm.callbacks != 0 || w.tm.endPoints.references != 1 {
					t.Errorf("%d calls, %d callbacks, %d references", w.tm.batchesInUse, w.tm.callbacks, w.tm.endPoints.references)
				}
			})
		})
	}
}

// A callback that calls runtime.Goexit ends only its call of DeliverAll, also while the operations left by a
// lost Core are cancelled.
//
// transport 3.5 ours (3)
func TestCallbackExitsAfterTheCoreIsLost(t *testing.T) {
	withSynchronousFixture(t, func(w *fixture) {
		for range 3 {
			w.added(MsgRecv)
		}
		w.on = func(*BufferEvent) { runtime.Goexit() }
		w.fake.push(Completion{Down: true, Err: syscall.EPIPE})
		for range 3 {
			inAnother(func() { _, _ = w.tm.DeliverAll() })
		}
		synctest.Wait()
		if s := w.tm.State(); s != StateFailed || len(w.events) != 3 {
			t.Errorf("the TM is %v behind %d events", s, len(w.events))
		}
	})
}

// If a callback of the TM's pool does not return, no event is lost, because that callback runs after the
// one of the event.
//
// transport 3.14 (2)
func TestPoolCallbackExitsInDeliverAll(t *testing.T) {
	leaves := false
	wish := func(c *PoolConfig) {
		c.Threshold, c.Low = 9, func(*Pool) {
			if leaves {
				runtime.Goexit()
			}
		}
	}
	withTMs(t, wish, func(h *tmGroup) {
		f := h.newTM()
		if err := errors.Join(f.AttachPool(h.pool, f.settings(2)), f.DeliverSynchronously()); err != nil {
			t.Fatal(err)
		}
		finals := 0
		f.on = func(e *BufferEvent) {
			finals++
			f.put(e.Buffer)
		}
		f.start()
		f.fake.fail(f.queued()[0], syscall.EIO)
		leaves = true
		inAnother(func() { _, _ = f.DeliverAll() })
		leaves = false
		f.holds(2, 0)
		h.free(6)
		if n, err := f.DeliverAll(); finals != 1 || n != 0 || err != nil {
			t.Errorf("%d final events, and %d more: %v", finals, n, err)
		}
		if err := f.Abort(); err != nil {
			t.Fatal(err)
		}
		f.fake.obey()
		if _, err := f.DeliverAll(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	})
}
