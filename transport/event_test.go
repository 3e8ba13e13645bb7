package transport

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// The event of a completed buffer has its time, length, offset and queue.
//
// transport-tests D (31)
// transport 3.10 posting (2)-(3), 3.12 (2)
func TestEvent(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		b := w.added(q)
		time.Sleep(time.Second)
		at := time.Now()
		c := w.fake.take(b, true)
		c.Length, c.Offset, c.Time = 100, 50, at
		time.Sleep(time.Second)
		w.fake.push(c)
		synctest.Wait()
		e := w.ended(b, 0)
		want := BufferEvent{TM: w.tm, Buffer: b, Queue: q, Final: true, Time: at}
		bytes := uint64(8192)
		if q.receives() {
			want.Length, want.Offset, bytes = 100, 50, 100
		}
		if q == MsgRecv {
			want.EndPoint = e.EndPoint
			if e.EndPoint.Address() != peer || b.MessagesReceived() != 1 {
				t.Errorf("message from %v, %d in all", e.EndPoint, b.MessagesReceived())
			}
		}
		if e != want || w.flags[0] != FlagRegistered {
			t.Errorf("event is %+v, want %+v; flags are %#x", e, want, w.flags[0])
		}
		stats := Stats{Adds: 1, Successes: 1, TimeInQueue: time.Second, Bytes: bytes, MaxBytes: bytes}
		if got := w.tm.Stats(q); got != stats {
			t.Errorf("stats are %+v, want %+v", got, stats)
		}
		if w.tm.QueueLength(q) != 0 || w.tm.credits != 0 {
			t.Errorf("%d buffers, %d credits are left", w.tm.QueueLength(q), w.tm.credits)
		}
	})
}

// An event with an error counts as a failure of no bytes, and reports its error.
//
// transport 3.10 posting (3), 3.12 (2), 3.16
func TestFailure(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		b := w.added(q)
		time.Sleep(time.Second)
		c := w.fake.take(b, true)
		c.Err, c.Length, c.Offset = syscall.EHOSTUNREACH, 10, 10
		w.fake.push(c)
		synctest.Wait()
		e := w.ended(b, syscall.EHOSTUNREACH)
		if e.Length != 0 || e.Offset != 0 || e.EndPoint != nil || b.MessagesReceived() != 0 {
			t.Errorf("event is %+v", e)
		}
		if s := w.tm.Stats(q); s != (Stats{Adds: 1, Failures: 1, TimeInQueue: time.Second}) {
			t.Errorf("stats are %+v", s)
		}
	})
}

// Errors and diagnostics of the core become TM events, and do not change the state of the TM.
//
// transport-tests D (35)
// transport 3.5 event
func TestTMEvents(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		at := time.Now()
		w.fake.push(Completion{Err: syscall.ENOBUFS, Time: at}, Completion{Diagnostic: "here I am", Time: at})
		synctest.Wait()
		got := w.tmEvents[1:]
		want := []TMEvent{
			{Type: TMError, TM: w.tm, Time: at, Err: syscall.ENOBUFS, Next: StateStarted},
			{Type: TMDiagnostic, TM: w.tm, Time: at, Next: StateStarted, Diagnostic: "here I am"},
		}
		if !slices.Equal(got, want) {
			t.Errorf("told %+v", got)
		}
		if s := w.tm.State(); s != StateStarted {
			t.Errorf("state is %v", s)
		}
	})
}

// The channel of a TM is signalled after each callback and each change of the TM's state.
//
// transport-tests D (36)
// transport 3.10 posting (4), 3.10 posting (8)
func TestChannel(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		b := w.added(MsgRecv)
		c := w.tm.Channel().Wait()
		if again := w.tm.Channel().Wait(); again != c {
			t.Error("two who wait wait for different things")
		}
		synctest.Wait()
		if signalled(c) {
			t.Error("signalled for nothing")
		}
		w.on = func(*BufferEvent) {
			if signalled(c) {
				t.Error("signalled while a callback runs")
			}
		}
		w.fake.finish(b, 1)
		synctest.Wait()
		if !signalled(c) {
			t.Error("not signalled after a callback")
		}
		c = w.tm.Channel().Wait()
		w.ok(w.tm.Abort())
		if !signalled(c) {
			t.Error("not signalled by Stop")
		}
		c = w.tm.Channel().Wait()
		synctest.Wait()
		if !signalled(c) || w.tm.State() != StateStopped {
			t.Error("not signalled when it was stopped")
		}
	})
}

// A completion with invalid contents is reported as an error.
//
// transport-tests D (37), G (67)
// transport 3.11 (5), 3.16, 6.5 (3)
func TestInvalidCompletions(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		b := w.buffer(MsgRecv)
		b.MaxMessages = 100
		w.ok(w.tm.Add(b))
		good := w.fake.take(b, false)
		for i, change := range []func(c *Completion){
			func(c *Completion) { c.Sender = Address{} },
			func(c *Completion) { c.Err = syscall.EIO },
			func(c *Completion) { c.Length = 8193 },
			func(c *Completion) { c.Offset, c.Length = 8192, 1 },
			func(c *Completion) { c.Offset = -1 },
			func(c *Completion) { c.Offset, c.Length = math.MaxInt, 1 },
			func(c *Completion) { c.Length = -1 },
		} {
			c := good
			change(&c)
			w.fake.push(c)
			synctest.Wait()
			if s := w.tm.Stats(MsgRecv); len(w.events) != 0 || s.Failures != uint64(i+1) || s.Successes != 0 {
				t.Errorf("change %d: %d events, stats %+v", i, len(w.events), s)
			}
			if b.Flags() != FlagRegistered|FlagQueued || b.MessagesReceived() != 0 {
				t.Errorf("change %d: flags are %#x, %d messages", i, b.Flags(), b.MessagesReceived())
			}
		}
		c := w.fake.take(b, true)
		c.Sender = Address{}
		w.fake.push(c)
		synctest.Wait()
		w.ended(b, syscall.EPROTO)

		b = w.added(PassiveBulkRecv)
		w.fake.finish(b, 8193)
		synctest.Wait()
		w.ended(b, syscall.EPROTO)
	})
}

// Completions of an op that has ended have no effect, even if the buffer is queued again, on this or
// another TM.
//
// transport 3.10 posting (1)
func TestStaleCompletions(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		b := w.added(q)
		stale := w.fake.take(b, false)
		stale.Final = true
		w.fake.finish(b, 1)
		synctest.Wait()
		w.fake.push(stale)
		synctest.Wait()
		w.ended(b, 0)
		w.ok(w.tm.Add(b))
		w.fake.push(stale)
		synctest.Wait()
		w.ended(b, 0)
		if b.Flags()&FlagQueued == 0 {
			t.Error("the buffer is not queued any more")
		}
	})
}

// A buffer stays queued, with its deadline, until its final event.
//
// transport-tests H (71)-(72)
// transport 3.9 (1), 3.10 posting (2), 3.11 (3)-(4), 3.12 (2)
// r.M0.net.xprt.lnet.multiple-messages-in-buffer
func TestRetain(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		b := w.buffer(q)
		b.MaxMessages = 4
		b.Deadline = later(time.Hour)
		deadline := b.Deadline
		w.ok(w.tm.Add(b))
		time.Sleep(time.Second)
		for i := range 3 {
			w.fake.message(b, 100*i, 100)
			synctest.Wait()
			e := w.events[i]
			if e.Final || e.Err != nil || w.flags[i] != FlagRegistered|FlagQueued || !b.Deadline.Equal(deadline) {
				t.Errorf("event %d is %+v, flags %#x", i, e, w.flags[i])
			}
			if q.receives() && (e.Offset != 100*i || e.Length != 100) {
				t.Errorf("event %d has %d bytes at %d", i, e.Length, e.Offset)
			}
			if w.tm.QueueLength(q) != 1 || len(w.tm.deadlines) != 1 || w.tm.Stats(q).TimeInQueue != 0 {
				t.Errorf("the buffer has left the queue with event %d", i)
			}
		}
		if n := b.MessagesReceived(); q == MsgRecv && n != 3 {
			t.Errorf("%d messages", n)
		}
		w.fake.fail(b, syscall.EIO)
		synctest.Wait()
		w.ended(b, syscall.EIO)
		s := w.tm.Stats(q)
		if s.Successes != 3 || s.Failures != 1 || s.Adds != 1 || s.TimeInQueue != time.Second || !b.Deadline.IsZero() {
			t.Errorf("stats are %+v, deadline %v", s, b.Deadline)
		}
	})
}

// Messages of several senders may complete in a different order than their offsets. Each event has the
// right offset, and the final event is the last one.
//
// transport 3.11 (6)
func TestMessagesOutOfOrder(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		b := w.buffer(MsgRecv)
		b.MaxMessages = 3
		w.ok(w.tm.Add(b))
		w.fake.message(b, 200, 50)
		w.fake.message(b, 0, 100)
		last := w.fake.take(b, true)
		last.Offset, last.Length = 100, 100
		w.fake.push(last)
		synctest.Wait()
		w.ended(b, 0)
		for i, want := range []BufferEvent{{Offset: 200, Length: 50}, {Length: 100}, {Offset: 100, Length: 100, Final: true}} {
			e := w.events[i]
			if e.Err != nil || e.Offset != want.Offset || e.Length != want.Length || e.Final != want.Final {
				t.Errorf("event %d: %d bytes at %d, final %t, %v", i, e.Length, e.Offset, e.Final, e.Err)
			}
		}
		if n := b.MessagesReceived(); n != 3 || len(w.events) != 3 {
			t.Errorf("%d messages, %d events", n, len(w.events))
		}
	})
}

// Event data is at the position in the event, divided like the segments.
func TestEventData(t *testing.T) {
	b := NewBuffer([]byte("abc"), []byte("defgh"), []byte("ij"))
	for _, c := range []struct {
		off, n int
		want   string
	}{{0, 10, "abc defgh ij"}, {2, 3, "c de"}, {3, 5, "defgh"}, {8, 2, "ij"}, {0, 0, ""}} {
		e := &BufferEvent{Buffer: b, Offset: c.off, Length: c.n}
		var pieces [][]byte
		for p := range e.Data() {
			pieces = append(pieces, p)
		}
		if got := string(bytes.Join(pieces, []byte(" "))); got != c.want {
			t.Errorf("%d bytes at %d are %q, want %q", c.n, c.off, got, c.want)
		}
		for range e.Data() {
			break
		}
		out := make([]byte, 4)
		want := bytes.Join(pieces, nil)
		want = want[:min(len(want), 4)]
		if n := e.CopyTo(out); !bytes.Equal(out[:n], want) {
			t.Errorf("CopyTo(4) is %q, want %q", out[:n], want)
		}
	}
}

// Bytes returns a part of contiguous memory, with a capacity that prevents writes beyond it.
func TestEventBytes(t *testing.T) {
	whole := []byte("abcdefgh")
	e := &BufferEvent{Buffer: NewBuffer(whole[:3], whole[3:]), Offset: 2, Length: 4}
	if got := e.Bytes(); string(got) != "cdef" || cap(got) != 4 || &got[0] != &whole[2] {
		t.Errorf("bytes are %q, with room for %d", got, cap(got))
	}
	e.Buffer = NewBuffer([]byte("abc"), []byte("defgh"))
	if got := e.Bytes(); got != nil {
		t.Errorf("bytes of memory in two pieces are %q", got)
	}
}

// Callbacks run one at a time, in another goroutine than Add, regardless of the number of queues and adding
// goroutines.
//
// transport-tests D (34)
// transport 3.10 guarantees
func TestCallbacksAreSerial(t *testing.T) {
	prepare := func(w *fixture) {
		w.core.wrap = func(tm *fakeTM) CoreTM { return steadyTM{tm, 0} }
	}
	withFixture(t, prepare, func(w *fixture) {
		var running, count atomic.Int32
		w.on = func(e *BufferEvent) {
			if running.Add(1) != 1 {
				t.Error("two callbacks at once")
			}
			runtime.Gosched()
			count.Add(1)
			running.Add(-1)
			e.Buffer.Data.(chan bool) <- true
		}
		var group sync.WaitGroup
		for q := range QueueType(QueueTypes) {
			b := w.buffer(q)
			ended := make(chan bool) // unbuffered: a callback on the stack of Add would hang
			b.Data = ended
			group.Go(func() {
				for range 50 {
					w.ok(w.tm.Add(b))
					<-ended
				}
			})
		}
		group.Wait()
		if n := count.Load(); n != 50*QueueTypes {
			t.Errorf("%d callbacks", n)
		}
	})
}

// A callback may add its buffer again, cancel and add others, hold and create end points, and stop the TM.
//
// transport 3.2 (2)-(3), 3.10 posting (6)
func TestCallsFromCallbacks(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		b, other, third := w.added(MsgRecv), w.added(PassiveBulkSend), w.buffer(PassiveBulkRecv)
		rounds := 0
		w.on = func(e *BufferEvent) {
			if e.Buffer != b {
				return
			}
			rounds++
			switch rounds {
			case 1:
				e.EndPoint.Get()
				w.ok(w.tm.Add(b))
			case 2:
				if !w.tm.Cancel(other) {
					t.Error("not cancelled")
				}
				w.ok(w.tm.Add(third))
				w.ok(w.tm.Add(b))
				w.is(w.domain.Deregister(b), syscall.EBUSY)
			case 3:
				p, err := w.tm.EndPointAt(peer)
				w.ok(err)
				p.Put()
				w.ok(w.domain.Deregister(b))
				w.ok(w.tm.Abort())
				w.is(w.tm.Add(b), syscall.EINVAL)
			}
		}
		for range 3 {
			w.fake.finish(b, 1)
			synctest.Wait()
		}
		w.settle()
		w.ended(other, syscall.ECANCELED)
		w.ended(third, syscall.ECANCELED)
		if rounds != 3 || w.tm.State() != StateStopped {
			t.Errorf("%d rounds, state %v", rounds, w.tm.State())
		}
		w.is(w.tm.Close(), syscall.EBUSY)
		w.events[0].EndPoint.Put()
	})
}

// Adds that callbacks defer to the end of the round are submitted to the Core in one call. If the Core
// refuses one, it ends with an event.
//
// transport 9.6 (2)
func TestAddsOfARoundGoTogether(t *testing.T) {
	withFixture(t, func(w *fixture) { w.ok(w.tm.DeliverSynchronously()) }, func(w *fixture) {
		var bs []*Buffer
		for range 5 {
			bs = append(bs, w.added(MsgRecv))
		}
		var kept *BufferEvent
		w.on = func(e *BufferEvent) {
			kept = e
			if e.Err != nil {
				return
			}
			w.ok(e.Add(e.Buffer))
			w.is(e.Add(e.Buffer), syscall.EBUSY)
			if e.Buffer.Flags()&FlagQueued == 0 {
				t.Error("the buffer is not queued")
			}
			if e.Buffer == bs[4] {
				w.tm.Cancel(bs[4])
			}
		}
		for _, b := range bs {
			w.fake.finish(b, 1)
		}
		w.fake.calls = nil
		w.fake.submit = func(_ *fakeTM, ops []Op) (int, error) {
			switch len(ops) {
			case 5:
				return 1, syscall.ENOMEM
			case 3:
				return 0, syscall.EHOSTUNREACH
			}
			return len(ops), nil
		}
		n, err := w.tm.DeliverAll()
		if n != 7 || err != nil || !slices.Equal(w.fake.calls, []int{5, 3, 2, 1}) {
			t.Errorf("%d events, %v, calls of %d", n, err, w.fake.calls)
		}
		for i, want := range []error{nil, syscall.ENOMEM, syscall.EHOSTUNREACH, nil, nil} {
			last := w.finals(bs[i])[len(w.finals(bs[i]))-1]
			if !errors.Is(last.Err, want) || (bs[i].Flags()&FlagQueued != 0) != (want == nil) {
				t.Errorf("buffer %d: %v, flags %#x", i, last.Err, bs[i].Flags())
			}
		}
		if s := w.tm.Stats(MsgRecv); s.Adds != 10 || s.Successes != 5 || s.Failures != 2 {
			t.Errorf("stats are %+v", s)
		}
		w.is(kept.Add(bs[1]), syscall.EINVAL)
		w.fake.submit = nil
		w.fake.obey()
		n, err = w.tm.DeliverAll()
		if n != 1 || err != nil || len(w.finals(bs[4])) != 2 {
			t.Errorf("a cancel of what was not handed over yet: %d events, %v", n, err)
		}
	})
}

// In the callback that reports the refusal, a buffer may be added again in the same way, and is submitted.
func TestRefusedAddsOfARound(t *testing.T) {
	withFixture(t, func(w *fixture) { w.ok(w.tm.DeliverSynchronously()) }, func(w *fixture) {
		b := w.added(MsgRecv)
		w.fake.finish(b, 1)
		w.on = func(e *BufferEvent) { w.ok(e.Add(b)) }
		refusals := 3
		w.fake.submit = func(_ *fakeTM, ops []Op) (int, error) {
			refusals--
			if refusals < 0 {
				return len(ops), nil
			}
			return 0, syscall.ENOMEM
		}
		if n, err := w.tm.DeliverAll(); n != 4 || err != nil || w.fake.has() != 1 {
			t.Errorf("delivered %d, %v, the core has %d", n, err, w.fake.has())
		}
		w.on = nil
	})
}

// Signals leave one token, even if no goroutine waits, and wake waits of the other kind.
func TestTokens(t *testing.T) {
	var c Channel
	tokens, closed := c.Tokens(), c.Wait()
	c.Signal()
	c.Signal()
	select {
	case <-closed:
	default:
		t.Error("who waits beside the one who takes tokens was not woken")
	}
	if c.Tokens() != tokens || len(tokens) != 1 {
		t.Fatalf("two signals have left %d tokens", len(tokens))
	}
	<-tokens
	c.Signal()
	if len(tokens) != 1 {
		t.Error("no token of a signal after one was taken")
	}
}
