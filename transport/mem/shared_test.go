package mem_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
)

// Memory that another buffer uses a part of cannot be freed, and the attempt changes nothing, whether the
// buffer is of Domain.Buffer or of a pool.
//
// transport 3.7 (2), 4 fini
func TestFreeOfSharedMemory(t *testing.T) {
	ctx := t.Context()
	d, err := transport.NewDomain(ctx, mem.New(mem.Config{}).Host())
	if err != nil {
		t.Fatal(err)
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	busy := func(err error) {
		t.Helper()
		if !errors.Is(err, syscall.EBUSY) {
			t.Errorf("error is %v, want EBUSY", err)
		}
	}
	whole, err := d.Buffer(ctx, 10000)
	ok(err)
	part := transport.NewBuffer(whole.Bytes()[100:200])
	ok(d.Register(ctx, part))
	busy(d.Free(whole))
	if whole.Flags() != transport.FlagRegistered || whole.Size() != 10000 || len(whole.Bytes()) != 10000 {
		t.Errorf("flags %v, %d bytes", whole.Flags(), whole.Size())
	}
	busy(d.Close())
	ok(d.Deregister(part))
	ok(d.Free(whole))

	p, err := d.NewPool(transport.PoolConfig{Segments: 1, SegmentSize: 4096})
	ok(err)
	if _, err := p.Provision(ctx, 1); err != nil {
		t.Fatal(err)
	}
	b := p.Get(transport.AnyColour)
	part = transport.NewBuffer(b.Bytes()[:10])
	ok(d.Register(ctx, part))
	ok(p.Put(b, transport.AnyColour))
	busy(p.Close())
	if p.Free() != 1 || p.Size() != 1 {
		t.Errorf("%d of %d buffers", p.Free(), p.Size())
	}
	ok(d.Deregister(part))
	ok(p.Close())
	ok(d.Close())
}

// A domain that the Core fails to close stays open.
//
// transport 3.3 (4)
func TestCloseWithMemory(t *testing.T) {
	ctx := t.Context()
	d, err := transport.NewDomain(ctx, mem.New(mem.Config{}).Host())
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Buffer(ctx, 1)
	if err := errors.Join(err, d.Deregister(b)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Close(); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("closed with memory: %v", err)
		}
	}
	if err := errors.Join(d.Register(ctx, b), d.Free(b), d.Close()); err != nil {
		t.Error(err)
	}
}
