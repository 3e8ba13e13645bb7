package transport

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// processorsNow returns the processors that the calling thread may run on.
func processorsNow(t *testing.T) (ps []int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for p := range len(set) * 64 {
		if set.IsSet(p) {
			ps = append(ps, p)
		}
	}
	return ps
}

// The callbacks of a confined TM run on its processors only, and the confined thread ends with the TM.
//
// transport-tests E (50)
// transport 3.13 (1)
// r.M0.net.xprt.lnet.processor-affinity
func TestConfine(t *testing.T) {
	ctx := context.Background()
	all := processorsNow(t)
	last := all[len(all)-1]
	core := newFakeCore()
	core.wrap = func(tm *fakeTM) CoreTM { return steadyTM{tm, 0} }
	d, err := NewDomain(ctx, core)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan []int, 3)
	tm, err := d.NewTM(func(*TMEvent) { seen <- processorsNow(t) })
	if err != nil {
		t.Fatal(err)
	}
	for _, ps := range [][]int{all, {last}} { // the second call replaces the set
		if err := tm.Confine(ps...); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tm.Start(address), tm.Await(ctx, StateStarted)); err != nil {
		t.Fatal(err)
	}
	if err := tm.Confine(last); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("confined while it is started: %v", err)
	}
	b := NewBuffer(make([]byte, 10))
	b.Queue, b.Length = PassiveBulkSend, 10
	b.Callbacks = &Callbacks{PassiveBulkSend: func(*BufferEvent) { seen <- processorsNow(t) }}
	if err := errors.Join(d.Register(ctx, b), tm.Add(b)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := <-seen; !slices.Equal(got, []int{last}) {
			t.Errorf("a callback ran on processors %v, not %d", got, last)
		}
	}
	if err := tm.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	free := make(chan []int)
	for range 20 {
		go func() { free <- processorsNow(t) }()
		if got := <-free; !slices.Equal(got, all) {
			t.Fatalf("a goroutine behind it runs on processors %v, not %v", got, all)
		}
	}
}

// Confine refuses an empty set and a Core without support. If all processors are unavailable, the start of
// the TM fails.
//
// transport-tests E (50)
// transport 3.13 (1), 3.16
// r.M0.net.xprt.lnet.processor-affinity
func TestConfineRefuses(t *testing.T) {
	withFixture(t, func(w *fixture) {
		w.is(w.tm.Confine(), syscall.EINVAL)
		w.core.limits.Confine = false
		other, err := NewDomain(context.Background(), w.core)
		w.ok(err)
		tm, err := other.NewTM(nil)
		w.ok(err)
		w.is(tm.Confine(0), syscall.ENOSYS)
	}, func(*fixture) {})
	for _, ps := range [][]int{{-1}, {-64}, {1023}, {1 << 20}, {-1, 1023}} {
		w := newFixture(t)
		w.ok(w.tm.Confine(ps...))
		w.ok(w.tm.Start(address))
		w.is(w.tm.Await(context.Background(), StateStarted), syscall.EINVAL)
		w.ok(w.tm.Close())
		w.is(w.tmEvents[0].Err, syscall.EINVAL)
	}
}

// Unavailable processors are ignored, as the kernel does, if others are available.
//
// transport 3.13 (1)
// r.M0.net.xprt.lnet.processor-affinity
func TestConfineSkipsMissingProcessors(t *testing.T) {
	here := processorsNow(t)[0]
	for _, ps := range [][]int{{here, 1023}, {1 << 20, here}, {-64, here}} {
		w := newFixture(t)
		seen := make(chan []int, 1)
		tm, err := w.domain.NewTM(func(e *TMEvent) {
			if e.Next == StateStarted {
				seen <- processorsNow(t)
			}
		})
		w.ok(err)
		w.ok(tm.Confine(ps...))
		w.ok(tm.Start(address))
		w.ok(tm.Await(context.Background(), StateStarted))
		if got := <-seen; !slices.Equal(got, []int{here}) {
			t.Errorf("confined to %v, it runs on %v", ps, got)
		}
		w.ok(tm.Shutdown(context.Background()))
	}
}
