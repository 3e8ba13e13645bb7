package inproc

import (
	"errors"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/completion"
	"github.com/lnetd/lnetd/transport/coretest"
)

// The completions of a TM go to the sink that it was started with. When the node closes, the completion
// with Down is the last one.
func TestSink(t *testing.T) {
	n := simulated(t, simConfig, nil, "10.1.0.1")[0]
	var d completion.Domain = openOn(t, New(n))
	var to coretest.Sink
	tm, err := d.StartTMTo(t.Context(), at(nidOf(n), 34, 7), &to)
	if err != nil {
		t.Fatal(err)
	}
	if tm.Address() != at(nidOf(n), 34, 7) {
		t.Errorf("started at %v", tm.Address())
	}
	if _, err := d.StartTMTo(t.Context(), tm.Address(), &to); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second one: %v, want EADDRINUSE", err)
	}
	b, err := d.Register(t.Context(), [][]byte{make([]byte, 8)}, "b")
	if err != nil {
		t.Fatal(err)
	}
	ops := []transport.Op{{Queue: transport.MsgRecv, Buffer: b, MinReceiveSize: 1, MaxMessages: 1, Sequence: 2}}
	if n, err := tm.Submit(ops); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := tm.Stop(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("stopped with an op: %v, want EBUSY", err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(to.Pushed) != 1 || to.Pushed[0].Token != "b" || !errors.Is(to.Pushed[0].Err, syscall.ECANCELED) {
		t.Errorf("pushed %+v", to.Pushed)
	}
	if len(to.TMCompletions) != 1 || !to.TMCompletions[0].Down {
		t.Errorf("told %+v", to.TMCompletions)
	}
	if err := errors.Join(tm.Stop(), b.Deregister(), d.Close()); err != nil {
		t.Error(err)
	}
}

// Adopted memory has one region, like memory of Alloc, and stays mapped when it is freed.
func TestAdopt(t *testing.T) {
	d := newStage(t).domain
	page := syscall.Getpagesize()
	m, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	}()
	for _, bad := range [][]byte{nil, m[:1], m[1 : page+1]} {
		if err := d.Adopt(t.Context(), bad); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("adopt %d bytes: %v, want EINVAL", len(bad), err)
		}
	}
	if err := d.Adopt(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	b := register(t, d, m[page:page+10], m[:1])
	if r := b.memory.Segments[0].Region(); r == nil || address(r.Bytes()) != address(m) || len(b.regions) != 0 {
		t.Error("the buffer has another region than its memory")
	}
	if err := d.Free(m); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("free: %v, want EBUSY", err)
	}
	if err := errors.Join(b.Deregister(), d.Free(m)); err != nil {
		t.Fatal(err)
	}
	m[2*page] = 1
}
