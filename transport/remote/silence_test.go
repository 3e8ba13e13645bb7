package remote

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// mute makes lnetd answer nothing from now on, as if it were stopped.
func (f *fake) mute() {
	f.answers(func(protocol.Header, protocol.Request) ([]byte, bool) { return nil, true })
}

// cancelled submits receives and their cancellations, which lnetd does not carry out.
func cancelled(t *testing.T, f *fake, d *domain, tm *tm, n int) (all []*buffer) {
	t.Helper()
	for range n {
		b := f.buffer(d, 100)
		all = append(all, b)
		submit(t, tm, transport.Op{Queue: transport.MsgRecv, Buffer: b, Sequence: 5, MinReceiveSize: 1, MaxMessages: 2})
	}
	for _, b := range all {
		submit(t, tm, transport.Op{Cancel: true, Buffer: b, Sequence: 5})
	}
	return all
}

// Cancelled ops end although lnetd is silent, and the TM stops. Completions that lnetd writes when it is
// back are dropped. Then the buffers can be used again.
//
// transport 9.10
func TestCancelledWhileLnetdIsSilent(t *testing.T) {
	f := newFake(t, Config{Patience: 50 * time.Millisecond})
	d := f.open()
	tm, host := f.start(d)
	all := cancelled(t, f, d, tm, 5)
	f.mute()
	for range all {
		c := next(t, tm)
		if !c.Final || !errors.Is(c.Err, syscall.ECANCELED) || c.Sequence != 5 || c.Down {
			t.Errorf("%+v", c)
		}
	}
	if tm.Pending() || len(reap(tm)) != 0 {
		t.Error("an op ends twice")
	}
	again := transport.Op{Queue: transport.MsgSend, Buffer: all[0], Length: 1, Peer: far}
	if _, err := tm.Submit([]transport.Op{again}); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("lnetd has not given the buffer back: %v", err)
	}
	if err := all[0].Deregister(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("lnetd has not given the buffer back: %v", err)
	}
	f.answers(nil) // it is back
	for _, b := range all {
		complete(t, host,
			shm.Completion{Buffer: b.index, Generation: 7, Operation: 5, Length: 1},
			shm.Completion{Buffer: b.index, Generation: 7, Operation: 5, Errno: syscall.ECANCELED, Final: true})
	}
	if got := reap(tm); len(got) != 0 {
		t.Errorf("told twice: %+v", got)
	}
	submit(t, tm, again)
	complete(t, host, shm.Completion{Buffer: all[0].index, Generation: 7, Final: true})
	if c := next(t, tm); c.Err != nil || !c.Final {
		t.Errorf("%+v", c)
	}
	if tm.ops != 0 || tm.cancels.abandoned != 0 || len(tm.cancels.buffers) != 0 {
		t.Errorf("%d ops, %d cancels are left", tm.ops, len(tm.cancels.buffers))
	}
	if err := tm.Stop(); err != nil {
		t.Error(err)
	}
}

// A program shuts everything down while lnetd is silent and buffers are queued. No step takes longer than
// Config.Patience.
//
// transport 3.5 ours (3), 9.10
func TestStopWhileLnetdIsSilent(t *testing.T) {
	f := newFake(t, Config{Patience: 50 * time.Millisecond})
	d := f.open()
	tm, _ := f.start(d)
	other, _ := f.start(d)
	all := cancelled(t, f, d, tm, 2)
	f.mute()
	if err := tm.Stop(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("stopped with ops under way: %v", err)
	}
	for range all {
		next(t, tm)
	}
	if err := tm.Stop(); err != nil {
		t.Error(err)
	}
	_ = reapUntilDown(t, other, syscall.ETIMEDOUT, 0)
	for _, b := range all {
		if err := b.Deregister(); err != nil {
			t.Error(err)
		}
	}
	if err := other.Stop(); err != nil {
		t.Error(err)
	}
}

// While lnetd answers, an op that takes long to cancel continues.
func TestCancelledWhileLnetdIsBusy(t *testing.T) {
	f := newFake(t, Config{Patience: 500 * time.Millisecond})
	d := f.open()
	tm, host := f.start(d)
	b := cancelled(t, f, d, tm, 1)[0]
	for f.count(protocol.OpNop) < 2 {
		time.Sleep(time.Microsecond)
	}
	if tm.Pending() {
		t.Error("the op has ended without lnetd")
	}
	complete(t, host, shm.Completion{Buffer: b.index, Generation: 7, Operation: 5, Length: 3, Final: true})
	if c := next(t, tm); c.Err != nil || c.Length != 3 {
		t.Errorf("%+v", c)
	}
	if err := tm.Stop(); err != nil {
		t.Error(err)
	}
}

// The engine with a stopped lnetd: a deadline ends its buffer, and Shutdown returns.
//
// transport 3.9 (1), 9.10
func TestEngineOverASilentLnetd(t *testing.T) {
	f := newFake(t, Config{Patience: 100 * time.Millisecond})
	d, err := transport.NewDomain(t.Context(), f.core)
	if err != nil {
		t.Fatal(err)
	}
	tm, err := d.Open(t.Context(), transport.Address{NID: fakeNID, PID: 12345, Portal: 34, TMID: 5}.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan error, 2)
	callbacks := transport.Callbacks{transport.MsgRecv: func(e *transport.BufferEvent) { events <- e.Err }}
	var all []*transport.Buffer
	for range 2 {
		b, err := d.Buffer(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		b.Queue, b.Callbacks, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, &callbacks, 1, 1
		all = append(all, b)
	}
	f.mute()
	all[0].Deadline = time.Now().Add(20 * time.Millisecond)
	deadline := all[0].Deadline
	if n, err := tm.AddAll(all...); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if err := <-events; !errors.Is(err, syscall.ETIMEDOUT) || time.Now().Before(deadline) {
		t.Errorf("the deadline: %v", err)
	}
	if err := tm.Shutdown(t.Context()); err != nil && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("shutdown: %v", err)
	}
	if err := <-events; !errors.Is(err, syscall.ECANCELED) {
		t.Errorf("the other buffer: %v", err)
	}
	for _, b := range all {
		if err := d.Free(b); err != nil {
			t.Error(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
