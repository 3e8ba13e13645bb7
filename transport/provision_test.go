package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A TM gets its receive buffers after the callback that reports its start, and before Await returns.
//
// transport-tests L (94)
// transport 3.5 posting, 5.1 (1), 5.2 (4), 5.3 (1)
// r.M0.net.xprt.support-for-auto-provisioned-receive-queue
// i.m0.net.xprt.support-for-auto-provisioned-receive-queue
func TestAStartedTMIsProvisioned(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		f := h.attached(2)
		f.onStarted = func() {
			if f.QueueLength(MsgRecv) != 0 || h.pool.Free() != 8 {
				t.Error("buffers were added before the callback has returned")
			}
		}
		go func() {
			if err := f.Await(context.Background(), StateStarted); err != nil || f.QueueLength(MsgRecv) != 2 {
				t.Errorf("started, with %d buffers: %v", f.QueueLength(MsgRecv), err)
			}
		}()
		f.start().has(2, 0, 0)
		h.free(6)
		for _, b := range f.queued() {
			how := &f.provisioning.config
			if b.Queue != MsgRecv || b.Callbacks != how.Callbacks || b.MinReceiveSize != 4096 || b.MaxMessages != 2 || b.Pool() != h.pool {
				t.Errorf("%+v", b)
			}
		}
		for _, op := range f.fake.ops {
			if op.Queue != MsgRecv || op.MinReceiveSize != 4096 || op.MaxMessages != 2 {
				t.Errorf("%+v", op)
			}
		}
	})
}

// A TM keeps its receive queue at the set length while the pool has buffers. A shorter length removes no
// buffers from the queue.
//
// transport-tests L (95)-(96)
// transport 3.12 (2), 5.1 (2)-(3), 5.2 (1), 5.2 (3), 5.3 (3)-(4)
// i.m0.net.xprt.support-for-auto-provisioned-receive-queue
func TestReceiveQueueLength(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		f := h.attached(2).start()
		f.setLength(4)
		f.has(4, 0, 0)
		h.free(4)
		f.setLength(10)
		f.has(8, 2, 2)
		h.free(0)
		told := f.Channel().Wait()
		f.setLength(10)
		f.has(8, 2, 2)
		select {
		case <-told:
		default:
			t.Error("the TM's channel was not signalled")
		}
		h.notEmpty = 0
		h.provision(2)
		f.has(10, 0, 2)
		h.free(0)
		if h.notEmpty == 0 {
			t.Error("NotEmpty was not called")
		}
		f.setLength(12)
		f.has(10, 2, 4)
		f.setLength(11)
		f.has(10, 1, 4)
		f.setLength(3)
		f.has(10, 0, 4)
		f.ends(7, nil)
		f.has(3, 0, 4)
		h.free(7)
		f.ends(1, nil)
		f.has(3, 0, 4)
		f.setLength(1)
		f.ends(3, syscall.EIO)
		f.has(1, 0, 7)
		is(t, f.SetQueueLength(0), syscall.EINVAL)
		is(t, f.SetQueueLength(-1), syscall.EINVAL)
		f.has(1, 0, 7)
	})
}

// The length of the receive queue is that of AttachPool, or that of SetQueueLength, or the default.
//
// transport 5.1 (2)-(3)
func TestDefaultLengths(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		h.attached(0).start().has(defaultQueueLength, 0, 0)
		h.attached(1).start().has(1, 0, 0)
		f := h.newTM()
		f.setLength(3)
		if err := f.AttachPool(h.pool, f.settings(0)); err != nil {
			t.Fatal(err)
		}
		f.start().has(3, 0, 0)
		loose := h.newTM().start()
		loose.setLength(3)
		loose.has(0, 0, 0)
	})
}

// A buffer's final event causes the queue to be refilled before the callback is called.
//
// transport 3.10 posting (5), 5.3 (2)
// i.m0.net.xprt.support-for-auto-provisioned-receive-queue
func TestFinalEventRefillsTheQueue(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		f := h.attached(3).start()
		f.on = func(e *BufferEvent) {
			if n := f.QueueLength(MsgRecv); n != 3 {
				t.Errorf("%d buffers are queued in the callback", n)
			}
			if free := h.pool.Free(); free != map[bool]int{true: 4, false: 5}[e.Final] {
				t.Errorf("%d are free in the callback, final %v", free, e.Final)
			}
			if e.Final {
				f.put(e.Buffer)
			}
		}
		b := f.queued()[0]
		f.fake.message(b, 0, 100)
		synctest.Wait()
		if got := f.queued(); got[0] != b {
			t.Error("an event that is not final takes the buffer off")
		}
		for _, err := range []error{nil, syscall.EIO, syscall.ECANCELED, syscall.ETIMEDOUT} {
			f.ends(1, err)
		}
		f.Cancel(f.queued()[2])
		f.fake.obey()
		f.has(3, 0, 4)
	})
}

// A TM prefers the free buffer of its own colour.
//
// transport-tests L (97)
// transport 3.13 (2)
// i.m0.net.xprt.support-for-auto-provisioned-receive-queue
func TestTMsGetTheirOwnColour(t *testing.T) {
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			withTMs(t, nil, func(h *tmGroup) {
				for i := range uint32(2) {
					f := h.attached(1)
					if err := f.SetColour(i); err != nil {
						t.Fatal(err)
					}
					f.start()
				}
				rest := h.get(6, AnyColour)
				own := rest[2:4]
				h.put(AnyColour, rest[:2]...)
				h.put(0, own[0])
				h.put(1, own[1])
				h.put(AnyColour, rest[4:]...)
				for _, i := range order {
					f := h.tms[i]
					f.setLength(2)
					if got := f.queued(); len(got) != 2 || got[1] != own[i] {
						t.Errorf("TM %d got another buffer than its own", i)
					}
				}
			})
		})
	}
}

// AttachPool refuses invalid pools and settings, and TMs in other states.
//
// transport-tests L (98)
// transport 3.16, 5.1 (1)
// r.M0.net.xprt.auto-provisioned-receive-buffer-pool
func TestInvalidAttachPool(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		other := newTMGroup(t, nil)
		closed, err := h.domain.NewPool(h.pool.config)
		if err != nil {
			t.Fatal(err)
		}
		if err := closed.Close(); err != nil {
			t.Fatal(err)
		}
		f := h.newTM()
		good := f.settings(2)
		for _, tt := range []struct {
			name string
			pool *Pool
			bad  func(c *Provisioning)
		}{
			{"no pool", nil, func(*Provisioning) {}},
			{"of another domain", other.pool, func(*Provisioning) {}},
			{"closed", closed, func(*Provisioning) {}},
			{"no callbacks", h.pool, func(c *Provisioning) { c.Callbacks = nil }},
			{"no callback for messages", h.pool, func(c *Provisioning) { c.Callbacks = new(Callbacks) }},
			{"no least size", h.pool, func(c *Provisioning) { c.MinReceiveSize = 0 }},
			{"least size of more than a buffer", h.pool, func(c *Provisioning) { c.MinReceiveSize = 8193 }},
			{"no messages", h.pool, func(c *Provisioning) { c.MaxMessages = 0 }},
			{"too many messages", h.pool, func(c *Provisioning) { c.MaxMessages = MostMessages + 1 }},
			{"a negative length", h.pool, func(c *Provisioning) { c.QueueLength = -1 }},
		} {
			c := good
			tt.bad(&c)
			if err := f.AttachPool(tt.pool, c); !errors.Is(err, syscall.EINVAL) || f.provisioning.pool != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		f.start()
		is(t, f.AttachPool(h.pool, good), syscall.EINVAL)
		f.stop()
		is(t, f.AttachPool(h.pool, good), syscall.EINVAL)
		f = h.attached(2)
		is(t, f.AttachPool(h.pool, good), syscall.EINVAL)
		is(t, h.pool.Close(), syscall.EBUSY)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		is(t, f.SetQueueLength(2), syscall.EINVAL)
		h.free(8)
	})
}

// A TM that is being stopped gets no buffers, and its returned buffers go to other TMs.
//
// transport-tests L (99)
// transport 5.4
func TestAStoppedTMIsNotProvisioned(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		f, other := h.attached(9).start(), h.attached(3).start()
		f.has(8, 1, 1)
		other.has(0, 3, 3)
		if err := f.Abort(); err != nil {
			t.Fatal(err)
		}
		f.has(8, 0, 1)
		f.fake.obey()
		synctest.Wait()
		// The buffers that its callbacks have returned were given to the other TM.
		f.has(0, 0, 9)
		other.has(3, 0, 3)
		h.free(5)
		if s := f.State(); s != StateStopped {
			t.Fatalf("state is %v", s)
		}
		b := h.get(5, AnyColour)
		h.put(AnyColour, b...)
		f.has(0, 0, 9)
		is(t, f.SetQueueLength(3), syscall.EINVAL)
		is(t, h.pool.Close(), syscall.EBUSY)
		other.setLength(9)
		other.has(8, 1, 4)
		if err := other.Abort(); err != nil {
			t.Fatal(err)
		}
		other.on = func(*BufferEvent) {}
		b = other.queued()
		other.fake.obey()
		synctest.Wait()
		if err := other.Close(); err != nil || h.pool.waiting.first != nil {
			t.Errorf("%v, and the pool knows the TM: %v", err, h.pool.waiting.first != nil)
		}
		h.put(AnyColour, b...)
	})
}

// A TM whose core is gone gets no buffers and has no deficit.
//
// transport 5.4
func TestATMWithoutACoreIsNotProvisioned(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		f := h.attached(10).start()
		f.has(8, 2, 2)
		f.fake.mu.Lock()
		f.fake.ops = nil
		f.fake.mu.Unlock()
		f.fake.push(Completion{Down: true, Err: syscall.EPIPE})
		synctest.Wait()
		if s := f.State(); s != StateFailed || f.Deficit() != 0 {
			t.Fatalf("state is %v, deficit %d", s, f.Deficit())
		}
		h.free(8)
		if got := f.Stats(MsgRecv).Failures; got != 10 { // a deficit of 2, and 8 buffers
			t.Errorf("%d failures", got)
		}
	})
}

// Provisioning a pool does not take the lock of a TM that has all of its buffers.
//
// transport-tests L (100)
// transport 5.3 (4)
func TestATMWithoutDeficitIsLeftAlone(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		content, lacking := h.attached(2).start(), h.attached(7).start()
		lacking.has(6, 1, 1)
		locked, unlock := make(chan bool), make(chan bool)
		go func() {
			content.mu.Lock()
			close(locked)
			<-unlock
			content.mu.Unlock()
		}()
		<-locked
		h.provision(1) // otherwise the bubble would not end
		lacking.has(7, 0, 1)
		close(unlock)
		content.has(2, 0, 0)
	})
}

// The core's room for events limits the number of receive buffers that a TM gets.
//
// transport 7.1
func TestRoomForTheEventsOfProvisionedBuffers(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		h.provision(12)
		h.core.maxRoom = 45
		f := h.attached(20).start()
		f.has(20, 0, 0)
		if f.fake.room != 40 {
			t.Errorf("room for %d, want 40", f.fake.room)
		}
		f.setLength(26)
		f.has(20, 6, 6)
		h.provision(6)
		f.has(22, 4, 6)
		h.free(4)
	})
}

// Fields that the last user of a pooled buffer has set do not affect a TM that gets it.
//
// transport 5.2 (4)
func TestPooledBufferIsReset(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		for _, b := range h.get(8, AnyColour) {
			b.Deadline, b.Offset, b.Queue, b.Length = later(-1), 5, PassiveBulkSend, 7
			h.put(AnyColour, b)
		}
		h.attached(8).start().has(8, 0, 0)
	})
}

// Several TMs share a pool, while goroutines return its buffers and change the lengths of the queues. No
// buffer is lost.
//
// transport-tests L (101)
// transport 3.2 (1)-(2), 3.2 (4)
// r.M0.net.xprt.auto-provisioned-receive-buffer-pool
// r.M0.net.xprt.support-for-auto-provisioned-receive-queue
func TestManyTMsOnOnePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTMGroup(t, func(c *PoolConfig) { c.Colours, c.NotEmpty, c.Low = 4, nil, nil })
		h.provision(6)
		var busy sync.WaitGroup
		back := make(chan func(), 100)
		for i := range uint32(4) {
			f := h.attached(2)
			if err := f.SetColour(i); err != nil {
				t.Fatal(err)
			}
			f.on = func(e *BufferEvent) {
				b := e.Buffer
				back <- func() { f.put(b); busy.Done() }
			}
			f.start()
		}
		h.core.submit = nil
		for _, f := range h.tms {
			f.fake.submit = refusesOneInSeven(t)
		}
		for range 3 {
			go func() {
				for put := range back {
					put()
				}
			}()
		}
		var feeders sync.WaitGroup
		var left atomic.Int64
		left.Store(1000)
		for _, f := range h.tms {
			feeders.Go(func() { f.consume(&busy, &left) })
			feeders.Go(func() {
				for n := range 100 {
					f.setLength(1 + n%3)
				}
			})
		}
		feeders.Wait()
		busy.Wait()
		close(back)
		synctest.Wait()
		h.free(6 - h.queued())
		for _, f := range h.tms {
			f.fake.submit, f.on = nil, nil
		}
		h.close()
	})
}

// refusesOneInSeven is a Core that refuses every seventh call.
func refusesOneInSeven(t *testing.T) func(tm *fakeTM, ops []Op) (int, error) {
	var n atomic.Int64
	return func(_ *fakeTM, ops []Op) (int, error) {
		lockedNothing(t)
		if n.Add(1)%7 == 0 {
			return 0, syscall.ENOBUFS
		}
		return len(ops), nil
	}
}

// queued returns the number of buffers on the receive queues, and checks that they have the desired length
// minus the deficit.
func (h *tmGroup) queued() (n int) {
	h.t.Helper()
	for i, f := range h.tms {
		wanted, length := f.provisioning.length, f.QueueLength(MsgRecv)
		if length+f.Deficit() != wanted && (length < wanted || f.Deficit() != 0) {
			h.t.Errorf("TM %d: length %d, deficit %d, want %d", i, length, f.Deficit(), wanted)
		}
		n += length
	}
	return n
}

// consume completes operations on the receive queue until left is 0.
func (f *groupTM) consume(busy *sync.WaitGroup, left *atomic.Int64) {
	for left.Load() > 0 {
		f.fake.mu.Lock()
		var b *Buffer
		if len(f.fake.ops) > 0 {
			b = f.fake.ops[0].Buffer.(*fakeBuffer).token.(*Buffer)
		}
		f.fake.mu.Unlock()
		if b == nil {
			time.Sleep(time.Millisecond) // simulated: the others continue
			f.setLength(2)               // causes a retry, if all available buffers were refused
			continue
		}
		left.Add(-1)
		busy.Add(1)
		f.fake.finish(b, 100)
	}
}

// Refilling a receive queue from a pool allocates nothing.
func TestProvisioningAllocatesNothing(t *testing.T) {
	withTMs(t, func(c *PoolConfig) { c.NotEmpty, c.Low = nil, nil }, func(h *tmGroup) {
		f := h.attached(4).start()
		f.fake.calls = make([]int, 0, 1000)
		if n := testing.AllocsPerRun(100, func() {
			b := f.queues[MsgRecv].first
			f.fake.take(b, true)
			f.mu.Lock()
			f.unlink(b, b.Deadline)
			f.unlock()
			f.refill()
			f.put(b)
		}); n != 0 && !ordersChecked {
			t.Errorf("%v allocations", n)
		}
		f.has(4, 0, 0)
	})
}
