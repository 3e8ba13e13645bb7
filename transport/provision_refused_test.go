package transport

import (
	"syscall"
	"testing"
)

// Buffers that the core refuses return to the pool and count as the TM's deficit. The TM tries again when one
// of its buffers ends or a buffer is returned to the pool.
//
// transport 5.2 (2)-(3)
func TestRefusedBufferReturnsToThePool(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		f := h.attached(4)
		f.budget = 1
		f.start()
		f.has(1, 3, 3)
		h.free(7)
		if calls := len(f.fake.calls); calls != 1 {
			t.Errorf("%d calls of the core, want one", calls)
		}
		f.setLength(4)
		f.has(1, 3, 3) // the same three
		f.setLength(5)
		f.has(1, 4, 4)
		f.budget = 2
		h.put(0, h.get(1, 0)...) // with a deficit, any Put causes a retry
		f.has(3, 2, 4)
		if h.notEmpty != 1 {
			t.Errorf("told %d times that the pool is not empty", h.notEmpty)
		}
		f.budget = -1
		f.ends(1, nil)
		f.has(5, 0, 4)
		h.free(3)
	})
}

// A buffer that the core refuses for one TM is given to another TM that lacks buffers.
//
// transport 5.2 (2)
func TestRefusedBuffersGoToOtherTMs(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		first := h.attached(8).start()
		kept := first.queued()
		other, refused, third := h.attached(2).start(), h.attached(2), h.attached(2)
		for _, f := range []*groupTM{refused, third} {
			f.budget = 0
			f.start()
		}
		first.on = func(*BufferEvent) {}
		first.ends(8, nil)
		first.has(0, 8, 8)
		h.put(AnyColour, kept...)
		other.has(2, 0, 2)
		refused.has(0, 2, 2)
		third.has(0, 2, 2)
		first.has(6, 2, 8)
		h.free(0)
	})
}

// A TM that found no buffer gets one that the core then refuses to another TM.
//
// transport 5.2 (2)
func TestReturnedBuffersGoToWaitingTMs(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		taker, other := h.attached(8), h.attached(2).start()
		taker.budget = 0
		submit := h.core.submit
		h.core.submit = func(tm *fakeTM, ops []Op) (int, error) {
			// It owns all buffers, but the core will refuse them.
			other.setLength(4)
			if other.Deficit() != 2 {
				t.Errorf("deficit %d", other.Deficit())
			}
			return submit(tm, ops)
		}
		taker.start()
		taker.has(0, 8, 8) // 2 that the pool lacked, 6 that were refused
		other.has(4, 0, 2)
		h.free(4)
	})
}

// A buffer that the core does not deregister returns to the pool and is given to a TM that lacks buffers.
//
// transport 5.3 (4)
func TestBufferThatCannotBePrunedServesTMs(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		f := h.newTM()
		if err := f.AttachPool(h.pool, f.settings(1)); err != nil {
			t.Fatal(err)
		}
		kept := h.get(5, AnyColour)
		h.core.failDeregister = func() error {
			kept = append(kept, h.get(2, AnyColour)...)
			f.start().has(0, 1, 1)
			return syscall.EBUSY
		}
		if h.pool.Prune() {
			t.Error("pruned what the core keeps")
		}
		f.has(1, 0, 1)
		h.core.failDeregister = nil
		h.put(AnyColour, kept...)
	})
}

// NotEmpty is called for buffers that the core refused, if and only if a Get has failed meanwhile.
//
// transport 4 put, 5.2 (2)
func TestNotEmptyAfterAFailedGet(t *testing.T) {
	withTMs(t, nil, func(h *tmGroup) {
		f := h.attached(8)
		submit := h.core.submit
		h.core.submit = func(tm *fakeTM, ops []Op) (int, error) {
			if h.pool.Get(AnyColour) != nil {
				t.Error("there is a buffer")
			}
			h.notEmpty = 0
			return submit(tm, ops)
		}
		f.budget = 0
		f.start()
		f.has(0, 8, 8)
		h.free(8)
		if h.notEmpty != 1 {
			t.Errorf("told %d times that the pool is not empty, want once", h.notEmpty)
		}
		f.fake.submit = submit
		f.budget = 1
		f.setLength(1)
		b := h.get(7, AnyColour)
		h.pool.Get(AnyColour)
		h.put(AnyColour, b...)
		h.notEmpty = 0
		f.setLength(8)
		f.has(1, 7, 15)
		if h.notEmpty != 0 {
			t.Error("told that the pool is not empty, which nobody knew")
		}
	})
}

// If there is not enough room for the events of all buffers, a TM gets as many buffers as possible. The
// limit is that of the Core, or the maximum that the engine requests.
//
// transport 5.2 (1)
func TestQueueLengthIsLimitedByRoom(t *testing.T) {
	for _, c := range []struct{ maxRoom, messages, length, want int }{
		{50, 16, 8, 3},
		{0, MostMessages, maxRoom/MostMessages + 4, maxRoom / MostMessages},
	} {
		withTMs(t, nil, func(h *tmGroup) {
			h.provision(c.length - 8)
			h.core.maxRoom = c.maxRoom
			f := h.newTM()
			how := f.settings(c.length)
			how.MaxMessages = c.messages
			if err := f.AttachPool(h.pool, how); err != nil {
				t.Fatal(err)
			}
			f.start()
			f.has(c.want, c.length-c.want, c.length-c.want)
			f.ends(1, nil)
			f.has(c.want, c.length-c.want, c.length-c.want)
		})
	}
}
