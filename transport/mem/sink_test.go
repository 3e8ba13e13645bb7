package mem_test

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/completion"
	"github.com/lnetd/lnetd/transport/coretest"
	"github.com/lnetd/lnetd/transport/mem"
)

// The completions of a TM, including those about the TM itself, go to the sink that it was started with.
// The TM can be stopped when its ops have ended.
func TestSink(t *testing.T) {
	d := open(t, mem.New(mem.Config{Strict: true}).Host(nidA)).(completion.Domain)
	var to coretest.Sink
	tm, err := d.StartTMTo(t.Context(), at(nidA, 34, transport.Dynamic), &to)
	if err != nil {
		t.Fatal(err)
	}
	if tm.Address() != at(nidA, 34, transport.MaxTMID) {
		t.Errorf("started at %v", tm.Address())
	}
	if _, err := d.StartTMTo(t.Context(), tm.Address(), &to); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second one: %v, want EADDRINUSE", err)
	}
	b, err := d.Register(t.Context(), [][]byte{make([]byte, 8)}, "b")
	if err != nil {
		t.Fatal(err)
	}
	send := transport.Op{Queue: transport.MsgSend, Buffer: b, Length: 8, Peer: tm.Address(), Sequence: 1}
	receive := transport.Op{Queue: transport.MsgRecv, Buffer: b, MinReceiveSize: 1, MaxMessages: 1, Sequence: 2}
	if n, err := tm.Submit([]transport.Op{send, receive}); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if err := tm.Stop(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("stopped with an op: %v, want EBUSY", err)
	}
	if n, err := tm.Submit([]transport.Op{{Cancel: true, Buffer: b, Sequence: 2}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if len(to.TMCompletions) != 1 || !errors.Is(to.TMCompletions[0].Err, syscall.ENOBUFS) {
		t.Errorf("told %+v", to.TMCompletions)
	}
	var sequences []uint32
	for _, c := range to.Pushed {
		sequences = append(sequences, c.Sequence)
		if c.Token != "b" || !c.Final {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(sequences, []uint32{1, 2}) || !errors.Is(to.Pushed[1].Err, syscall.ECANCELED) {
		t.Errorf("pushed %+v", to.Pushed)
	}
	if err := errors.Join(tm.Stop(), b.Deregister(), d.Close()); err != nil {
		t.Error(err)
	}
}

// Adopted memory is treated like memory of Alloc, but stays mapped when it is freed.
func TestAdopt(t *testing.T) {
	d := open(t, mem.New(mem.Config{}).Host(nidA)).(completion.Domain)
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
	b, err := d.Register(t.Context(), [][]byte{m[page : page+10]}, lnet.LoopbackNID)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Free(m); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("free: %v, want EBUSY", err)
	}
	if err := errors.Join(b.Deregister(), d.Free(m), d.Close()); err != nil {
		t.Fatal(err)
	}
	m[2*page] = 1
}
