package transport

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"
	"time"
)

// segmentsOf returns memory of segments of these sizes.
func segmentsOf(sizes ...int) [][]byte {
	var segments [][]byte
	for _, n := range sizes {
		segments = append(segments, make([]byte, n))
	}
	return segments
}

// A domain opens and closes the Core's domain once, and the Core can open another one afterwards.
//
// transport-tests A (4)-(5)
// transport 3.3 (1)-(2), 3.4 (1)
func TestDomain(t *testing.T) {
	ctx := context.Background()
	core := newFakeCore()
	core.limits = Limits{BufferSize: 1234, SegmentSize: 17, Segments: 3, DescriptorSize: 99}
	for round := range 2 {
		d, err := NewDomain(ctx, core)
		if err != nil {
			t.Fatal(err)
		}
		if core.opened != round+1 || core.closed != round {
			t.Fatalf("opened %d times, closed %d times", core.opened, core.closed)
		}
		if d.Limits() != core.limits {
			t.Errorf("limits are %+v", d.Limits())
		}
		if nids, err := d.NIDs(ctx); err != nil || len(nids) != 1 {
			t.Errorf("NIDs are %v, %v", nids, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if core.closed != round+1 {
			t.Errorf("closed %d times", core.closed)
		}
		if err := d.Close(); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("second Close: %v", err)
		}
		if _, err := d.NewTM(nil); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("NewTM of a closed domain: %v", err)
		}
		if err := d.Register(ctx, NewBuffer(make([]byte, 1))); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Register with a closed domain: %v", err)
		}
	}
	core.openErr = syscall.ECONNREFUSED
	if _, err := NewDomain(ctx, core); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("NewDomain: %v", err)
	}
}

// A domain that contains objects cannot be closed.
//
// transport 3.3 (4)
// r.m0.net.xprt.lnet.dev.resource-tracking
func TestDomainIsBusy(t *testing.T) {
	ctx := context.Background()
	d, err := NewDomain(ctx, newFakeCore())
	if err != nil {
		t.Fatal(err)
	}
	tm, err := d.NewTM(nil)
	if err != nil {
		t.Fatal(err)
	}
	busy := func() {
		t.Helper()
		if err := d.Close(); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("Close: %v", err)
		}
	}
	busy()
	b, err := d.Buffer(ctx, 10)
	if err != nil {
		t.Fatal(err)
	}
	busy()
	if err := tm.Close(); err != nil {
		t.Fatal(err)
	}
	busy()
	if err := d.Free(b); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// A buffer is registered with one domain, once. Only this domain deregisters it.
//
// transport-tests C (17)-(18), C (20)
// transport 3.7 flags, 3.7 (1)-(2)
// r.M0.net.xprt.lnet.buffer-registration
// r.m0.net.lnet.buffer-registration
func TestRegister(t *testing.T) {
	ctx := context.Background()
	core := newFakeCore()
	d, _ := NewDomain(ctx, core)
	other, _ := NewDomain(ctx, core)
	b := NewBuffer(segmentsOf(10)...)
	b.Deadline = time.Now()
	core.regErr = syscall.EDQUOT
	if err := d.Register(ctx, b); !errors.Is(err, syscall.EDQUOT) {
		t.Fatalf("error is %v", err)
	}
	if f := b.Flags(); f != 0 || b.Deadline.IsZero() {
		t.Errorf("flags are %#x, deadline %v after a refusal", f, b.Deadline)
	}
	core.regErr = nil
	if err := d.Register(ctx, b); err != nil {
		t.Fatal(err)
	}
	if f := b.Flags(); f != FlagRegistered || !b.Deadline.IsZero() {
		t.Errorf("flags are %#x, deadline %v", f, b.Deadline)
	}
	for _, who := range []*Domain{d, other} {
		if err := who.Register(ctx, b); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("registered twice: %v", err)
		}
	}
	if err := other.Deregister(b); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("deregistered elsewhere: %v", err)
	}
	if err := d.Free(b); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("freed what was never allocated: %v", err)
	}
	if len(core.buffers) != 1 || b.Flags() != FlagRegistered {
		t.Errorf("the core has %d buffers, flags are %#x", len(core.buffers), b.Flags())
	}
	if err := d.Deregister(b); err != nil {
		t.Fatal(err)
	}
	if err := d.Deregister(b); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("deregistered twice: %v", err)
	}
	if len(core.buffers) != 0 || b.Flags() != 0 {
		t.Errorf("the core has %d buffers, flags are %#x", len(core.buffers), b.Flags())
	}
	if err := errors.Join(d.Close(), other.Close()); err != nil {
		t.Error(err)
	}
}

// A buffer keeps the segments that it was made of, even if the caller changes the slice.
func TestSegmentListIsCopied(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		segments := [][]byte{make([]byte, 100), make([]byte, 10)}
		b := NewBuffer(segments...)
		segments[0] = nil
		w.ok(w.domain.Register(context.Background(), b))
		if n := len(b.Segments()[0]); b.Size() != 110 || n != 100 {
			t.Errorf("%d bytes, %d of them in the first segment", b.Size(), n)
		}
	})
}

// A nil buffer is an error.
func TestNoBuffer(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		w.is(w.domain.Register(context.Background(), nil), syscall.EINVAL)
		w.is(w.domain.Deregister(nil), syscall.EINVAL)
		w.is(w.domain.Free(nil), syscall.EINVAL)
		w.is(w.tm.Add(nil), syscall.EINVAL)
		if w.tm.Cancel(nil) {
			t.Error("no buffer is queued")
		}
	})
}

// Register refuses buffers whose segments exceed the limits.
//
// transport-tests C (19)
// transport 3.7 (3)
func TestRegisterChecksSegments(t *testing.T) {
	ctx := context.Background()
	pages := make([]int, 257)
	for i := range pages {
		pages[i] = 4096
	}
	bytes257 := make([]int, 257)
	for i := range bytes257 {
		bytes257[i] = 1
	}
	core := newFakeCore()
	d, _ := NewDomain(ctx, core)
	for _, c := range []struct {
		name  string
		sizes []int
		want  error
	}{
		{"256 pages", pages[:256], nil},
		{"one byte", []int{1}, nil},
		{"uneven", []int{10, 4096, 1}, nil},
		{"none", nil, syscall.EINVAL},
		{"an empty one", []int{10, 0, 10}, syscall.EINVAL},
		{"a long one", []int{4097}, syscall.EINVAL},
		{"too many", bytes257, syscall.EINVAL},
		{"too much", pages, syscall.EFBIG},
	} {
		b := NewBuffer(segmentsOf(c.sizes...)...)
		if err := d.Register(ctx, b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		} else if err == nil {
			err = d.Deregister(b)
			if err != nil {
				t.Error(err)
			}
		}
		if b.Flags() != 0 || len(core.buffers) != 0 || d.buffers != 0 {
			t.Errorf("%s: something is left", c.name)
		}
	}
}

// Adjacent segments of one array are merged for the Core. Others that merely happen to be adjacent are not.
func TestRegisterMergesSegments(t *testing.T) {
	ctx := context.Background()
	core := newFakeCore()
	d, _ := NewDomain(ctx, core)
	memory := make([]byte, 3*4096)
	for _, c := range []struct {
		name     string
		segments [][]byte
		pieces   int
	}{
		{"pages", [][]byte{memory[:4096], memory[4096:8192], memory[8192:]}, 1},
		{"a gap", [][]byte{memory[:4096], memory[4097:8192], memory[8192:]}, 2},
		{"backwards", [][]byte{memory[4096:8192], memory[:4096]}, 2},
		{"hidden", [][]byte{memory[:4096:4096], memory[4096:8192]}, 2},
		{"the same twice", [][]byte{memory[:4096], memory[:4096]}, 2},
	} {
		b := NewBuffer(c.segments...)
		if err := d.Register(ctx, b); err != nil {
			t.Fatal(err)
		}
		got := b.state.core.(*fakeBuffer).segments
		if len(got) != c.pieces || !bytes.Equal(bytes.Join(got, nil), bytes.Join(c.segments, nil)) {
			t.Errorf("%s: the core has %d pieces, want %d", c.name, len(got), c.pieces)
		}
		if whole := b.Bytes(); (whole != nil) != (c.pieces == 1) || whole != nil && len(whole) != b.Size() {
			t.Errorf("%s: Bytes has %d of %d", c.name, len(whole), b.Size())
		}
	}
}

// Domain.Buffer allocates a buffer of the given size, in segments of one page.
//
// transport 3.7 (3)
func TestAllocatedBuffer(t *testing.T) {
	ctx := context.Background()
	core := newFakeCore()
	d, _ := NewDomain(ctx, core)
	for _, c := range []struct {
		size     int
		segments int
		want     error
	}{
		{1, 1, nil}, {4096, 1, nil}, {4097, 2, nil}, {1 << 20, 256, nil},
		{0, 0, syscall.EINVAL}, {-1, 0, syscall.EINVAL}, {1<<20 + 1, 0, syscall.EFBIG},
	} {
		b, err := d.Buffer(ctx, c.size)
		if !errors.Is(err, c.want) {
			t.Errorf("%d bytes: %v", c.size, err)
		}
		if err != nil {
			continue
		}
		if b.Size() != c.size || len(b.Bytes()) != c.size || len(b.Segments()) != c.segments {
			t.Errorf("%d bytes: has %d, %d in one piece, %d segments", c.size, b.Size(), len(b.Bytes()), len(b.Segments()))
		}
		if got := b.state.core.(*fakeBuffer).segments; len(got) != 1 {
			t.Errorf("%d bytes: the core has %d pieces", c.size, len(got))
		}
		if err := d.Free(b); err != nil {
			t.Error(err)
		}
		if err := d.Free(b); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("freed twice: %v", err)
		}
	}
	core.regErr = syscall.EFBIG
	if _, err := d.Buffer(ctx, 1); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("the core's refusal: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Allocated memory is freed once, by its own domain, whether its buffer is registered or not. A
// deregistered buffer can be freed, or registered again.
//
// transport 3.7 (2)
func TestFreeAfterDeregister(t *testing.T) {
	ctx := context.Background()
	core := newFakeCore()
	d, _ := NewDomain(ctx, core)
	other, _ := NewDomain(ctx, core)
	b, err := d.Buffer(ctx, 5000)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{d.Deregister(b), d.Register(ctx, b), d.Deregister(b), other.Register(ctx, b)} {
		if err != nil || core.allocated != 1 || len(b.Bytes()) != 5000 {
			t.Fatalf("%v, %d pieces of memory, the buffer has %d bytes", err, core.allocated, len(b.Bytes()))
		}
	}
	is(t, d.Free(b), syscall.EBUSY)
	is(t, other.Free(b), syscall.EINVAL)
	if b.Flags() != FlagRegistered {
		t.Errorf("flags %#x after others tried to free it", b.Flags())
	}
	if err := other.Deregister(b); err != nil {
		t.Fatal(err)
	}
	is(t, other.Free(b), syscall.EINVAL)
	if err := d.Free(b); err != nil || core.allocated != 0 || b.Size() != 0 {
		t.Fatalf("%v, %d pieces of memory, the buffer has %d bytes", err, core.allocated, b.Size())
	}
	is(t, d.Free(b), syscall.EINVAL)
	is(t, d.Register(ctx, b), syscall.EINVAL)
	foreign := NewBuffer(make([]byte, 1))
	is(t, d.Free(foreign), syscall.EINVAL)
	if err := errors.Join(d.Register(ctx, foreign), d.Deregister(foreign), d.Close(), other.Close()); err != nil {
		t.Error(err)
	}
}

// If the Core cannot free memory, the buffer keeps it, and it can be freed later. The buffer is registered
// if it was before and the Core can register it again.
func TestFreeFails(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name       string
		fails      syscall.Errno
		registered bool // before the call
		refused    error
		want       Flags
	}{
		{"in use", syscall.EBUSY, true, nil, FlagRegistered},
		{"broken", syscall.EIO, true, nil, FlagRegistered},
		{"not taken back", syscall.EIO, true, syscall.EDQUOT, 0},
		{"not registered", syscall.EBUSY, false, nil, 0},
	} {
		core := newFakeCore()
		d, _ := NewDomain(ctx, core)
		b, err := d.Buffer(ctx, 10)
		if err != nil {
			t.Fatal(err)
		}
		if !c.registered {
			err = d.Deregister(b)
		}
		core.failFree, core.regErr = func() error { return c.fails }, c.refused
		is(t, d.Free(b), c.fails)
		if n := len(core.buffers); b.Flags() != c.want || b.Size() != 10 || n != d.buffers || (n == 1) != (c.want != 0) {
			t.Errorf("%s: flags %#x, %d bytes, the core has %d buffers, the domain %d", c.name, b.Flags(), b.Size(), n, d.buffers)
		}
		core.failFree = nil
		if err = errors.Join(err, d.Free(b), d.Close()); err != nil || core.allocated != 0 {
			t.Errorf("%s: %v, %d pieces of memory", c.name, err, core.allocated)
		}
	}
}

// Offsets refer to the concatenation of segments.
//
// transport 6.12
func TestCopyInAndOut(t *testing.T) {
	b := NewBuffer(segmentsOf(3, 1, 4)...)
	for _, c := range []struct {
		off  int
		p    string
		want int
	}{
		{0, "abcdefgh", 8}, {2, "CDE", 3}, {7, "xyz", 1}, {8, "x", 0}, {9, "x", 0}, {-1, "x", 0}, {3, "", 0},
	} {
		if n := b.CopyIn(c.off, []byte(c.p)); n != c.want {
			t.Errorf("CopyIn(%d, %q) is %d, want %d", c.off, c.p, n, c.want)
		}
		out := make([]byte, len(c.p))
		if n := b.CopyOut(c.off, out); n != c.want || string(out[:n]) != c.p[:n] {
			t.Errorf("CopyOut(%d) is %d, %q", c.off, n, out)
		}
	}
	if s := string(bytes.Join(b.Segments(), nil)); s != "abCDEfgx" {
		t.Errorf("memory is %q", s)
	}
}
