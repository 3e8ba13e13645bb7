package transport

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A buffer that is queued until its deadline is cancelled then, and ends with ETIMEDOUT.
//
// transport-tests J (85)
// transport 3.7 flags, 3.9 (1), 3.9 (3)
func TestDeadline(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		b := w.buffer(q)
		b.Deadline = later(time.Second)
		w.ok(w.tm.Add(b))
		time.Sleep(time.Second - 1)
		w.fake.push(Completion{Diagnostic: "the worker looks"})
		synctest.Wait()
		if w.fake.cancelled() != 0 || b.Flags() != FlagRegistered|FlagQueued {
			t.Error("early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if w.fake.cancelled() != 1 || b.Flags() != FlagRegistered|FlagQueued|FlagTimedOut {
			t.Errorf("late: flags are %#x", b.Flags())
		}
		w.fake.obey()
		synctest.Wait()
		w.ended(b, syscall.ETIMEDOUT)
		if s := w.tm.Stats(q); s != (Stats{Adds: 1, Failures: 1, TimeInQueue: time.Second}) {
			t.Errorf("stats are %+v", s)
		}
		if !b.Deadline.IsZero() || w.flags[0] != FlagRegistered {
			t.Errorf("deadline is %v, flags %#x", b.Deadline, w.flags[0])
		}
	})
}

// Deadlines of several buffers expire in their order, also if an earlier one is added later. Buffers that are
// done or have no deadline are not affected.
//
// transport-tests J (86)
func TestDeadlines(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		var same []*Buffer
		for _, q := range []QueueType{MsgRecv, PassiveBulkRecv, PassiveBulkSend} {
			b := w.buffer(q)
			b.Deadline = later(2 * time.Second)
			w.ok(w.tm.Add(b))
			same = append(same, b)
		}
		first, stays := w.buffer(MsgRecv), w.added(MsgRecv)
		first.Deadline = later(time.Second) // earlier than the deadline that the worker waits for
		w.ok(w.tm.Add(first))
		gone := w.buffer(PassiveBulkRecv)
		gone.Deadline = later(time.Second)
		w.ok(w.tm.Add(gone))
		w.fake.finish(gone, 1)
		time.Sleep(time.Second)
		synctest.Wait()
		w.fake.obey()
		synctest.Wait()
		w.ended(first, syscall.ETIMEDOUT)
		w.ended(gone, 0)
		if len(w.events) != 2 {
			t.Errorf("%d events", len(w.events))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.Equal(w.fake.calls[len(w.fake.calls)-1:], []int{3}) {
			t.Errorf("calls of %d", w.fake.calls)
		}
		w.fake.obey()
		synctest.Wait()
		for _, b := range same {
			w.ended(b, syscall.ETIMEDOUT)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if stays.Flags() != FlagRegistered|FlagQueued {
			t.Errorf("flags are %#x of one without a deadline", stays.Flags())
		}
	})
}

// An operation that succeeds after its deadline has succeeded. One that fails otherwise reports that error.
//
// transport 3.9 (2)
func TestDeadlineTooLate(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		for _, want := range []syscall.Errno{0, syscall.EIO} {
			w.events = nil
			b := w.buffer(q)
			b.Deadline = later(time.Second)
			w.ok(w.tm.Add(b))
			time.Sleep(time.Minute)
			synctest.Wait()
			if want == 0 {
				w.fake.finish(b, 1)
			} else {
				w.fake.fail(b, want)
			}
			w.fake.obey()
			synctest.Wait()
			w.ended(b, want)
		}
	})
}

// If a deadline passes while a buffer is being cancelled, it times out, and the other way round.
//
// transport 3.9 (2)
func TestDeadlineAndCancel(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		for _, first := range []bool{true, false} {
			w.events = nil
			b := w.buffer(MsgRecv)
			b.Deadline = later(time.Second)
			w.ok(w.tm.Add(b))
			if first {
				w.tm.Cancel(b)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if !first {
				w.tm.Cancel(b)
			}
			w.fake.obey()
			synctest.Wait()
			w.ended(b, syscall.ETIMEDOUT)
		}
	})
}

// An op that was cancelled before its deadline has not timed out, even if the TM receives the completion
// later.
//
// transport 3.9 (2)
func TestCancelledBeforeDeadline(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		slow, b := w.added(MsgRecv), w.buffer(MsgRecv)
		b.Deadline = later(time.Second)
		w.ok(w.tm.Add(b))
		w.on = func(e *BufferEvent) {
			if e.Buffer == slow {
				time.Sleep(time.Minute)
			}
		}
		w.fake.finish(slow, 1)
		synctest.Wait()
		w.tm.Cancel(b)
		w.fake.obey()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		w.ended(b, syscall.ECANCELED)
	})
}

// Messages that arrive in a multi-message receive buffer do not change its deadline.
//
// transport-tests J (87)
func TestDeadlineBehindMessages(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		b := w.buffer(MsgRecv)
		b.MaxMessages = 3
		b.Deadline = later(time.Second)
		deadline := b.Deadline
		w.ok(w.tm.Add(b))
		w.fake.message(b, 0, 100)
		synctest.Wait()
		if len(w.events) != 1 || !b.Deadline.Equal(deadline) {
			t.Errorf("%d events, deadline %v", len(w.events), b.Deadline)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		w.fake.obey()
		synctest.Wait()
		w.ended(b, syscall.ETIMEDOUT)
		if b.MessagesReceived() != 1 {
			t.Errorf("%d messages", b.MessagesReceived())
		}
	})
}

// A deadline or an abort during the Core's Submit of the op is recorded, and submitted afterwards.
func TestDeadlineWhileSubmitting(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel func(w *fixture, b *Buffer)
		taken  bool
		want   syscall.Errno
	}{
		{"deadline", func(*fixture, *Buffer) { time.Sleep(time.Second) }, true, syscall.ETIMEDOUT},
		{"abort", func(w *fixture, _ *Buffer) { w.ok(w.tm.Abort()) }, true, syscall.ECANCELED},
		{"deadline of what is refused", func(*fixture, *Buffer) { time.Sleep(time.Second) }, false, 0},
		{"abort of what is refused", func(w *fixture, _ *Buffer) { w.ok(w.tm.Abort()) }, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachQueue(t, func(w *fixture, q QueueType) {
				hold := make(chan bool)
				w.fake.submit = func(_ *fakeTM, ops []Op) (int, error) {
					<-hold
					if !c.taken && !ops[0].Cancel {
						return 0, syscall.ENOMEM
					}
					return len(ops), nil
				}
				b := w.buffer(q)
				b.Deadline = later(time.Second)
				added := make(chan error)
				go func() { added <- w.tm.Add(b) }()
				synctest.Wait()
				c.cancel(w, b)
				synctest.Wait()
				if len(w.fake.calls) != 0 {
					t.Errorf("calls of %d", w.fake.calls)
				}
				close(hold)
				err := <-added
				if !c.taken {
					w.is(err, syscall.ENOMEM)
					if b.Flags() != FlagRegistered || w.fake.cancelled() != 0 || len(w.events) != 0 {
						t.Errorf("flags are %#x, %d cancels", b.Flags(), w.fake.cancelled())
					}
					return
				}
				w.ok(err)
				if w.fake.cancelled() != 1 {
					t.Errorf("%d cancels", w.fake.cancelled())
				}
				w.fake.obey()
				synctest.Wait()
				w.ended(b, c.want)
			})
		})
	}
}

// A cancellation during the Core's Submit of the op waits for the result. A final event follows if and only
// if Cancel returns true.
//
// transport 3.8 del
func TestCancelWhileSubmitting(t *testing.T) {
	for _, taken := range []bool{true, false} {
		t.Run(fmt.Sprintf("taken %t", taken), func(t *testing.T) {
			eachQueue(t, func(w *fixture, q QueueType) {
				hold := make(chan bool)
				w.fake.submit = func(_ *fakeTM, ops []Op) (int, error) {
					<-hold
					if !taken {
						return 0, syscall.ENOMEM
					}
					return len(ops), nil
				}
				b := w.buffer(q)
				added, cancelled := make(chan error, 1), make(chan bool, 2)
				go func() { added <- w.tm.Add(b) }()
				synctest.Wait()
				for range 2 {
					go func() { cancelled <- w.tm.Cancel(b) }()
				}
				synctest.Wait()
				if len(cancelled) != 0 || len(w.fake.calls) != 0 {
					t.Error("Cancel knows more than Add")
				}
				close(hold)
				if err := <-added; (err == nil) != taken {
					t.Errorf("add: %v", err)
				}
				for range 2 {
					if <-cancelled != taken {
						t.Error("Cancel promises what does not follow")
					}
				}
				w.fake.obey()
				synctest.Wait()
				if n := len(w.finals(b)); n != map[bool]int{true: 1}[taken] {
					t.Errorf("%d final events", n)
				}
			})
		})
	}
}

// A buffer queued by BufferEvent.Add always gets a final event. So the callback may cancel it immediately.
//
// transport 3.8 del
func TestCancelBeforeTheEndOfARound(t *testing.T) {
	for _, taken := range []bool{true, false} {
		withFixture(t, nil, func(w *fixture) {
			b := w.added(MsgRecv)
			w.on = func(e *BufferEvent) {
				if len(w.events) > 1 {
					return
				}
				w.ok(e.Add(b))
				if !w.tm.Cancel(b) {
					t.Error("it is queued, and was not cancelled")
				}
			}
			w.fake.submit = func(_ *fakeTM, ops []Op) (int, error) {
				if !taken {
					return 0, syscall.ENOMEM
				}
				return len(ops), nil
			}
			w.fake.finish(b, 1)
			synctest.Wait()
			w.fake.obey()
			synctest.Wait()
			if n := len(w.finals(b)); n != 2 {
				t.Errorf("taken %t: %d final events", taken, n)
			}
		})
	}
}

// overtaken makes the next call of Submit complete the op with success before Submit returns. Submit then
// waits until hold receives a value or is closed. Later calls of Submit call then.
func (tm *fakeTM) overtaken(hold <-chan bool, then func(tm *fakeTM, ops []Op) (int, error)) {
	tm.submit = func(_ *fakeTM, ops []Op) (int, error) {
		tm.mu.Lock()
		tm.submit = then
		tm.mu.Unlock()
		c := Completion{Token: ops[0].Buffer.(*fakeBuffer).token, Sequence: ops[0].Sequence, Final: true, Length: 1}
		if ops[0].Queue == MsgRecv {
			c.Sender = peer
		}
		tm.push(c)
		<-hold
		return len(ops), nil
	}
}

// forget drops the oldest op, which had ended before it was accepted.
func (tm *fakeTM) forget() {
	tm.mu.Lock()
	tm.ops = tm.ops[1:]
	tm.mu.Unlock()
}

// A completion precedes the return of Submit, and its callback adds the buffer again. When the first Submit
// returns, it must not modify the second add, which is still in progress.
func TestCompletionOvertakesSubmit(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		hold, holdSecond := make(chan bool), make(chan bool)
		w.fake.overtaken(hold, func(_ *fakeTM, ops []Op) (int, error) {
			<-holdSecond
			return len(ops), nil
		})
		w.on = func(e *BufferEvent) {
			if len(w.events) == 1 {
				e.Buffer.Deadline = later(time.Hour)
				w.ok(w.tm.Add(e.Buffer))
			}
		}
		b := w.buffer(q)
		added := make(chan error)
		go func() { added <- w.tm.Add(b) }()
		synctest.Wait()
		w.ended(b, 0)
		close(hold)
		w.ok(<-added)
		w.fake.forget()
		calls := len(w.fake.calls)
		cancelled := make(chan bool)
		go func() { cancelled <- w.tm.Cancel(b) }()
		synctest.Wait()
		if len(w.fake.calls) != calls {
			t.Error("a cancel has overtaken its op")
		}
		close(holdSecond)
		if !<-cancelled {
			t.Error("not cancelled")
		}
		synctest.Wait()
		if w.fake.cancelled() != 1 || w.tm.Stats(q).Adds != 2 {
			t.Errorf("%d cancels, stats %+v", w.fake.cancelled(), w.tm.Stats(q))
		}
		w.fake.obey()
		synctest.Wait()
		if n := len(w.finals(b)); n != 2 {
			t.Errorf("%d final events", n)
		}
	})
}

// A call of the Core whose op has already ended delays the end of the TM.
func TestStopWaitsForOvertakenCalls(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		hold := make(chan bool)
		w.fake.overtaken(hold, nil)
		b := w.buffer(MsgRecv)
		added := make(chan error)
		go func() { added <- w.tm.Add(b) }()
		synctest.Wait()
		w.ended(b, 0)
		w.ok(w.tm.Abort())
		synctest.Wait()
		if s := w.tm.State(); s != StateStopping {
			t.Errorf("state is %v", s)
		}
		close(hold)
		w.ok(<-added)
		synctest.Wait()
		w.fake.forget()
	})
}
