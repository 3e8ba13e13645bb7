package transport

import (
	"errors"
	"math"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Add sets the flags of the buffer, resets its counters, and changes the length and the statistics of its
// queue only.
//
// transport-tests C (21)
// transport 3.7 flags, 3.8 (3), 3.8 (5), 3.12 (1)
func TestAdd(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		b := w.buffer(q)
		b.state.messages.Store(3)
		w.ok(w.tm.Add(b))
		if f := b.Flags(); f != FlagRegistered|FlagQueued {
			t.Errorf("flags are %#x", f)
		}
		for o := range QueueType(QueueTypes) {
			want, stats := 0, Stats{}
			if o == q {
				want, stats = 1, Stats{Adds: 1}
			}
			if n := w.tm.QueueLength(o); n != want {
				t.Errorf("%v has %d buffers", o, n)
			}
			if s := w.tm.Stats(o); s != stats {
				t.Errorf("stats of %v are %+v", o, s)
			}
		}
		if op := w.fake.ops[0]; op.Queue != q || op.Buffer.(*fakeBuffer).token != any(b) || op.Cancel {
			t.Errorf("the core has %+v", op)
		}
		if b.MessagesReceived() != 0 {
			t.Error("messages were received")
		}
	})
}

// The fields of the ops of each queue.
//
// transport 6.4
func TestOps(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		var passive []MatchBits
		for q := range QueueType(QueueTypes) {
			b := w.buffer(q)
			b.Length, b.MaxMessages, b.MinReceiveSize = 5000, 3, 100
			w.ok(w.tm.Add(b))
			op := w.fake.ops[q]
			want := Op{Queue: q, Buffer: op.Buffer, Sequence: 1}
			switch q {
			case MsgRecv:
				want.MaxMessages, want.MinReceiveSize = 3, 100
			case MsgSend:
				want.Length, want.Peer = 5000, peer
			case PassiveBulkRecv:
				want.MatchBits = MakeMatchBits(12, 1)
			case PassiveBulkSend:
				want.MatchBits, want.Length = MakeMatchBits(12, 2), 5000
			case ActiveBulkRecv:
				want.MatchBits, want.Length, want.Peer = MakeMatchBits(7, 1), 8192, peer
			case ActiveBulkSend:
				want.MatchBits, want.Length, want.Peer = MakeMatchBits(7, 1), 5000, peer
			}
			if op != want {
				t.Errorf("%v: op is %+v, want %+v", q, op, want)
			}
			if q.passive() {
				passive = append(passive, op.MatchBits)
				size := map[QueueType]int{PassiveBulkRecv: 8192, PassiveBulkSend: 5000}[q]
				p, err := b.Descriptor.Decode()
				if want := (Passive{w.tm.Self().Address(), op.MatchBits, q, size}); err != nil || p != want {
					t.Errorf("%v: descriptor is %+v, %v, want %+v", q, p, err, want)
				}
			}
		}
		if len(passive) != 2 {
			t.Errorf("%d passive buffers", len(passive))
		}
	})
}

// The counter of passive buffers wraps around from its last value to 1.
//
// transport-tests I (78)
// transport 6.4
func TestPassiveCounterWraps(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		w.added(PassiveBulkSend)
		w.tm.matchBits = MakeMatchBits(12, MaxCounter-1)
		w.added(PassiveBulkRecv)
		w.added(PassiveBulkSend)
		var got []uint64
		for _, op := range w.fake.ops {
			got = append(got, op.MatchBits.Counter())
		}
		if !slices.Equal(got, []uint64{1, MaxCounter, 1}) {
			t.Errorf("counters are %d", got)
		}
	})
}

// A refused add leaves the buffer, the queue and the statistics unchanged.
//
// transport-tests C (22)-(23), C (25), C (30)
// transport 3.6 (7), 3.8 table, 3.8 (2), 3.8 errors, 3.16
func TestAddRefuses(t *testing.T) {
	type change struct {
		name string
		of   func(q QueueType) bool
		do   func(w *fixture, b *Buffer)
		want syscall.Errno
	}
	every := func(QueueType) bool { return true }
	only := func(q QueueType) func(QueueType) bool { return func(o QueueType) bool { return o == q } }
	sends := func(q QueueType) bool { return q == MsgSend || q == PassiveBulkSend || q == ActiveBulkSend }
	changes := []change{
		{"offset", every, func(_ *fixture, b *Buffer) { b.Offset = 1 }, syscall.EINVAL},
		{"no length", sends, func(_ *fixture, b *Buffer) { b.Length = 0 }, syscall.EINVAL},
		{"too long", sends, func(_ *fixture, b *Buffer) { b.Length = 8193 }, syscall.EINVAL},
		{"no callbacks", every, func(_ *fixture, b *Buffer) { b.Callbacks = nil }, syscall.EINVAL},
		{"no callback", every, func(_ *fixture, b *Buffer) { b.Callbacks[b.Queue] = nil }, syscall.EINVAL},
		{"no queue", every, func(_ *fixture, b *Buffer) { b.Queue = QueueTypes }, syscall.EINVAL},
		{"late", every, func(_ *fixture, b *Buffer) { b.Deadline = later(-time.Millisecond) }, syscall.ETIME},
		{"just late", every, func(_ *fixture, b *Buffer) { b.Deadline = time.Now() }, syscall.ETIME},
		{"no peer", only(MsgSend), func(_ *fixture, b *Buffer) { b.EndPoint = nil }, syscall.EINVAL},
		{"a dead peer", only(MsgSend), func(w *fixture, b *Buffer) { b.EndPoint.Put(); w.held = nil }, syscall.EINVAL},
		{"a peer of another TM", only(MsgSend), func(_ *fixture, b *Buffer) {
			b.EndPoint = &EndPoint{tm: new(TransferMachine), refs: 1}
		}, syscall.EINVAL},
		{"a peer", only(MsgRecv), func(w *fixture, b *Buffer) { b.EndPoint = w.tm.Self() }, syscall.EINVAL},
		{"no minimum", only(MsgRecv), func(_ *fixture, b *Buffer) { b.MinReceiveSize = 0 }, syscall.EINVAL},
		{"large minimum", only(MsgRecv), func(_ *fixture, b *Buffer) { b.MinReceiveSize = 8193 }, syscall.EINVAL},
		{"no messages", only(MsgRecv), func(_ *fixture, b *Buffer) { b.MaxMessages = 0 }, syscall.EINVAL},
		{"too many messages", only(MsgRecv), func(_ *fixture, b *Buffer) { b.MaxMessages = MostMessages + 1 }, syscall.EINVAL},
		{"too many messages", only(MsgRecv), func(_ *fixture, b *Buffer) { b.MaxMessages = math.MaxInt }, syscall.EINVAL},
		{"no descriptor", QueueType.active, func(_ *fixture, b *Buffer) { b.Descriptor = nil }, syscall.EINVAL},
		{"a damaged descriptor", QueueType.active, func(_ *fixture, b *Buffer) { b.Descriptor[0]++ }, syscall.EINVAL},
		{"the wrong direction", QueueType.active, func(_ *fixture, b *Buffer) {
			b.Queue = ActiveBulkRecv + ActiveBulkSend - b.Queue
		}, syscall.EPERM},
		{"another domain's", every, func(w *fixture, b *Buffer) { b.state.domain = new(Domain) }, syscall.EINVAL},
		{"not registered", every, func(w *fixture, b *Buffer) { w.ok(w.domain.Deregister(b)) }, syscall.EINVAL},
	}
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			eachQueue(t, func(w *fixture, q QueueType) {
				if !c.of(q) {
					return
				}
				b := w.buffer(q)
				c.do(w, b)
				flags, deadline, state, bits := b.Flags(), b.Deadline, b.state.use.Load(), w.tm.matchBits
				w.is(w.tm.Add(b), c.want)
				if b.Flags() != flags || !b.Deadline.Equal(deadline) || b.state.use.Load() != state || w.tm.matchBits != bits {
					t.Errorf("flags are %#x, deadline %v", b.Flags(), b.Deadline)
				}
				if w.tm.AllStats() != [QueueTypes]Stats{} || w.tm.queued != 0 || w.tm.credits != 0 || w.fake.has() != 0 {
					t.Errorf("stats are %+v, %d buffers, %d credits", w.tm.AllStats(), w.tm.queued, w.tm.credits)
				}
			})
		})
	}
}

// Add accepts a deadline that has not passed.
//
// transport-tests C (25)
// transport 3.8 (2)
func TestAddBeforeDeadline(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		b := w.buffer(q)
		b.Deadline = later(time.Nanosecond)
		w.ok(w.tm.Add(b))
	})
}

// Add gives a passive buffer a descriptor. It outlasts the final event, but not a later Add that fails.
//
// transport-tests C (24)
// transport 3.8 (1), 3.15 (3)
func TestDescriptorOfPassiveBuffers(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		for _, q := range []QueueType{PassiveBulkRecv, PassiveBulkSend} {
			b := w.added(q)
			if len(b.Descriptor) != DescriptorSize {
				t.Errorf("%v: descriptor has %d bytes", q, len(b.Descriptor))
			}
			w.fake.finish(b, 1)
			synctest.Wait()
			if len(b.Descriptor) != DescriptorSize {
				t.Errorf("%v: the descriptor is gone with the event", q)
			}
			b.Deadline = later(-1)
			w.is(w.tm.Add(b), syscall.ETIME)
			if b.Descriptor != nil {
				t.Errorf("%v: there is a descriptor though Add has failed", q)
			}
			w.fake.submit = func(*fakeTM, []Op) (int, error) { return 0, syscall.ENOMEM }
			b.Deadline = time.Time{}
			w.is(w.tm.Add(b), syscall.ENOMEM)
			if b.Descriptor != nil {
				t.Errorf("%v: there is a descriptor though the core has refused", q)
			}
			w.fake.submit = nil
		}
	})
}

// A queued buffer can neither be added again, not even to another TM, nor be deregistered.
//
// transport-tests C (26)
// transport 3.7 (2), 3.8 errors
func TestAddQueued(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		b := w.added(q)
		w.is(w.tm.Add(b), syscall.EBUSY)
		w.is(w.domain.Deregister(b), syscall.EBUSY)
		other, err := w.domain.NewTM(nil)
		w.ok(err)
		w.is(other.Add(b), syscall.EBUSY)
		if other.Cancel(b) {
			t.Error("another TM cancels it")
		}
		w.ok(other.Close())
		if s := w.tm.Stats(q); s != (Stats{Adds: 1}) || w.fake.has() != 1 {
			t.Errorf("stats are %+v", s)
		}
	})
}

// Cancel ends a queued buffer with ECANCELED when the core has obeyed, and does nothing for a buffer that is
// not queued.
//
// transport-tests C (27)
// transport 3.7 flags, 3.8 del
func TestCancel(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		b := w.buffer(q)
		if w.tm.Cancel(b) || w.tm.Stats(q).Cancels != 0 {
			t.Error("a buffer that is not queued was cancelled")
		}
		w.ok(w.tm.Add(b))
		if !w.tm.Cancel(b) || w.fake.cancelled() != 1 {
			t.Error("a queued buffer was not cancelled")
		}
		if f := b.Flags(); f != FlagRegistered|FlagQueued|FlagCancelled || len(w.finals(b)) != 0 {
			t.Errorf("flags are %#x, %d events", f, len(w.finals(b)))
		}
		w.fake.obey()
		synctest.Wait()
		w.ended(b, syscall.ECANCELED)
		if w.flags[0] != FlagRegistered {
			t.Errorf("flags are %#x in the callback", w.flags[0])
		}
		if w.tm.Cancel(b) {
			t.Error("what is over was cancelled")
		}
		if s := w.tm.Stats(q); s != (Stats{Adds: 1, Cancels: 1, Failures: 1}) {
			t.Errorf("stats are %+v", s)
		}
	})
}

// An operation that completes just before the cancellation reaches it succeeds.
//
// transport 3.8 del, 6.10
func TestCancelTooLate(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		b := w.added(q)
		w.tm.Cancel(b)
		w.fake.finish(b, 10)
		synctest.Wait()
		w.ended(b, 0)
		w.fake.obey()
		synctest.Wait()
		w.ended(b, 0)
	})
}

// A buffer that the Core refuses was never added.
//
// transport 3.8 (4)
func TestCoreRefuses(t *testing.T) {
	eachQueue(t, func(w *fixture, q QueueType) {
		b := w.buffer(q)
		b.Deadline = later(time.Hour)
		deadline := b.Deadline
		w.fake.submit = func(*fakeTM, []Op) (int, error) {
			if b.Flags()&FlagQueued == 0 {
				t.Error("the buffer is not queued when the core gets it")
			}
			return 0, syscall.EHOSTUNREACH
		}
		w.is(w.tm.Add(b), syscall.EHOSTUNREACH)
		if b.Flags() != FlagRegistered || !b.Deadline.Equal(deadline) || w.tm.Stats(q) != (Stats{}) {
			t.Errorf("flags are %#x, stats %+v", b.Flags(), w.tm.Stats(q))
		}
		if w.tm.credits != 0 || w.tm.queued != 0 || len(w.tm.deadlines) != 0 {
			t.Errorf("%d credits, %d buffers, %d deadlines are left", w.tm.credits, w.tm.queued, len(w.tm.deadlines))
		}
		w.fake.submit = nil
		w.ok(w.tm.Add(b))
		w.fake.finish(b, 1)
		synctest.Wait()
		w.ended(b, 0)
	})
}

// AddAll makes one call of the Core, in order. Buffers after a refused one are treated as if they had not
// been passed.
func TestAddAll(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		var bs []*Buffer
		for range 4 {
			bs = append(bs, w.buffer(MsgRecv))
		}
		n, err := w.tm.AddAll(bs...)
		if n != 4 || err != nil || !slices.Equal(w.fake.calls, []int{4}) {
			t.Fatalf("added %d, %v, in calls of %d", n, err, w.fake.calls)
		}
		for i, op := range w.fake.ops {
			if op.Buffer.(*fakeBuffer).token != any(bs[i]) {
				t.Errorf("op %d is of another buffer", i)
			}
		}
		for _, b := range bs {
			w.fake.finish(b, 1)
		}
		synctest.Wait()

		w.fake.submit = func(*fakeTM, []Op) (int, error) { return 2, syscall.ENOMEM }
		n, err = w.tm.AddAll(bs...)
		w.is(err, syscall.ENOMEM)
		if n != 2 || bs[1].Flags()&FlagQueued == 0 || bs[2].Flags() != FlagRegistered || bs[3].Flags() != FlagRegistered {
			t.Errorf("added %d", n)
		}
		w.fake.submit = nil
		n, err = w.tm.AddAll(bs[2], bs[3], bs[3], bs[0])
		w.is(err, syscall.EBUSY)
		if n != 2 || w.tm.QueueLength(MsgRecv) != 4 {
			t.Errorf("added %d, queue has %d", n, w.tm.QueueLength(MsgRecv))
		}
		if s := w.tm.Stats(MsgRecv); s.Adds != 8 {
			t.Errorf("%d adds", s.Adds)
		}
		if n, err = w.tm.AddAll(nil, bs[0]); n != 0 {
			t.Errorf("added %d behind none", n)
		}
		w.is(err, syscall.EINVAL)
		if n, err := w.tm.AddAll(); n != 0 || err != nil {
			t.Errorf("none: %d, %v", n, err)
		}
	})
}

// The engine exceeds the Core's room for events only after the Core has grown it. Growing becomes rarer
// over time. Room reserved for an op is released when the op ends.
//
// r.net.xprt.lnet.growable-event-queue
//
// transport 7.1
// r.net.xprt.lnet.growable-event-queue
func TestRoomForEvents(t *testing.T) {
	withFixture(t, func(w *fixture) { w.core.maxRoom = 200 }, func(w *fixture) {
		reserved := 0
		w.fake.submit = func(tm *fakeTM, ops []Op) (int, error) {
			for _, op := range ops {
				if !op.Cancel {
					reserved += max(op.MaxMessages, 1)
				}
			}
			if reserved > tm.room {
				t.Errorf("%d events are possible, there is room for %d", reserved, tm.room)
			}
			return len(ops), nil
		}
		full := func(messages int) *Buffer {
			b := w.buffer(MsgRecv)
			b.MaxMessages = messages
			return b
		}
		var bs []*Buffer
		for range 10 {
			b := full(20)
			w.ok(w.tm.Add(b))
			bs = append(bs, b)
		}
		if w.fake.room != 200 {
			t.Errorf("the core has room for %d", w.fake.room)
		}
		more := w.buffer(PassiveBulkSend)
		w.is(w.tm.Add(more), syscall.ENOBUFS)
		if more.Flags() != FlagRegistered {
			t.Errorf("flags are %#x", more.Flags())
		}
		// An event that is not final releases no room.
		w.fake.message(bs[0], 0, 1)
		synctest.Wait()
		w.is(w.tm.Add(more), syscall.ENOBUFS)
		w.fake.finish(bs[0], 1)
		synctest.Wait()
		reserved -= 20
		w.is(w.tm.Add(full(21)), syscall.ENOBUFS)
		w.ok(w.tm.Add(full(19)))
		w.ok(w.tm.Add(more))
	})
}

// Errors name the attempted operation.
func TestAddErrorTexts(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		b := w.buffer(MsgSend)
		b.Length = 9000
		err := w.tm.Add(b)
		if want := "transport: add to mSEND: length 9000 is not within 1 to 8192: invalid argument"; err == nil || err.Error() != want {
			t.Errorf("error is %q, want %q", err, want)
		}
		if !errors.Is(err, syscall.EINVAL) {
			t.Error("it has no errno")
		}
	})
}
