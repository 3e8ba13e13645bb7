package transport

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// tmGroup is a pool with several TMs. Their callbacks return buffers with the colour of the TM, unless the
// test says otherwise.
type tmGroup struct {
	*testPool
	tms []*groupTM
}

// groupTM is a TM of a group.
type groupTM struct {
	*TransferMachine
	group *tmGroup
	fake  *fakeTM // set when it is started
	// on, unless nil, is called instead of Put.
	on func(e *BufferEvent)
	// onStarted, unless nil, is called when the TM has started.
	onStarted func()
	// budget is the number of receive buffers that the core still accepts. A negative value means no limit.
	budget int
}

// withTMs runs a test in a bubble, with a pool of 8 buffers, and closes what is left.
func withTMs(t *testing.T, wish func(c *PoolConfig), test func(h *tmGroup)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newTMGroup(t, wish)
		h.provision(8)
		test(h)
		h.close()
	})
}

func newTMGroup(t rapid.TB, wish func(c *PoolConfig)) *tmGroup {
	h := &tmGroup{testPool: newTestPool(t, wish)}
	h.core.submit = func(tm *fakeTM, ops []Op) (int, error) {
		lockedNothing(t)
		for i := range ops {
			if f := h.of(tm); f != nil && !ops[i].Cancel && f.budget >= 0 {
				if f.budget == 0 {
					return i, syscall.EHOSTUNREACH
				}
				f.budget--
			}
		}
		return len(ops), nil
	}
	return h
}

// of returns the TM of a fake TM, which has its number.
func (h *tmGroup) of(tm *fakeTM) *groupTM { return h.tms[tm.address.TMID-1] }

// attached returns a new TM with the pool.
func (h *tmGroup) attached(length int) *groupTM {
	h.t.Helper()
	f := h.newTM()
	if err := f.AttachPool(h.pool, f.settings(length)); err != nil {
		h.t.Fatal(err)
	}
	return f
}

// newTM returns a new TM without a pool.
func (h *tmGroup) newTM() *groupTM {
	h.t.Helper()
	f := &groupTM{group: h, budget: -1}
	tm, err := h.domain.NewTM(func(e *TMEvent) {
		if e.Next == StateStarted && f.onStarted != nil {
			f.onStarted()
		}
	})
	if err != nil {
		h.t.Fatal(err)
	}
	f.TransferMachine = tm
	h.tms = append(h.tms, f)
	return f
}

// settings returns the provisioning of a TM.
func (f *groupTM) settings(length int) Provisioning {
	var c Callbacks
	c[MsgRecv] = func(e *BufferEvent) {
		lockedNothing(f.group.t)
		if f.on != nil {
			f.on(e)
		} else if e.Final {
			f.put(e.Buffer)
		}
	}
	return Provisioning{Callbacks: &c, MinReceiveSize: 4096, MaxMessages: 2, QueueLength: length}
}

// put returns a buffer with the colour of the TM.
func (f *groupTM) put(b *Buffer) {
	if err := b.Pool().Put(b, f.Colour()); err != nil {
		f.group.t.Errorf("put: %v", err)
	}
}

// start starts the TM, and waits.
func (f *groupTM) start() *groupTM {
	h := f.group
	h.t.Helper()
	if err := f.Start(fmt.Sprintf("0@lo:12345:34:%d", slices.Index(h.tms, f)+1)); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
	if s := f.State(); s != StateStarted {
		h.t.Fatalf("state is %v, want started", s)
	}
	f.fake = h.core.tms[len(h.core.tms)-1]
	return f
}

// stop stops the TM with abort, and closes it. Its callbacks return the buffers.
func (f *groupTM) stop() {
	h := f.group
	h.t.Helper()
	if err := f.Abort(); err != nil {
		h.t.Fatal(err)
	}
	f.fake.obey()
	synctest.Wait()
	if s := f.State(); s != StateStopped {
		h.t.Fatalf("state is %v, want stopped", s)
	}
	if err := f.Close(); err != nil {
		h.t.Fatal(err)
	}
}

// close closes the TMs and the pool.
func (h *tmGroup) close() {
	h.t.Helper()
	for _, f := range h.tms {
		switch f.State() {
		case StateStarted:
			f.on = nil
			f.stop()
		case StateInitialized, StateStopped, StateFailed:
			if err := f.Close(); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	if err := h.pool.whole(); err != nil {
		h.t.Fatal(err)
	}
	if err := h.pool.Close(); err != nil {
		h.t.Fatal(err)
	}
}

// queued returns the buffers on the receive queue, in order.
func (f *groupTM) queued() (bs []*Buffer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for b := f.queues[MsgRecv].first; b != nil; b = b.state.next {
		bs = append(bs, b)
	}
	return bs
}

// ends completes the first n operations on the receive queue, with an error unless err is nil.
func (f *groupTM) ends(n int, err error) {
	for _, b := range f.queued()[:n] {
		if err == nil {
			f.fake.finish(b, 100)
		} else {
			f.fake.fail(b, err)
		}
		synctest.Wait()
	}
}

// has checks the length of the receive queue, the deficit and the failures.
func (f *groupTM) has(length, deficit, failures int) {
	t := f.group.t
	t.Helper()
	synctest.Wait()
	if l, d := f.QueueLength(MsgRecv), f.Deficit(); l != length || d != deficit {
		t.Errorf("length %d, deficit %d, want %d, %d", l, d, length, deficit)
	}
	if got := f.Stats(MsgRecv).Failures; got != uint64(failures) {
		t.Errorf("%d failures, want %d", got, failures)
	}
	if f.fake != nil && f.State() == StateStarted && f.fake.has() != length {
		t.Errorf("the core has %d, want %d", f.fake.has(), length)
	}
	if err := f.group.pool.whole(); err != nil {
		t.Error(err)
	}
}

func (f *groupTM) setLength(n int) {
	f.group.t.Helper()
	if err := f.SetQueueLength(n); err != nil {
		f.group.t.Fatal(err)
	}
}
