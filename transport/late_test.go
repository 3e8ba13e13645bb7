package transport

import (
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// unsteady is a Core that accepts buffers, and refuses them a microsecond later while late is set.
type unsteady struct {
	late           atomic.Bool
	buffers, calls atomic.Int32 // buffers offered, and calls of Submit
}

func (f *groupTM) refuses(err error) *unsteady {
	u := new(unsteady)
	u.late.Store(true)
	f.fake.submit = func(tm *fakeTM, ops []Op) (int, error) {
		u.calls.Add(1)
		for _, op := range ops {
			if op.Cancel || !u.late.Load() {
				continue
			}
			if n := u.buffers.Add(1); n > 10_000 {
				f.group.t.Errorf("the Core was offered %d buffers", n)
				u.late.Store(false)
			}
			b := op.Buffer.(*fakeBuffer).token.(*Buffer)
			time.AfterFunc(time.Microsecond, func() { tm.fail(b, err) })
		}
		return len(ops), nil
	}
	return u
}

// holds checks the length of the receive queue and the deficit.
func (f *groupTM) holds(length, deficit int) {
	f.group.t.Helper()
	synctest.Wait()
	f.has(length, deficit, int(f.Stats(MsgRecv).Failures))
}

// If a Core accepts buffers and then fails them, the TM immediately queues others, as after any final event,
// but only a limited number. Then it pauses, for up to a second, and tries again.
//
// transport 5.2 (2), 5.3 (2)
func TestLateRefusalsCauseAPause(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		f := h.attached(4).start()
		u := f.refuses(syscall.EHOSTUNREACH)
		f.fake.fail(f.queued()[0], syscall.EHOSTUNREACH)
		time.Sleep(firstPause / 2)
		if n := u.buffers.Load(); n < maxLateRefusals || n > 2*maxLateRefusals {
			t.Errorf("offered %d buffers at once", n)
		}
		f.holds(3, 1)
		before := u.calls.Load()
		h.put(AnyColour, h.get(3, AnyColour)...)
		if u.calls.Load() != before {
			t.Error("buffers that come back are an occasion to ask it")
		}
		time.Sleep(time.Minute)
		if n := u.calls.Load() - before; n < 60 || n > 100 {
			t.Errorf("%d calls in a minute", n)
		}
		f.holds(3, 1)
		h.free(5)
		u.late.Store(false)
		before = u.calls.Load()
		time.Sleep(maxPause)
		f.holds(4, 0)
		if n := u.calls.Load() - before; n != 1 {
			t.Errorf("%d calls when it takes them again", n)
		}

		u.late.Store(true) // it still refuses
		f.fake.fail(f.queued()[0], syscall.EHOSTUNREACH)
		time.Sleep(maxPause / 2)
		f.holds(3, 1)
		u.late.Store(false)
		f.ends(1, nil)
		f.holds(4, 0)
	})
}

// The TM also tries again after its pause with synchronous delivery, where the worker sleeps while events
// wait for DeliverAll.
func TestLateRefusalIsRetried(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		f := h.newTM()
		for _, err := range []error{f.AttachPool(h.pool, f.settings(1)), f.DeliverSynchronously()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		f.start()
		deliver := func() {
			time.Sleep(time.Microsecond)
			if _, err := f.DeliverAll(); err != nil {
				t.Fatal(err)
			}
		}
		u := f.refuses(syscall.EHOSTUNREACH)
		f.fake.fail(f.queued()[0], syscall.EHOSTUNREACH)
		for range 2 * maxLateRefusals {
			deliver()
		}
		f.holds(0, 1)
		u.late.Store(false)
		time.Sleep(firstPause)
		f.holds(1, 0)
		if err := f.Abort(); err != nil {
			t.Fatal(err)
		}
		f.fake.obey()
		deliver()
		synctest.Wait()
	})
}

// Buffers cancelled by the program, and messages without a usable sender, do not count as refusals. A
// longer queue length causes a retry.
//
// transport 5.3 (2)-(3)
func TestWhatCountsAsALateRefusal(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		f := h.attached(2).start()
		ends := func(n int, err error) {
			for range n {
				f.ends(1, err)
			}
		}
		for range 3 * maxLateRefusals {
			ends(1, syscall.EPROTO)
			f.Cancel(f.queued()[0])
			f.fake.obey()
			f.holds(2, 0)
		}
		own := h.get(1, AnyColour)[0] // added by the program itself
		for range 2 * maxLateRefusals {
			own.Queue, own.Callbacks, own.MinReceiveSize, own.MaxMessages = MsgRecv, f.settings(2).Callbacks, 1, 1
			own.Deadline = time.Now().Add(time.Millisecond)
			f.on = func(*BufferEvent) {}
			if err := f.Add(own); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			f.fake.obey()
			synctest.Wait()
		}
		f.on = nil
		f.put(own)
		ends(maxLateRefusals, syscall.EIO)
		f.holds(2, 0)
		ends(1, nil)
		ends(maxLateRefusals, syscall.EIO)
		f.holds(2, 0)
		ends(1, syscall.EIO)
		f.holds(1, 1)
		f.setLength(3)
		f.holds(3, 0)
		ends(1, nil)
		f.setLength(8)
		for range maxLateRefusals/8 + 1 {
			f.ends(8, syscall.EIO)
		}
		f.holds(0, 8)
		time.Sleep(firstPause) // although many have failed
		f.holds(8, 0)
	})
}

// A message ends the pause immediately, even if the buffer stays queued, with and without synchronous
// delivery.
//
// transport 5.2 (2)
func TestMessageEndsThePause(t *testing.T) {
	for _, synchronous := range []bool{false, true} {
		withTMs(t, nil, func(h *tmGroup) {
			f := h.newTM()
			if err := f.AttachPool(h.pool, f.settings(2)); err != nil {
				t.Fatal(err)
			}
			deliver := func() {
				synctest.Wait()
				if !synchronous {
					return
				}
				if _, err := f.DeliverAll(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			if synchronous {
				if err := f.DeliverSynchronously(); err != nil {
					t.Fatal(err)
				}
			}
			f.start()
			for range maxLateRefusals + 1 {
				f.fake.fail(f.queued()[1], syscall.EIO)
				deliver()
			}
			f.holds(1, 1)
			f.fake.message(f.queued()[0], 0, 100)
			deliver()
			f.holds(2, 0)
			if err := f.Abort(); err != nil {
				t.Fatal(err)
			}
			f.fake.obey()
			deliver()
		})
	}
}
