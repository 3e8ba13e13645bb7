package mem_test

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// Memory begins at a page, is zeroed, and cannot be freed while a buffer uses a part of it.
func TestAlloc(t *testing.T) {
	d := open(t, mem.New(mem.Config{}).Host())
	var areas [][]byte
	for _, n := range []int{1, 4096, 1 << 20, 5000} {
		b, err := d.Alloc(t.Context(), n)
		if err != nil || len(b) != n {
			t.Fatalf("%d bytes: %d, %v", n, len(b), err)
		}
		if bytes.ContainsFunc(b, func(r rune) bool { return r != 0 }) {
			t.Errorf("%d bytes are not zero", n)
		}
		b[n-1] = 1
		areas = append(areas, b)
	}
	for i, b := range areas {
		inside, err := d.Register(t.Context(), [][]byte{b[len(b)/2:], make([]byte, 5)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Free(b); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("area %d is free while a buffer has it: %v", i, err)
		}
		if err := inside.Deregister(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("closed with memory: %v", err)
		}
		for _, wrong := range [][]byte{b[:len(b)-1], b[len(b):], nil, make([]byte, 10)} {
			if err := d.Free(wrong); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("freed what was not allocated: %v", err)
			}
		}
		if err := d.Free(b); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Alloc(t.Context(), 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("no bytes: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// The limits are those of LNet, except for those configured. A host with a large NID has longer
// descriptors.
//
// transport-tests A (6)
// transport 3.4 (3)
func TestLimits(t *testing.T) {
	large, err := lnet.ParseNID("fd00::1@tcp")
	if err != nil {
		t.Fatal(err)
	}
	lnetLimits := transport.Limits{BufferSize: 1048576, SegmentSize: 4096, Segments: 256, DescriptorSize: 48, Confine: true, Synchronous: true}
	other, longer := lnetLimits, lnetLimits
	other.SegmentSize, other.Segments = 1<<16, 16
	longer.DescriptorSize = transport.LargeDescriptorSize
	for _, c := range []struct {
		asked transport.Limits
		nids  []lnet.NID
		want  transport.Limits
	}{
		{transport.Limits{}, nil, lnetLimits},
		{transport.Limits{SegmentSize: 1 << 16, Segments: 16}, []lnet.NID{nidA}, other},
		{transport.Limits{}, []lnet.NID{nidA, large}, longer},
	} {
		if got := open(t, mem.New(mem.Config{Limits: c.asked}).Host(c.nids...)).Limits(); got != c.want {
			t.Errorf("limits %+v, not %+v", got, c.want)
		}
	}
}
