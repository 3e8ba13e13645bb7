package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// testPool is a pool on a fake core, with the number of calls of its callbacks.
type testPool struct {
	t             rapid.TB
	core          *fakeCore
	domain        *Domain
	pool          *Pool
	notEmpty, low int
}

// newTestPool returns an empty pool of buffers of 2 segments of 4096 bytes, unless wish changes that.
func newTestPool(t rapid.TB, wish func(c *PoolConfig)) *testPool {
	t.Helper()
	w := &testPool{t: t, core: newFakeCore()}
	var err error
	if w.domain, err = NewDomain(context.Background(), w.core); err != nil {
		t.Fatal(err)
	}
	c := PoolConfig{
		Segments: 2, SegmentSize: 4096, Colours: 3,
		NotEmpty: func(*Pool) { lockedNothing(t); w.notEmpty++ },
		Low:      func(*Pool) { lockedNothing(t); w.low++ },
	}
	if wish != nil {
		wish(&c)
	}
	if w.pool, err = w.domain.NewPool(c); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *testPool) provision(n int) {
	w.t.Helper()
	if made, err := w.pool.Provision(context.Background(), n); made != n || err != nil {
		w.t.Fatalf("provision %d: %d, %v", n, made, err)
	}
	w.free(w.pool.Free())
}

// get takes n buffers.
func (w *testPool) get(n int, colour uint32) []*Buffer {
	w.t.Helper()
	var bs []*Buffer
	for range n {
		b := w.pool.Get(colour)
		if b == nil {
			w.t.Fatalf("%d of %d buffers", len(bs), n)
		}
		bs = append(bs, b)
	}
	return bs
}

func (w *testPool) put(colour uint32, bs ...*Buffer) {
	w.t.Helper()
	for _, b := range bs {
		if err := w.pool.Put(b, colour); err != nil {
			w.t.Fatal(err)
		}
	}
}

// free checks the number of free buffers and the consistency of the pool.
func (w *testPool) free(want int) {
	w.t.Helper()
	if got := w.pool.Free(); got != want {
		w.t.Errorf("%d free, want %d", got, want)
	}
	if err := w.pool.whole(); err != nil {
		w.t.Error(err)
	}
}

// whole returns an error if the lists of a pool violate the invariant of transport 4.
func (p *Pool) whole() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := make(map[*Buffer]int)
	for _, l := range append(slices.Clone(p.byColour), p.uncoloured, p.byAge) {
		n := 0
		var prev *Buffer
		for b := l.first; b != nil; b = b.state.pooled.links[l.kind].next {
			if b.state.pooled.links[l.kind].prev != prev || b.state.use.Load() != pooled || b.Flags() != FlagRegistered {
				return fmt.Errorf("buffer %d of list %d: use %d, flags %b", n, l.kind, b.state.use.Load(), b.Flags())
			}
			prev = b
			seen[b] |= 1 << l.kind
			n++
		}
		if l.last != prev || l.length != n {
			return fmt.Errorf("a list says that it has %d buffers, and has %d", l.length, n)
		}
	}
	for _, lists := range seen {
		if lists != 1<<linkAge|1<<linkColour {
			return fmt.Errorf("a free buffer is in lists %b", lists)
		}
	}
	if p.byAge.length != len(seen) || p.size < len(seen) {
		return fmt.Errorf("%d in all lists, %d by age, %d in all", len(seen), p.byAge.length, p.size)
	}
	return nil
}

// is fails the test unless the error matches an errno.
func is(t testing.TB, err error, want syscall.Errno) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
}
