package transport

import (
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// waiting calls Wait in another goroutine, and returns a channel that gets its result.
func (w *fixture) waiting(until time.Time) <-chan error {
	result := make(chan error, 1)
	go func() { result <- w.tm.Wait(until) }()
	synctest.Wait()
	return result
}

// returned checks that a call of Wait has returned, or has not.
func (w *fixture) returned(result <-chan error, want bool, what string) {
	w.t.Helper()
	synctest.Wait()
	if got := len(result) == 1; got != want {
		w.t.Errorf("%s: Wait has returned: %t", what, got)
	}
	if want {
		w.ok(<-result)
	}
}

// Wait returns when there are events, at the given time, and after Wake, of which one call suffices for the next Wait.
func TestWait(t *testing.T) {
	withSynchronousFixture(t, func(w *fixture) {
		w.ok(w.tm.Wait(time.Now()))
		b := w.added(MsgRecv)
		result := w.waiting(time.Time{})
		w.returned(result, false, "nothing has happened")
		w.is(w.tm.Wait(time.Time{}), syscall.EBUSY)
		w.fake.finish(b, 10)
		w.returned(result, true, "an event")
		w.ok(w.tm.Wait(time.Time{})) // the event is still there
		if n, err := w.tm.DeliverAll(); n != 1 || err != nil {
			t.Errorf("delivered %d, %v", n, err)
		}
		result = w.waiting(time.Time{})
		w.tm.Wake()
		w.returned(result, true, "Wake")
		w.tm.Wake()
		w.returned(w.waiting(time.Time{}), true, "an earlier Wake")
		result = w.waiting(time.Now().Add(time.Hour))
		w.returned(result, false, "before the time")
		time.Sleep(time.Hour)
		w.returned(result, true, "at the time")
	})
}

// Without synchronous delivery, and before and after the life of a TM, there is nothing to wait for. Wake does nothing
// then.
func TestWaitInOtherStates(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		w.tm.Wake()
		w.is(w.tm.Wait(time.Time{}), syscall.EINVAL)
	})
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.ok(w.tm.DeliverSynchronously())
		w.is(w.tm.Wait(time.Time{}), syscall.EINVAL)
		w.tm.Wake()
		w.start()
		w.close()
		w.is(w.tm.Wait(time.Time{}), syscall.EINVAL)
		w.tm.Wake()
	})
}

// A TM that stops or fails ends Wait. While it stops, Wait returns for the events of the buffers.
func TestWaitEnds(t *testing.T) {
	for what, end := range map[string]func(w *fixture){
		"stop": func(w *fixture) { w.ok(w.tm.Abort()) },
		"fail": func(w *fixture) { w.fake.push(Completion{Down: true, Err: syscall.EPIPE}) },
	} {
		t.Run(what, func(t *testing.T) {
			withSynchronousFixture(t, func(w *fixture) {
				b := w.added(MsgRecv)
				over := make(chan struct{})
				go func() {
					defer close(over)
					for w.tm.Wait(time.Time{}) == nil {
						_, _ = w.tm.DeliverAll()
					}
				}()
				synctest.Wait()
				end(w)
				synctest.Wait()
				w.fake.obey()
				<-over
				w.ended(b, syscall.ECANCELED)
			})
		})
	}
	withSynchronousFixture(t, func(w *fixture) {
		result := w.waiting(time.Time{})
		w.ok(w.tm.Abort()) // no buffer is queued, so the worker does it all
		w.returned(result, true, "the TM has stopped")
	})
}

// Notify and Wait at the same time: the channel is signalled in any case, whether the event comes before or after Wait
// has returned, and whether the worker was in the Core before.
func TestWaitAndNotify(t *testing.T) {
	withSynchronousFixture(t, func(w *fixture) {
		for n := range 4 {
			var c Channel
			signal := c.Wait()
			if n%2 == 0 { // the worker waits first
				w.ok(w.tm.Notify(&c))
				synctest.Wait()
			}
			result := w.waiting(time.Time{})
			if n%2 == 1 {
				w.ok(w.tm.Notify(&c))
			}
			if n >= 2 {
				w.tm.Wake()
				<-result
			}
			if signalled(signal) {
				t.Error("signalled for nothing")
			}
			b := w.added(MsgRecv)
			w.fake.finish(b, 1)
			if n < 2 {
				<-result
			}
			<-signal
			_, err := w.tm.DeliverAll()
			w.ok(err)
		}
	})
}

// If a callback ends DeliverAll by Goexit, Wait returns for the events that are left, in whichever goroutine it is.
func TestWaitAfterGoexit(t *testing.T) {
	withSynchronousFixture(t, func(w *fixture) {
		b, c := w.added(MsgRecv), w.added(MsgRecv)
		w.on = func(*BufferEvent) {
			w.on = nil
			runtime.Goexit()
		}
		w.fake.finish(b, 1)
		w.fake.finish(c, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = w.tm.DeliverAll()
		}()
		<-done
		w.ok(w.tm.Wait(time.Time{}))
		if n, err := w.tm.DeliverAll(); n != 1 || err != nil {
			t.Errorf("delivered %d, %v", n, err)
		}
	})
}
