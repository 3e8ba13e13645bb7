package transport

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// withSynchronousFixture is withFixture with synchronous delivery.
func withSynchronousFixture(t *testing.T, test func(w *fixture)) {
	t.Helper()
	withFixture(t, func(w *fixture) { w.ok(w.tm.DeliverSynchronously()) }, test)
}

// signalled reports whether a Go channel is closed.
func signalled(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// DeliverAll without pending events delivers nothing. After the TM has been stopped, DeliverAll and Notify
// fail.
//
// transport-tests M (102), M (106)
// transport 3.14 table, 3.14 (1)
func TestDeliverNothing(t *testing.T) {
	withSynchronousFixture(t, func(w *fixture) {
		if w.tm.Pending() {
			t.Error("events are pending")
		}
		if n, err := w.tm.DeliverAll(); n != 0 || err != nil {
			t.Errorf("delivered %d, %v", n, err)
		}
		w.ok(w.tm.Abort())
		synctest.Wait()
		if s := w.states(); !slices.Equal(s, []State{StateStarted, StateStopped}) {
			t.Errorf("told %v", s)
		}
		_, err := w.tm.DeliverAll()
		w.is(err, syscall.EINVAL)
		w.is(w.tm.Notify(&Channel{}), syscall.EINVAL)
		if w.tm.Pending() {
			t.Error("events are pending")
		}
	})
}

// Notify signals the channel once, when events are pending, and immediately if they are pending already.
//
// transport-tests M (103)
// transport 3.14 table, 3.14 (3)
// r.M0.net.synchronous-buffer-event-delivery
func TestNotify(t *testing.T) {
	withSynchronousFixture(t, func(w *fixture) {
		for _, own := range []bool{true, false} {
			w.events = nil
			b := w.buffer(MsgRecv)
			b.MaxMessages = 4
			w.ok(w.tm.Add(b))
			c := new(Channel)
			if own {
				c = w.tm.Channel()
			}
			w.ok(w.tm.Notify(c))
			wake := c.Wait()
			synctest.Wait()
			if signalled(wake) {
				t.Error("signalled for nothing")
			}
			for i := range 3 {
				w.fake.message(b, 10*i, 10)
			}
			w.fake.finish(b, 10)
			synctest.Wait()
			if !signalled(wake) || !w.tm.Pending() || len(w.events) != 0 || b.Flags()&FlagQueued == 0 {
				t.Errorf("signalled: %t, pending: %t, %d events", signalled(wake), w.tm.Pending(), len(w.events))
			}
			callbacks := 0
			w.on = func(*BufferEvent) { callbacks++ } // called by this goroutine, which -race verifies
			if n, err := w.tm.DeliverAll(); n != 4 || err != nil || callbacks != 4 || w.tm.Pending() {
				t.Errorf("delivered %d, %v", n, err)
			}
			w.on = nil
			w.ended(b, 0)

			wake = c.Wait()
			w.ok(w.tm.Add(b))
			w.fake.finish(b, 10)
			synctest.Wait()
			if signalled(wake) {
				t.Error("the request was not used up")
			}
			// Signals at once, because events are pending.
			w.ok(w.tm.Notify(c))
			if !signalled(wake) {
				t.Error("not signalled though events are pending")
			}
			_, err := w.tm.DeliverAll()
			w.ok(err)
		}
	})
}

// Notify with nil withdraws the request for a signal. A second request replaces the first.
//
// transport-tests M (104)
// transport 3.14 table
func TestNotifyNil(t *testing.T) {
	withSynchronousFixture(t, func(w *fixture) {
		var first, second Channel
		one, two := first.Wait(), second.Wait()
		w.ok(w.tm.Notify(&first))
		synctest.Wait()
		w.ok(w.tm.Notify(nil))
		b := w.added(MsgRecv)
		w.fake.finish(b, 1)
		synctest.Wait()
		if signalled(one) || !w.tm.Pending() {
			t.Error("signalled although nobody was to be")
		}
		_, err := w.tm.DeliverAll()
		w.ok(err)
		w.ok(w.tm.Notify(&first))
		w.ok(w.tm.Notify(&second))
		w.ok(w.tm.Add(b))
		w.fake.finish(b, 1)
		synctest.Wait()
		if signalled(one) || !signalled(two) {
			t.Error("the second request did not take the place of the first")
		}
		_, err = w.tm.DeliverAll()
		w.ok(err)
	})
}

// DeliverSynchronously fails without support by the Core, when called twice, and after Start.
//
// transport-tests M (105)
// transport 3.14 table, 3.14 (5), 3.16
func TestDeliverSynchronouslyRefuses(t *testing.T) {
	withFixture(t, func(w *fixture) {
		w.core.limits.Synchronous = false
		other, err := NewDomain(context.Background(), w.core)
		w.ok(err)
		tm, err := other.NewTM(nil)
		w.ok(err)
		w.is(tm.DeliverSynchronously(), syscall.ENOSYS)
		w.ok(w.tm.DeliverSynchronously())
		w.is(w.tm.DeliverSynchronously(), syscall.EINVAL)
		_, err = w.tm.DeliverAll()
		w.is(err, syscall.EINVAL)
	}, func(w *fixture) {
		w.is(w.tm.DeliverSynchronously(), syscall.EINVAL)
	})
	withFixture(t, nil, func(w *fixture) {
		w.is(w.tm.Notify(&Channel{}), syscall.EINVAL)
		_, err := w.tm.DeliverAll()
		w.is(err, syscall.EINVAL)
		b := w.added(MsgRecv)
		w.fake.finish(b, 1)
		if w.tm.Pending() {
			t.Error("pending without synchronous delivery")
		}
		synctest.Wait()
	})
}

// The worker reports events of the TM, even if another goroutine reaps them from the Core.
//
// transport 3.14 (1)
func TestTMEventsWithSynchronousDelivery(t *testing.T) {
	withSynchronousFixture(t, func(w *fixture) {
		w.fake.push(Completion{Err: syscall.ENOBUFS})
		synctest.Wait()
		if len(w.tmEvents) != 1 || !w.tm.Pending() {
			t.Errorf("told %v", w.tmEvents)
		}
		if n, err := w.tm.DeliverAll(); n != 0 || err != nil {
			t.Errorf("delivered %d, %v", n, err)
		}
		synctest.Wait()
		if e := w.tmEvents[1]; e.Type != TMError {
			t.Errorf("told %+v", e)
		}
	})
}

// Deadlines are enforced without DeliverAll, but their events need it.
//
// transport 3.14 table
func TestDeadlineWithSynchronousDelivery(t *testing.T) {
	withSynchronousFixture(t, func(w *fixture) {
		var c Channel
		for _, notify := range []bool{false, true} {
			w.events = nil
			b := w.buffer(MsgRecv)
			b.Deadline = later(time.Second)
			w.ok(w.tm.Add(b))
			wake := c.Wait()
			if notify {
				w.ok(w.tm.Notify(&c))
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if w.fake.cancelled() != 1 {
				t.Errorf("%d cancels", w.fake.cancelled())
			}
			w.fake.obey()
			synctest.Wait()
			if len(w.events) != 0 || !w.tm.Pending() || signalled(wake) != notify {
				t.Errorf("%d events, pending: %t", len(w.events), w.tm.Pending())
			}
			_, err := w.tm.DeliverAll()
			w.ok(err)
			w.ended(b, syscall.ETIMEDOUT)
		}
	})
}

// A TM is drained while it is stopping. A goroutine that waits for events is woken at its end.
//
// transport 3.14 (2)
func TestDeliverWhileStopping(t *testing.T) {
	withSynchronousFixture(t, func(w *fixture) {
		b := w.added(MsgRecv)
		w.ok(w.tm.Abort())
		w.fake.obey()
		synctest.Wait()
		if s := w.tm.State(); s != StateStopping || len(w.events) != 0 || !w.tm.Pending() {
			t.Fatalf("state is %v", s)
		}
		var c Channel
		w.on = func(*BufferEvent) { w.ok(w.tm.Notify(&c)) }
		wake := c.Wait()
		if n, err := w.tm.DeliverAll(); n != 1 || err != nil {
			t.Errorf("delivered %d, %v", n, err)
		}
		synctest.Wait()
		w.ended(b, syscall.ECANCELED)
		if s := w.tm.State(); s != StateStopped || !signalled(wake) {
			t.Errorf("state is %v, signalled: %t", s, signalled(wake))
		}
	})
}

// One goroutine delivers at a time, the others wait. StateStopped waits for its callback.
//
// transport 3.5 stop
func TestDeliverersAlternate(t *testing.T) {
	for _, stop := range []bool{false, true} {
		withSynchronousFixture(t, func(w *fixture) {
			b := w.added(MsgRecv)
			hold := make(chan bool)
			w.on = func(*BufferEvent) { <-hold }
			w.fake.finish(b, 1)
			counts := make(chan int, 3)
			for range 3 {
				go func() {
					n, _ := w.tm.DeliverAll()
					counts <- n
				}()
			}
			if stop {
				synctest.Wait()
				w.ok(w.tm.Abort())
			}
			synctest.Wait()
			if s := w.tm.State(); stop && s != StateStopping || len(counts) != 0 {
				t.Errorf("state is %v, %d have delivered", s, len(counts))
			}
			close(hold)
			if n := <-counts + <-counts + <-counts; n != 1 {
				t.Errorf("delivered %d", n)
			}
			synctest.Wait()
			if s := w.tm.State(); stop && s != StateStopped {
				t.Errorf("state is %v", s)
			}
		})
	}
}

// The event loop in the comment of DeliverSynchronously, with work and messages: nothing is lost.
//
// transport-tests M (107)
// transport 3.14 (4)
// r.M0.net.buffer-event-delivery-control
func TestEventLoop(t *testing.T) {
	withSynchronousFixture(t, func(w *fixture) {
		const rounds = 1000
		b := w.added(MsgRecv)
		messages, worked := 0, 0
		w.on = func(e *BufferEvent) {
			messages++
			if messages < rounds {
				w.ok(w.tm.Add(b))
			}
		}
		work := make(chan bool)
		var group sync.WaitGroup
		group.Go(func() {
			for range rounds {
				work <- true
			}
		})
		group.Go(func() {
			for i := range rounds {
				if i%10 == 0 {
					time.Sleep(time.Microsecond)
				}
				for w.fake.has() == 0 {
					time.Sleep(time.Nanosecond)
				}
				w.fake.finish(b, 1)
			}
		})
		var c Channel
		for messages < rounds || worked < rounds {
			wake := c.Wait()
			if !w.tm.Pending() {
				w.ok(w.tm.Notify(&c))
				select {
				case <-wake:
				case <-work:
					worked++
				}
			}
			_, err := w.tm.DeliverAll()
			w.ok(err)
		}
		group.Wait()
	})
}
