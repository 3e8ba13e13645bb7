package transport

import (
	"context"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// When the Core is gone, every buffer ends with ECANCELED, and then the TM fails with EPIPE.
//
// transport 3.5 ours (3)
func TestDown(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		var bs []*Buffer
		for q := range QueueType(QueueTypes) {
			bs = append(bs, w.added(q))
		}
		late := w.buffer(PassiveBulkRecv)
		late.Deadline = later(time.Second)
		w.ok(w.tm.Add(late))
		time.Sleep(time.Second)
		synctest.Wait()
		well := w.added(PassiveBulkSend)
		w.on = func(e *BufferEvent) {
			if w.tm.State() != StateStarted {
				t.Error("the TM has failed before its buffers have ended")
			}
			if e.Err != nil {
				w.is(w.tm.Add(e.Buffer), syscall.EPIPE)
				w.is(e.Add(e.Buffer), syscall.EPIPE)
			}
		}
		w.onTM = func(e *TMEvent) {
			if len(w.events) != 8 {
				t.Errorf("%v after %d events", e.Next, len(w.events))
			}
		}
		c := w.fake.take(well, true)
		w.fake.push(c, Completion{Down: true, Err: syscall.EPIPE})
		synctest.Wait()
		w.ended(well, 0)
		for _, b := range bs {
			w.ended(b, syscall.ECANCELED)
		}
		w.ended(late, syscall.ETIMEDOUT)
		if s := w.states(); !slices.Equal(s, []State{StateStarted, StateFailed}) {
			t.Errorf("told %v", s)
		}
		w.is(w.tmEvents[1].Err, syscall.EPIPE)
		w.is(w.tm.Await(context.Background(), StateStopped), syscall.EPIPE)
		w.is(w.tm.Add(well), syscall.EINVAL)
		w.is(w.tm.Abort(), syscall.EINVAL)
	})
}

// If the Core goes away while the TM is stopping, or while nothing is queued, the buffers end and the TM
// fails with EPIPE as well.
//
// transport 3.5 ours (3)
func TestDownWhileStopping(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		b := w.added(MsgRecv)
		w.ok(w.tm.Stop())
		synctest.Wait()
		w.fake.push(Completion{Down: true})
		synctest.Wait()
		w.ended(b, syscall.ECANCELED)
		if s := w.states(); !slices.Equal(s, []State{StateStarted, StateFailed}) {
			t.Errorf("told %v", s)
		}
		w.is(w.tmEvents[1].Err, syscall.EPIPE)
	})
	withFixture(t, nil, func(w *fixture) {
		w.fake.push(Completion{Down: true, Err: syscall.EPIPE}, Completion{Down: true, Err: syscall.EPIPE})
		synctest.Wait()
		if s := w.tm.State(); s != StateFailed {
			t.Errorf("state is %v", s)
		}
	})
}

// With synchronous delivery the events of the buffers wait for DeliverAll, and the failure waits for the
// events.
//
// transport 3.5 ours (3)
func TestDownWithSynchronousDelivery(t *testing.T) {
	withSynchronousFixture(t, func(w *fixture) {
		b := w.added(MsgRecv)
		var c Channel
		wake := c.Wait()
		w.ok(w.tm.Notify(&c))
		w.fake.push(Completion{Down: true, Err: syscall.EPIPE})
		synctest.Wait()
		if s := w.tm.State(); s != StateStarted || len(w.events) != 0 || !signalled(wake) || !w.tm.Pending() {
			t.Fatalf("state is %v, %d events", s, len(w.events))
		}
		if n, err := w.tm.DeliverAll(); n != 1 || err != nil {
			t.Errorf("delivered %d, %v", n, err)
		}
		w.ended(b, syscall.ECANCELED)
		synctest.Wait()
		if s := w.tm.State(); s != StateFailed {
			t.Errorf("state is %v", s)
		}
	})
}

// If the Core goes away during Submit of an op, the op ends when the result is known: by an error or by an
// event, but not by both.
func TestDownWhileSubmitting(t *testing.T) {
	for _, taken := range []bool{true, false} {
		withFixture(t, nil, func(w *fixture) { w.downWhileSubmitting(taken) })
		withSynchronousFixture(t, func(w *fixture) { w.downWhileSubmitting(taken) })
	}
}

func (w *fixture) downWhileSubmitting(taken bool) {
	hold := make(chan bool)
	w.fake.submit = func(_ *fakeTM, ops []Op) (int, error) {
		<-hold
		if taken {
			return len(ops), nil
		}
		return 0, syscall.EPIPE
	}
	b := w.buffer(MsgRecv)
	added := make(chan error)
	go func() { added <- w.tm.Add(b) }()
	synctest.Wait()
	w.fake.push(Completion{Down: true, Err: syscall.EPIPE})
	synctest.Wait()
	var c Channel
	wake := c.Wait()
	if w.tm.synchronous {
		if n, err := w.tm.DeliverAll(); n != 0 || err != nil || w.tm.Pending() {
			w.t.Errorf("delivered %d, %v", n, err)
		}
		w.ok(w.tm.Notify(&c))
	}
	if s := w.tm.State(); s != StateStarted || len(w.events) != 0 {
		w.t.Errorf("state is %v, %d events", s, len(w.events))
	}
	close(hold)
	err := <-added
	synctest.Wait()
	if !taken {
		w.is(err, syscall.EPIPE)
		if len(w.events) != 0 {
			w.t.Errorf("%d events", len(w.events))
		}
	} else {
		w.ok(err)
		if w.tm.synchronous {
			if !signalled(wake) || !w.tm.Pending() {
				w.t.Error("nobody was told")
			}
			if n, err := w.tm.DeliverAll(); n != 1 || err != nil {
				w.t.Errorf("delivered %d, %v", n, err)
			}
			synctest.Wait()
		}
		w.ended(b, syscall.ECANCELED)
	}
	if s := w.tm.State(); s != StateFailed {
		w.t.Errorf("state is %v", s)
	}
}

// If the Core goes away at any moment during an Add, the buffer ends and the TM fails. One of these moments
// is between the worker's check for remaining work and its sleep, where nothing else wakes the worker.
func TestDownWhileAnAddReturns(t *testing.T) {
	for k := range 1000 {
		withFixture(t, nil, func(w *fixture) {
			hold := make(chan bool)
			w.fake.submit = func(_ *fakeTM, ops []Op) (int, error) {
				<-hold
				return len(ops), nil
			}
			b := w.buffer(MsgRecv)
			added := make(chan error)
			go func() { added <- w.tm.Add(b) }()
			synctest.Wait()
			go w.fake.push(Completion{Down: true, Err: syscall.EPIPE})
			go func() {
				for range k % 40 {
					runtime.Gosched()
				}
				close(hold)
			}()
			w.ok(<-added)
			synctest.Wait()
			if s := w.tm.State(); s != StateFailed {
				t.Fatalf("the TM is %v", s) // w.close would hang
			}
			w.ended(b, syscall.ECANCELED)
		})
	}
}
