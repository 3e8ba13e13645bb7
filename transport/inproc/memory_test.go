package inproc

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/transport"
)

func alloc(t testing.TB, d *domain, n int) []byte {
	t.Helper()
	b, err := d.Alloc(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Memory of Alloc begins at a page, is zeroed, and cannot be freed while a buffer in it is registered.
// Buffers share its only region.
func TestAlloc(t *testing.T) {
	d := newStage(t).domain
	small, large := alloc(t, d, 1), alloc(t, d, 3*os.Getpagesize())
	for _, b := range [][]byte{small, large} {
		if address(b)%uintptr(os.Getpagesize()) != 0 || cap(b) != len(b) {
			t.Errorf("%d bytes at %#x, room for %d", len(b), address(b), cap(b))
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatal("not zeroed")
			}
			b[i] = 1
		}
	}
	one, both := register(t, d, large[10:20], large[100:200]), register(t, d, small, large)
	for _, b := range []*buffer{one, both} {
		last := b.memory.Segments[1]
		if r := last.Region(); r == nil || address(r.Bytes()) != address(large) || len(b.regions) != 0 {
			t.Error("it has another region than its memory")
		}
	}
	if got := one.memory.Segments; address(got[0].Bytes) != address(large[10:]) || len(got[0].Bytes) != 10 || len(got[1].Bytes) != 100 {
		t.Errorf("segments %+v", got)
	}
	busy := func(b []byte) {
		t.Helper()
		if err := d.Free(b); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("free: %v, want EBUSY", err)
		}
	}
	busy(small)
	busy(large)
	for _, b := range []*buffer{both, one} {
		if b == one {
			busy(large)
		}
		if err := b.Deregister(); err != nil {
			t.Error(err)
		}
	}
	for _, b := range [][]byte{large[1:], large[:1], make([]byte, 1), nil} {
		if err := d.Free(b); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("free of what was not allocated: %v, want EINVAL", err)
		}
	}
	for _, b := range [][]byte{small, large} {
		if err := d.Free(b); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []int{0, -1, 1 << 50} {
		if _, err := d.Alloc(t.Context(), n); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%d bytes: %v, want EINVAL", n, err)
		}
	}
}

// A segment is treated as memory of Alloc only if all of it is.
func TestAround(t *testing.T) {
	all := make([]byte, 40)
	low, high := &area{bytes: all[10:20]}, &area{bytes: all[30:35]}
	d := &domain{areas: []*area{low, high}}
	for _, c := range []struct {
		from, to int
		want     *area
	}{
		{0, 5, nil}, {5, 15, nil}, {10, 11, low}, {10, 20, low}, {15, 20, low}, {15, 21, nil},
		{20, 25, nil}, {25, 31, nil}, {30, 35, high}, {34, 35, high}, {34, 36, nil}, {35, 40, nil},
	} {
		if got := d.areaOf(all[c.from:c.to]); got != c.want {
			t.Errorf("%d to %d: %p, want %p", c.from, c.to, got, c.want)
		}
	}
}

// Other memory has a region for each segment, which ends with the buffer.
//
// r.m0.net.xprt.lnet.dev.minimal-mapping
func TestForeignMemory(t *testing.T) {
	d := newStage(t).domain
	ours, theirs := alloc(t, d, 100), make([]byte, 100)
	b := register(t, d, theirs[:50], ours, theirs[50:])
	regions := slices.Clone(b.regions)
	if len(regions) != 2 || b.memory.Segments[0].Region() != regions[0] || b.memory.Segments[2].Region() != regions[1] {
		t.Fatalf("%d regions", len(regions))
	}
	if err := b.Deregister(); err != nil {
		t.Error(err)
	}
	for _, r := range regions {
		if err := r.Release(); !errors.Is(err, memory.ErrReleased) {
			t.Errorf("a region is left: %v", err)
		}
	}
	if err := d.Free(ours); err != nil {
		t.Error(err)
	}
	if _, err := d.Register(t.Context(), make([][]byte, 257), nil); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("257 pieces: %v, want EFBIG", err)
	}
}

// A failed registration leaves no memory registered.
func TestRegisterFails(t *testing.T) {
	s := newStage(t)
	ours := alloc(t, s.domain, 100)
	first := make([]byte, 1)
	s.node.registered = nil
	s.node.registerErr = context.Canceled
	s.node.registers = 1
	if _, err := s.domain.Register(t.Context(), [][]byte{ours, first, make([]byte, 1), ours}, nil); !errors.Is(err, syscall.ECANCELED) {
		t.Errorf("%v, want ECANCELED", err)
	}
	if err := s.node.registered[0].Release(); !errors.Is(err, memory.ErrReleased) {
		t.Errorf("a region is left: %v", err)
	}
	if err := s.domain.Free(ours); err != nil {
		t.Error(err)
	}
	if _, err := s.domain.Alloc(t.Context(), 1); !errors.Is(err, syscall.ECANCELED) {
		t.Errorf("%v, want ECANCELED", err)
	}
	stop(t, s.tm)
	if err := s.domain.Close(); err != nil || s.node.forgotten != 1 {
		t.Errorf("%v, forgotten %d times", err, s.node.forgotten)
	}
	if n := len(s.domain.buffers) + len(s.domain.areas); n != 0 {
		t.Errorf("%d buffers and pieces of memory are left", n)
	}
}

// stubborn is a device that fails to release memory.
type stubborn struct{ fails int }

func (d *stubborn) Register([]byte) (memory.Registration, error) { return d, nil }

func (d *stubborn) Release() error {
	d.fails++
	return syscall.EIO
}

// Memory that a device does not release, or that is still in use, stays unchanged: it can be freed, and its
// buffers deregistered, later. Until then the domain is busy.
func TestReleaseFails(t *testing.T) {
	s := newStage(t)
	stop(t, s.tm)
	ours, theirs := alloc(t, s.domain, 100), [][]byte{make([]byte, 1), make([]byte, 2)}
	b := register(t, s.domain, ours, theirs[0], theirs[1])
	devices := []*stubborn{{}, {}}
	for k, r := range []*memory.Region{s.node.registered[0], s.node.registered[2]} {
		if err := r.Register(devices[k]); err != nil {
			t.Fatal(err)
		}
	}
	busy := func() {
		t.Helper()
		if err := s.domain.Close(); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("close: %v, want EBUSY", err)
		}
	}
	for _, end := range []func() error{b.Deregister, func() error { return s.domain.Free(ours) }} {
		if err := end(); !errors.Is(err, syscall.EIO) {
			t.Errorf("%v, want EIO", err)
		}
		busy()
		if err := end(); err != nil {
			t.Errorf("again: %v", err)
		}
		if err := end(); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("a third time: %v", err)
		}
	}
	if devices[0].fails != 1 || devices[1].fails != 1 {
		t.Errorf("the devices were asked %d and %d times", devices[0].fails, devices[1].fails)
	}
	if err := s.domain.Close(); err != nil {
		t.Error(err)
	}
}

// The node moves the program's memory itself, which was registered with the node before. Ops of all kinds
// and cancellations register nothing.
//
// transport 3.7 (4)
// r.M0.net.rdma
// r.M0.net.xprt.lnet.min-buffer-vm-setup
func TestMemoryMovesUnchanged(t *testing.T) {
	s := newStage(t)
	s.node.onUnlink = (*descriptor).unlink
	ours, theirs := alloc(t, s.domain, 8192), make([]byte, 100)
	b := register(t, s.domain, ours[4000:5000], theirs)
	before := len(s.node.registered)
	for _, q := range all {
		d := s.submit(op(q, b))
		got := d.md.Memory.AppendSegments(nil)
		if len(got) != 2 || address(got[0].Bytes) != address(ours[4000:]) || address(got[1].Bytes) != address(theirs) {
			t.Errorf("%v: other memory is moved: %+v", q, got)
		}
		for _, segment := range got {
			if segment.Region() == nil {
				t.Errorf("%v: memory that is not registered is moved", q)
			}
		}
		s.submit(transport.Op{Cancel: true, Buffer: b, Sequence: 1})
		if c := s.one(); !c.Final {
			t.Errorf("%v: %+v", q, c)
		}
	}
	if n := len(s.node.registered); n != before {
		t.Errorf("%d pieces of memory were registered behind the buffer", n-before)
	}
}

// A Core works with transport.NewDomain, and has the name of the transport.
//
// r.M0.net.xprt.lnet.transport-variable
func TestName(t *testing.T) {
	var c transport.Core = New(newNode(t))
	d, err := transport.NewDomain(t.Context(), c)
	if err != nil || c.Name() != "lnet" {
		t.Fatalf("%q, %v", c.Name(), err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
