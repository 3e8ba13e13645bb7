package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

// A new TM is in StateInitialized. After Close, all methods fail with EINVAL.
//
// transport-tests E (38)-(39)
func TestNewTM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		tm := w.tm
		if s := tm.State(); s != StateInitialized || tm.Colour() != AnyColour || tm.Self() != nil || tm.Pending() {
			t.Errorf("state %v, colour %d", s, tm.Colour())
		}
		if tm.Domain() != w.domain || tm.AllStats() != [QueueTypes]Stats{} {
			t.Error("not what NewTM makes")
		}
		w.ok(tm.Close())
		if s := tm.State(); s != StateUndefined {
			t.Errorf("state %v after Close", s)
		}
		w.is(tm.Close(), syscall.EINVAL)
		w.is(tm.Start(address), syscall.EINVAL)
		w.is(tm.Abort(), syscall.EINVAL)
		if len(w.tmEvents) != 0 {
			t.Errorf("told %v", w.tmEvents)
		}
		w.ok(w.domain.Close())
	})
}

// Start allocates an address, and the callback is called in StateStarted.
//
// transport-tests E (40)
// transport 3.5 start, 3.5 event, 3.5 posting, 3.6 (4)
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.onTM = func(e *TMEvent) {
			if s := w.tm.State(); s != StateStarted || w.tm.Self() != e.EndPoint {
				t.Errorf("in the callback the state is %v", s)
			}
		}
		w.ok(w.tm.Start("0@lo:12345:34:*"))
		if s := w.tm.State(); s != StateStarting && s != StateStarted {
			t.Errorf("state is %v", s)
		}
		w.is(w.tm.Start(address), syscall.EINVAL)
		w.ok(w.tm.Await(context.Background(), StateStarted))
		e := w.tmEvents[0]
		if len(w.tmEvents) != 1 || e.Type != TMStateChange || e.Next != StateStarted || e.Err != nil || e.TM != w.tm {
			t.Errorf("told %+v", w.tmEvents)
		}
		if e.EndPoint.refs != 1 || e.EndPoint.String() != "0@lo:12345:34:4095" {
			t.Errorf("own end point is %v, with %d references", e.EndPoint, e.EndPoint.refs)
		}
		w.onTM = nil
		w.fake = w.core.tms[0]
		w.close()
	})
}

// Await returns after the callback for the state.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		hold := make(chan bool)
		w.onTM = func(*TMEvent) { <-hold }
		w.ok(w.tm.Start(address))
		done := make(chan error, 1)
		go func() { done <- w.tm.Await(context.Background(), StateStarted) }()
		synctest.Wait()
		if s := w.tm.State(); s != StateStarted || len(done) != 0 {
			t.Errorf("state is %v, %d have gone on", s, len(done))
		}
		close(hold)
		w.ok(<-done)
		w.fake = w.core.tms[0]
		w.close()
	})
}

// Start with a malformed address fails immediately, without an event.
//
// transport-tests E (41)-(42)
func TestStartMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.is(w.tm.Start("invalid"), syscall.EINVAL)
		synctest.Wait()
		if s := w.tm.State(); s != StateFailed || len(w.tmEvents) != 0 {
			t.Errorf("state is %v, told %v", s, w.tmEvents)
		}
		w.is(w.tm.Start(address), syscall.EINVAL)
		w.is(w.tm.Abort(), syscall.EINVAL)
		w.is(w.tm.Await(context.Background(), StateStarted), syscall.EINVAL)
		w.ok(w.tm.Close())
	})
}

// If the address or the core is the cause, Start itself succeeds, and an event reports the failure.
//
// transport-tests E (43)
// transport 3.5 start, 3.16, 6.2 (2)
func TestStartFails(t *testing.T) {
	for _, c := range []struct {
		address string
		core    error // error of the core
		want    syscall.Errno
	}{
		{"0@lo:12345:0:1", nil, syscall.EINVAL},
		{"0@lo:12345:64:1", nil, syscall.EINVAL},
		{"0@lo:12345:99:*", nil, syscall.EINVAL},
		{"10.0.0.1@tcp:12345:34:1", syscall.ENOENT, syscall.ENOENT},
		{"0@lo:12345:34:1", syscall.EADDRINUSE, syscall.EADDRINUSE},
	} {
		t.Run(c.address, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.core.start = func(context.Context, Address) error { return c.core }
				w.ok(w.tm.Start(c.address))
				synctest.Wait()
				if s := w.states(); !slices.Equal(s, []State{StateFailed}) || w.tm.State() != StateFailed {
					t.Errorf("told %v", s)
				}
				w.is(w.tmEvents[0].Err, c.want)
				w.is(w.tm.Await(context.Background(), StateStarted), c.want)
				w.ok(w.tm.Await(context.Background(), StateFailed))
				w.ok(w.tm.Close())
			})
		})
	}
}

// Stop and Abort of a TM with empty queues stop it, and fail when called again.
//
// transport-tests E (45)
// transport 6.11
func TestStopEmpty(t *testing.T) {
	for _, stop := range []func(*TransferMachine) error{(*TransferMachine).Stop, (*TransferMachine).Abort} {
		withFixture(t, nil, func(w *fixture) {
			w.ok(stop(w.tm))
			w.is(stop(w.tm), syscall.EINVAL)
			synctest.Wait()
			if s := w.states(); !slices.Equal(s, []State{StateStarted, StateStopped}) || !w.fake.stopped {
				t.Errorf("told %v, the core is stopped: %t", s, w.fake.stopped)
			}
			w.is(stop(w.tm), syscall.EINVAL)
		})
	}
}

// Abort cancels all queued buffers. The TM is stopped after their callbacks.
//
// transport-tests E (46)
// transport 3.5 stop
func TestStopAborts(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		bs := []*Buffer{w.added(MsgRecv), w.added(PassiveBulkRecv), w.added(PassiveBulkSend)}
		w.onTM = func(e *TMEvent) {
			if len(w.events) != 3 {
				t.Errorf("%v after %d callbacks", e.Next, len(w.events))
			}
		}
		w.ok(w.tm.Abort())
		synctest.Wait()
		if s := w.tm.State(); s != StateStopping {
			t.Fatalf("state is %v", s)
		}
		w.settle()
		for _, b := range bs {
			w.ended(b, syscall.ECANCELED)
			if s := w.tm.Stats(b.Queue); s.Cancels != 1 || s.Failures != 1 {
				t.Errorf("stats of %v are %+v", b.Queue, s)
			}
		}
		if s := w.states(); !slices.Equal(s, []State{StateStarted, StateStopped}) {
			t.Errorf("told %v", s)
		}
	})
}

// Stop waits until the queued buffers have ended, and does not cancel them.
//
// transport-tests E (47)
// transport 3.5 stop
func TestStopWaits(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		b := w.added(MsgRecv)
		w.ok(w.tm.Stop())
		synctest.Wait()
		if s := w.tm.State(); s != StateStopping || w.fake.cancelled() != 0 {
			t.Errorf("state is %v", s)
		}
		if !w.tm.Cancel(b) {
			t.Error("not cancelled")
		}
		w.fake.obey()
		synctest.Wait()
		w.ended(b, syscall.ECANCELED)
		if s := w.tm.State(); s != StateStopped {
			t.Errorf("state is %v", s)
		}
	})
}

// A TM that was never started stops, too, and reports that.
//
// transport 3.5 ours (1)
func TestStopInitialized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.ok(w.tm.Stop())
		synctest.Wait()
		if s := w.states(); !slices.Equal(s, []State{StateStopped}) || w.tm.State() != StateStopped {
			t.Errorf("told %v", s)
		}
		if len(w.core.tms) != 0 {
			t.Error("the core has started it")
		}
		w.ok(w.tm.Close())
	})
}

// A TM that is stopped before it is started never becomes started, whatever the outcome of the start is.
//
// transport 3.5 ours (2)
func TestStopStarting(t *testing.T) {
	for name, start := range map[string]func(ctx context.Context) error{
		"started too late": func(ctx context.Context) error { <-ctx.Done(); return nil },
		"cancelled":        func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.core.start = func(ctx context.Context, _ Address) error { return start(ctx) }
				w.ok(w.tm.Start(address))
				synctest.Wait()
				if s := w.tm.State(); s != StateStarting {
					t.Fatalf("state is %v", s)
				}
				w.ok(w.tm.Stop())
				synctest.Wait()
				if s := w.states(); !slices.Equal(s, []State{StateStopped}) || w.tm.State() != StateStopped {
					t.Errorf("told %v", s)
				}
				for _, f := range w.core.tms {
					if !f.stopped {
						t.Error("the address is not given back")
					}
				}
				w.ok(w.tm.Close())
			})
		})
	}
}

// Stop in the callback for StateStarted, and in every callback of a buffer.
//
// transport 3.2 (2)-(3)
func TestStopInCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.onTM = func(e *TMEvent) {
			if e.Next == StateStarted {
				w.ok(w.tm.Stop())
			}
		}
		w.ok(w.tm.Start(address))
		w.ok(w.tm.Await(context.Background(), StateStopped))
		w.is(w.tm.Await(context.Background(), StateStarted), syscall.EINVAL)
		if s := w.states(); !slices.Equal(s, []State{StateStarted, StateStopped}) {
			t.Errorf("told %v", s)
		}
		w.ok(w.tm.Close())
	})
}

// If the Core cannot release its address, the TM fails.
func TestStopFails(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		w.fake.ops = append(w.fake.ops, Op{}) // unknown to the engine
		w.ok(w.tm.Abort())
		synctest.Wait()
		w.is(w.tm.Await(context.Background(), StateStopped), syscall.EBUSY)
		if s := w.states(); s[1] != StateFailed {
			t.Errorf("told %v", s)
		}
	})
}

// Close fails before the TM is stopped, and as long as references to its end points exist.
//
// transport-tests E (48)
// transport 3.5 fini, 3.6 (4)
func TestClose(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		w.is(w.tm.Close(), syscall.EINVAL)
		if s := w.tm.State(); s != StateStarted {
			t.Errorf("state is %v", s)
		}
		e, err := w.tm.EndPointAt(peer)
		w.ok(err)
		self := w.tm.Self().Get()
		w.ok(w.tm.Abort())
		synctest.Wait()
		w.is(w.tm.Close(), syscall.EBUSY)
		e.Put()
		w.is(w.tm.Close(), syscall.EBUSY)
		if s := w.tm.State(); s != StateStopped {
			t.Errorf("state is %v", s)
		}
		self.Put()
		self.Put() // once too often: the last reference belongs to the TM
		if self.refs != 1 {
			t.Errorf("the TM holds %d references to itself", self.refs)
		}
		w.ok(w.tm.Close())
		if len(w.domain.tms) != 0 {
			t.Error("the domain has it yet")
		}
		e.Put()
		self.Put()
		if e.Get(); e.refs != 0 || e.Address() != peer {
			t.Error("what is dropped does harm")
		}
	})
}

// Close waits for the callback that reports the end.
//
// transport 3.5 fini
func TestCloseWaitsForCallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		hold := make(chan bool)
		w.onTM = func(*TMEvent) { <-hold }
		w.ok(w.tm.Stop())
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- w.tm.Close() }()
		synctest.Wait()
		if s := w.tm.State(); s != StateStopped || len(closed) != 0 {
			t.Errorf("state is %v, %d closed", s, len(closed))
		}
		close(hold)
		w.ok(<-closed)
	})
}

// StateStopped is not reported while a callback or a call of the Core runs.
//
// transport 3.5 stop
func TestStopWaitsForCalls(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		hold := make(chan bool)
		w.fake.submit = func(tm *fakeTM, ops []Op) (int, error) {
			<-hold
			return 0, syscall.ENOMEM
		}
		b := w.buffer(MsgRecv)
		var group sync.WaitGroup
		group.Go(func() { w.is(w.tm.Add(b), syscall.ENOMEM) })
		synctest.Wait()
		w.ok(w.tm.Stop())
		synctest.Wait()
		if s := w.tm.State(); s != StateStopping {
			t.Errorf("state is %v", s)
		}
		close(hold)
		group.Wait()
		synctest.Wait()
		if s := w.tm.State(); s != StateStopped {
			t.Errorf("state is %v", s)
		}
	})
}

// Open and Shutdown combine the steps.
func TestOpenAndShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		ctx := context.Background()
		w.ok(w.tm.Shutdown(ctx))
		tm, err := w.domain.Open(ctx, address, nil)
		w.ok(err)
		if s := tm.State(); s != StateStarted {
			t.Errorf("state is %v", s)
		}
		w.tm, w.fake = tm, w.core.tms[0]
		b := w.added(MsgRecv)
		w.ok(tm.Stop()) // waits for the buffer
		short, cancel := context.WithCancel(ctx)
		cancel()
		if err := tm.Shutdown(short); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
		w.fake.obey()
		w.ok(tm.Shutdown(ctx))
		w.ended(b, syscall.ECANCELED)
		w.is(tm.Shutdown(ctx), syscall.EINVAL)

		_, err = w.domain.Open(ctx, "nobody", nil)
		w.is(err, syscall.EINVAL)
		w.core.start = func(context.Context, Address) error { return syscall.EADDRINUSE }
		_, err = w.domain.Open(ctx, address, nil)
		w.is(err, syscall.EADDRINUSE)
		w.core.start = func(ctx context.Context, _ Address) error { <-ctx.Done(); return ctx.Err() }
		if _, err = w.domain.Open(short, address, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
		if n := len(w.domain.tms); n != 0 {
			t.Errorf("%d TMs are left", n)
		}
	})
}

// Open calls the steps between NewTM and Start, until one fails.
func TestOpenPrepares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		ctx := context.Background()
		w.ok(w.tm.Shutdown(ctx))
		confine := func(tm *TransferMachine) error { return tm.Confine() } // to no processor
		synchronously := (*TransferMachine).DeliverSynchronously
		_, err := w.domain.Open(ctx, address, nil, synchronously, confine)
		w.is(err, syscall.EINVAL)
		if n := len(w.domain.tms); n != 0 {
			t.Errorf("%d TMs are left", n)
		}

		tm, err := w.domain.Open(ctx, address, nil, synchronously)
		w.ok(err)
		if _, err := tm.DeliverAll(); err != nil {
			t.Errorf("delivery is not synchronous: %v", err)
		}
		w.ok(tm.Shutdown(ctx))
	})
}

// A thousand TMs that are started and stopped in turn leave no goroutine.
//
// transport-tests E (49)
func TestManyTMsInSequence(t *testing.T) {
	defer goleak.VerifyNone(t)
	core := newFakeCore()
	ctx := context.Background()
	d, err := NewDomain(ctx, core)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		tm, err := d.Open(ctx, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tm.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		core.tms = nil
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// The colour of a TM can be changed until Stop is called.
//
// transport-tests E (51)
func TestColour(t *testing.T) {
	withFixture(t, func(w *fixture) { w.ok(w.tm.SetColour(7)) }, func(w *fixture) {
		if c := w.tm.Colour(); c != 7 {
			t.Errorf("colour is %d", c)
		}
		w.ok(w.tm.SetColour(8))
		w.ok(w.tm.Stop())
		w.is(w.tm.SetColour(9), syscall.EINVAL)
		if c := w.tm.Colour(); c != 8 {
			t.Errorf("colour is %d", c)
		}
	})
}

// Each state has a name. Numbers of no state are printed as numbers.
func TestStateNames(t *testing.T) {
	got := ""
	for s := range StateFailed + 2 {
		got += fmt.Sprintf("%v ", s)
	}
	if want := "undefined initialized starting started stopping stopped failed state 7 "; got != want {
		t.Errorf("states are %s", got)
	}
}
