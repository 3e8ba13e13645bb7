package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"
)

// Buffers are provisioned, taken and returned. Close releases them.
//
// transport-tests K (88)
// transport 4 provision
func TestBuffersComeAndGo(t *testing.T) {
	w := newTestPool(t, nil)
	w.provision(10)
	w.free(10)
	b := w.pool.Get(AnyColour)
	w.free(9)
	if b.Pool() != w.pool || b.Flags() != FlagRegistered || b.Size() != 8192 || len(b.Segments()) != 2 || len(b.Bytes()) != 8192 {
		t.Errorf("pool %p, flags %b, %d segments of %d bytes", b.Pool(), b.Flags(), len(b.Segments()), b.Size())
	}
	w.put(AnyColour, b)
	w.free(10)
	if w.pool.Size() != 10 {
		t.Errorf("size %d", w.pool.Size())
	}
	if err := w.pool.Close(); err != nil || len(w.core.buffers) != 0 {
		t.Errorf("%v, %d buffers left", err, len(w.core.buffers))
	}
	if err := w.domain.Close(); err != nil {
		t.Error(err)
	}
}

// Get prefers the buffer of its colour that was returned last, then a buffer without a colour, then the
// oldest one.
//
// transport-tests K (89)
// transport 4 get
// r.M0.net.network-buffer-pool
func TestColours(t *testing.T) {
	w := newTestPool(t, nil)
	w.provision(6)
	bs := w.get(6, AnyColour)
	w.put(1, bs[0])
	if got := w.get(1, 1); got[0] != bs[0] {
		t.Error("one of the colour: another came")
	}
	w.put(1, bs[0], bs[1])
	if got := w.get(2, 1); got[0] != bs[1] || got[1] != bs[0] {
		t.Error("two of the colour: the later one does not come first")
	}
	w.put(2, bs[5])
	w.put(1, bs[0])
	w.put(AnyColour, bs[2], bs[3])
	w.put(1, bs[1])
	for i, want := range []*Buffer{bs[2], bs[3], bs[5], bs[0], bs[1]} {
		if got := w.get(1, 0); got[0] != want {
			t.Errorf("%d: no buffer of the colour is free, and neither one without nor the oldest came", i)
		}
	}
	w.put(1, bs[0])
	w.put(AnyColour, bs[1])
	if got := w.get(2, AnyColour); got[0] != bs[1] || got[1] != bs[0] {
		t.Error("any colour: the one without does not come first")
	}
	w.put(2, bs[0])
	w.put(1, bs[1])
	if got := w.get(2, 3); got[0] != bs[0] || got[1] != bs[1] {
		t.Error("a colour that there is not: the oldest does not come first")
	}
	w.free(0)
}

// NotEmpty is called when an empty pool gets buffers, once for each such change.
//
// transport-tests K (90)
// transport 4 put
// r.M0.net.network-buffer-pool
func TestNotEmpty(t *testing.T) {
	w := newTestPool(t, nil)
	if w.pool.Get(AnyColour) != nil {
		t.Error("an empty pool has a buffer")
	}
	for i, n := range []int{1, 2, 2} {
		w.provision(n)
		if w.notEmpty != 1 {
			t.Errorf("%d: told %d times that it is not empty, want once", i, w.notEmpty)
		}
	}
	bs := w.get(5, 0)
	w.put(0, bs[0])
	if w.notEmpty != 2 {
		t.Errorf("told %d times that it is not empty, want twice", w.notEmpty)
	}
	w.put(1, bs[1:]...)
	w.free(5)
	if w.notEmpty != 2 {
		t.Errorf("told %d times that it is not empty, want twice", w.notEmpty)
	}
}

// Low is called by each Get that leaves fewer free buffers than the threshold.
//
// transport 4 get
func TestLow(t *testing.T) {
	w := newTestPool(t, func(c *PoolConfig) { c.Threshold = 3 })
	w.provision(5)
	for i, want := range []int{0, 0, 1, 2, 3} {
		w.get(1, AnyColour)
		if w.low != want {
			t.Errorf("get %d: told %d times that there are few, want %d", i, w.low, want)
		}
	}
	if w.pool.Get(AnyColour); w.low != 3 {
		t.Error("a Get that finds nothing is told, too")
	}
	w = newTestPool(t, nil)
	w.provision(3)
	if w.get(2, 0); w.low != 1 {
		t.Errorf("told %d times, want once: the threshold is %d", w.low, defaultThreshold)
	}
	if w.get(1, 0); w.low != 2 {
		t.Errorf("told %d times, want twice", w.low)
	}
}

// NotEmpty may take buffers of the pool, and Low may provision it.
//
// transport 3.2 (2)-(3)
func TestCallbacksOfAPoolMayUseIt(t *testing.T) {
	var kept *Buffer
	w := newTestPool(t, func(c *PoolConfig) {
		c.NotEmpty = func(p *Pool) { kept = p.Get(0) }
		c.Low = func(p *Pool) {
			if p.Size() < 4 {
				if n, err := p.Provision(context.Background(), 1); n != 1 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}
		}
	})
	w.provision(1)
	if w.free(0); kept == nil || w.pool.Size() != 4 {
		t.Errorf("kept %p of %d", kept, w.pool.Size())
	}
}

// Prune removes the oldest free buffer, as long as more are free than the threshold.
//
// transport-tests K (91)
// transport 4 prune
func TestPrune(t *testing.T) {
	w := newTestPool(t, nil)
	w.provision(4)
	bs := w.get(4, AnyColour)
	w.put(1, bs...)
	for i, want := range []bool{true, true, false, false} {
		if got := w.pool.Prune(); got != want {
			t.Errorf("%d: pruned %v, want %v", i, got, want)
		}
	}
	w.free(2)
	if w.pool.Size() != 2 || len(w.core.buffers) != 2 {
		t.Errorf("size is %d, and the core has %d", w.pool.Size(), len(w.core.buffers))
	}
	if got := w.get(2, 1); got[0] != bs[3] || got[1] != bs[2] {
		t.Error("it were not the oldest ones that went")
	}
}

// Each of several goroutines that use a pool has its buffers for itself.
//
// transport-tests K (92)
func TestManyUseAPool(t *testing.T) {
	w := newTestPool(t, func(c *PoolConfig) { c.Colours, c.NotEmpty, c.Low = 10, nil, nil })
	w.provision(6)
	var wg sync.WaitGroup
	for colour := range uint32(10) {
		wg.Go(func() {
			for range 1000 {
				b := w.pool.Get(colour)
				if b == nil {
					continue
				}
				b.Bytes()[0]++ // the race detector verifies exclusive ownership
				if err := w.pool.Put(b, colour); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	w.free(6)
	if err := w.pool.Close(); err != nil {
		t.Error(err)
	}
}

// A Provision that fails keeps the buffers it has made, and returns their number.
//
// transport-tests K (93)
// transport 4 provision
func TestProvisionThatFails(t *testing.T) {
	w := newTestPool(t, nil)
	w.core.failRegister = func() error {
		if len(w.core.buffers) == 3 {
			return syscall.ENOMEM
		}
		return nil
	}
	n, err := w.pool.Provision(context.Background(), 5)
	if is(t, err, syscall.ENOMEM); n != 3 || w.core.allocated != 3 {
		t.Errorf("%d made, %d allocated", n, w.core.allocated)
	}
	w.free(3)
	w.put(0, w.get(3, 0)...)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if n, err = w.pool.Provision(ctx, 5); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", n, err)
	}
	for _, none := range []int{0, -1} {
		if n, err = w.pool.Provision(context.Background(), none); n != 0 || err != nil {
			t.Errorf("provision %d: %d, %v", none, n, err)
		}
	}
	w.free(3)
}

// Put refuses buffers of another pool or of no pool, a colour that is too high, and a buffer that is free
// already or has an EndPoint.
//
// transport 4 put, 4 ours
func TestInvalidPuts(t *testing.T) {
	w, other := newTestPool(t, nil), newTestPool(t, nil)
	w.provision(2)
	other.provision(1)
	b := w.get(1, AnyColour)[0]
	loose := NewBuffer(make([]byte, 4096))
	ctx := context.Background()
	if err := w.domain.Register(ctx, loose); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		b      *Buffer
		colour uint32
		want   syscall.Errno
	}{
		{"nil", nil, AnyColour, syscall.EINVAL},
		{"one that no pool has made", loose, AnyColour, syscall.EINVAL},
		{"another pool's", other.get(1, 0)[0], AnyColour, syscall.EINVAL},
		{"a colour 3: the pool only has the 3 colours", b, 3, syscall.EINVAL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := w.pool.Put(tt.b, tt.colour)
			is(t, err, tt.want)
			if what, found := strings.CutPrefix(tt.name, "a "); found && !strings.Contains(err.Error(), what) {
				t.Errorf("it says: %v", err)
			}
			w.free(1)
		})
	}
	b.EndPoint = new(EndPoint)
	err := w.pool.Put(b, 0)
	is(t, err, syscall.EINVAL)
	if !strings.Contains(err.Error(), "EndPoint must be nil") {
		t.Errorf("it says: %v", err)
	}
	b.EndPoint = nil
	w.put(0, b)
	is(t, w.pool.Put(b, 0), syscall.EBUSY)
	w.free(2)
	is(t, w.domain.Deregister(b), syscall.EBUSY)
	is(t, w.domain.Register(ctx, b), syscall.EBUSY)
	b = w.get(1, 0)[0]
	is(t, w.domain.Free(b), syscall.EBUSY)
	is(t, w.domain.Deregister(b), syscall.EBUSY)
	w.put(0, b)
	w.free(2)
}

// NewPool refuses invalid configurations.
//
// transport 4 init
func TestInvalidPools(t *testing.T) {
	w := newTestPool(t, nil)
	w.core.limits.BufferSize = 8192
	good := PoolConfig{Segments: 2, SegmentSize: 4096}
	for _, tt := range []struct {
		name string
		bad  func(c *PoolConfig)
		want syscall.Errno
	}{
		{"no segments", func(c *PoolConfig) { c.Segments = 0 }, syscall.EINVAL},
		{"too many segments", func(c *PoolConfig) { c.Segments, c.SegmentSize = 257, 1 }, syscall.EINVAL},
		{"no bytes", func(c *PoolConfig) { c.SegmentSize = 0 }, syscall.EINVAL},
		{"too long segments", func(c *PoolConfig) { c.Segments, c.SegmentSize = 1, 4097 }, syscall.EINVAL},
		{"too many bytes", func(c *PoolConfig) { c.Segments = 3 }, syscall.EFBIG},
		{"threshold", func(c *PoolConfig) { c.Threshold = -1 }, syscall.EINVAL},
		{"negative colours", func(c *PoolConfig) { c.Colours = -1 }, syscall.EINVAL},
		{"too many colours", func(c *PoolConfig) { c.Colours = maxColours + 1 }, syscall.EINVAL},
		{"negative alignment", func(c *PoolConfig) { c.Alignment = -4096 }, syscall.EINVAL},
		{"no power of two", func(c *PoolConfig) { c.Alignment = 96 }, syscall.EINVAL},
		{"more than a page", func(c *PoolConfig) { c.Alignment = 2 * os.Getpagesize() }, syscall.EINVAL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := NewDomain(context.Background(), w.core)
			if err != nil {
				t.Fatal(err)
			}
			c := good
			tt.bad(&c)
			p, err := d.NewPool(c)
			if is(t, err, tt.want); p != nil {
				t.Error("there is one")
			}
			if p, err = d.NewPool(good); err != nil {
				t.Fatal(err)
			}
			is(t, d.Close(), syscall.EBUSY)
			if err := errors.Join(p.Close(), d.Close()); err != nil {
				t.Fatal(err)
			}
			_, err = d.NewPool(good)
			is(t, err, syscall.EINVAL)
		})
	}
}

// The segments of pooled buffers have the configured size and alignment.
//
// transport 4 init
func TestSegmentsOfAPool(t *testing.T) {
	for _, tt := range []struct{ segments, size, alignment, stride int }{
		{3, 1000, 0, 1000}, {3, 1000, 1, 1000}, {3, 1000, 64, 1024}, {1, 1000, 4096, 0}, {2, 4096, 4096, 4096}, {2, 1, 4096, 4096},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			w := newTestPool(t, func(c *PoolConfig) {
				c.Segments, c.SegmentSize, c.Alignment = tt.segments, tt.size, tt.alignment
			})
			w.provision(2)
			b := w.get(1, AnyColour)[0]
			at := func(i int) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b.Segments()[i]))) }
			for i, s := range b.Segments() {
				if len(s) != tt.size || at(i)%uintptr(max(1, tt.alignment)) != 0 || at(i)-at(0) != uintptr(i*tt.stride) {
					t.Errorf("segment %d of %d bytes, %d bytes from the first", i, len(s), at(i)-at(0))
				}
			}
			if len(b.Segments()) != tt.segments || b.Size() != tt.segments*tt.size {
				t.Errorf("%d segments, %d bytes", len(b.Segments()), b.Size())
			}
			if whole := tt.segments == 1 || tt.stride == tt.size; whole != (len(b.Bytes()) == b.Size()) || !whole && b.Bytes() != nil {
				t.Errorf("%d bytes in one piece", len(b.Bytes()))
			}
		})
	}
}

// Close fails while a buffer is in use or the core keeps it. A closed pool has no buffers.
//
// transport 4 fini, 4 ours
func TestClosingAPool(t *testing.T) {
	w := newTestPool(t, nil)
	w.provision(3)
	b := w.get(1, 0)
	is(t, w.pool.Close(), syscall.EBUSY)
	w.free(2)
	is(t, w.domain.Close(), syscall.EBUSY)
	w.put(0, b...)
	w.core.failDeregister = func() error { return syscall.EBUSY }
	is(t, w.pool.Close(), syscall.EBUSY)
	w.free(3)
	if w.pool.Prune() {
		t.Error("pruned what the core keeps")
	}
	w.free(3)
	w.core.failDeregister = nil
	if err := w.pool.Close(); err != nil || w.core.allocated != 0 {
		t.Fatalf("%v, %d allocated", err, w.core.allocated)
	}
	is(t, w.pool.Close(), syscall.EINVAL)
	_, err := w.pool.Provision(context.Background(), 1)
	is(t, err, syscall.EINVAL)
	if w.pool.Get(0) != nil || w.pool.Prune() || w.pool.Free() != 0 || w.pool.Size() != 0 {
		t.Error("a closed pool has buffers")
	}
	if err := w.domain.Close(); err != nil {
		t.Error(err)
	}
}

// Close fails with EBUSY while Provision runs.
//
// transport 4 fini
func TestAPoolThatIsBeingProvisionedIsNotClosed(t *testing.T) {
	w := newTestPool(t, nil)
	w.core.failRegister = func() error {
		is(t, w.pool.Close(), syscall.EBUSY)
		return nil
	}
	w.provision(1)
	w.free(1)
}

// Get and Put allocate nothing.
func TestPoolsAllocateNothing(t *testing.T) {
	w := newTestPool(t, func(c *PoolConfig) { c.NotEmpty, c.Low = nil, nil })
	w.provision(3)
	if n := testing.AllocsPerRun(100, func() {
		for colour := range uint32(3) {
			if err := w.pool.Put(w.pool.Get(colour), colour); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 && !ordersChecked {
		t.Errorf("%v allocations", n)
	}
}
