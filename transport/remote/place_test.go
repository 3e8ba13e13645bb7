package remote

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// ended deregisters buffers.
func ended(t *testing.T, all ...*buffer) {
	t.Helper()
	for _, b := range all {
		if err := b.Deregister(); err != nil {
			t.Fatal(err)
		}
	}
}

// isPrivate reports whether the pages of b belong to the program only.
func isPrivate(b []byte) bool { return privatePages(address(b), address(b)+uintptr(len(b))) }

// Given buffers with overlapping memory, when they end in any order, then those of exactly the same memory
// share a place until the last one ends, and those that overlap otherwise are copied. So the end of one
// exchanges no page of another.
//
// transport 9.3
func TestPlaces(t *testing.T) {
	page := os.Getpagesize()
	d := newFake(t, Config{}).open()
	memory := pages(t, 4)
	whole, same := register(t, d, memory), register(t, d, memory[:2*page], memory[2*page:])
	if len(d.store.places) != 1 || whole.foreign.places[0] != same.foreign.places[0] {
		t.Errorf("%d places of the same memory", len(d.store.places))
	}
	for name, segments := range map[string][][]byte{
		"part of a page": {memory[page+1 : page+100]},
		"a page":         {memory[page : 2*page]},
		"a page more":    {memory[3*page:], make([]byte, 1)},
	} {
		b := register(t, d, segments...)
		if b.foreign.copy == nil {
			t.Errorf("%s of a place is not copied", name)
		}
		ended(t, b)
	}
	part := register(t, d, memory[page+1:page+100])
	ended(t, whole)
	if isPrivate(memory) {
		t.Error("the place is gone, and a buffer has it")
	}
	ended(t, same)
	if !isPrivate(memory) || len(d.store.places) != 0 {
		t.Errorf("%d places are left", len(d.store.places))
	}
	ended(t, part)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Given a buffer that uses a copy, when buffers of whole pages around it begin and end, then no byte that
// it receives is lost.
//
// transport 9.3
func TestCopiesDuringExchange(t *testing.T) {
	page := os.Getpagesize()
	d := newFake(t, Config{}).open()
	memory := pages(t, 64)
	target := memory[40*page+1 : 40*page+2]
	part := register(t, d, target)
	stop, lost := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for k := byte(0); ; k++ {
			select {
			case <-stop:
				lost <- n
				return
			default:
			}
			part.foreign.copy[0] = k
			part.foreign.fetch(0, 1)
			if target[0] != k {
				n++
			}
		}
	}()
	for range 100 {
		whole := register(t, d, memory)
		if whole.foreign.copy != nil {
			t.Error("the pages are not exchanged")
		}
		ended(t, whole)
	}
	close(stop)
	if n := <-lost; n > 0 {
		t.Errorf("%d bytes were lost", n)
	}
	ended(t, part)
}

// Given a place whose pages the system cannot return, when the program registers memory there again, then
// lnetd has the current contents.
//
// transport 9.3
func TestPlaceThatCannotBeRestored(t *testing.T) {
	for _, remapped := range []bool{false, true} {
		f := newFake(t, Config{})
		d := f.open()
		memory := pages(t, 1)
		f.core.exchange.restorePages = func([]byte) error { return syscall.ENOMEM }
		before := bytes.Clone(memory)
		ended(t, register(t, d, memory))
		if !bytes.Equal(memory, before) {
			t.Error("the program has other bytes")
		}
		f.core.exchange.restorePages = restorePrivate
		if remapped {
			if _, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(memory)), uintptr(len(memory)), readWrite,
				unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED); err != nil {
				t.Fatal(err)
			}
		}
		copy(memory, "new")
		b := register(t, d, memory)
		if inPlace := b.foreign.copy == nil; inPlace != remapped {
			t.Errorf("remapped %v, in place %v", remapped, inPlace)
		}
		b.foreign.send(b.size)
		if got := f.seen()[0]; !bytes.Equal(got, memory) {
			t.Errorf("remapped %v: lnetd has %q, the program %q", remapped, got[:3], memory[:3])
		}
		ended(t, b)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		copy(memory, "it is the program's yet")
	}
}

// mappings returns the number of mappings of the process.
func mappings(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("\n"))
}

// Given a program that registers new memory 10000 times, then the number of additional mappings is bounded,
// and memory that was exchanged before adds none.
//
// transport 9.3
func TestMappingsAreBounded(t *testing.T) {
	const n = 10000
	page := os.Getpagesize()
	f := newFake(t, Config{})
	d := f.open()
	memory, err := unix.Mmap(-1, 0, 2*n*page, readWrite, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	part := func(k int) []byte { return memory[2*k*page : (2*k+1)*page] }
	before, inPlace := mappings(t), 0
	for k := range n {
		b := register(t, d, part(k))
		if b.foreign.copy == nil {
			inPlace++
		}
		ended(t, b)
	}
	after := mappings(t)
	t.Logf("%d mappings, after %d buffers %d", before, n, after)
	if inPlace != maxExchanged || after-before > 2*maxExchanged+100 {
		t.Errorf("%d of %d exchanged, %d mappings more", inPlace, n, after-before)
	}
	for range 10 {
		for k := range 10 {
			b := register(t, d, part(k))
			if b.foreign.copy != nil {
				t.Error("a known range is copied")
			}
			ended(t, b)
		}
	}
	if again := mappings(t); again > after+100 {
		t.Errorf("the same memory leaves %d mappings more", again-after)
	}
}

// Given segments that were cut from one slice, when they are registered, then they are one range.
func TestJoined(t *testing.T) {
	whole, other := make([]byte, 100), make([]byte, 10)
	got := joined([][]byte{whole[:10], whole[10:30], other, whole[30:40], whole[50:60], whole[60:70:70], whole[80:90:90], whole[90:]})
	var lengths []int
	for _, b := range got {
		lengths = append(lengths, len(b))
	}
	want := []int{30, 10, 10, 20, 10, 10} // whole[80:90:90] might be a separate allocation
	if !slices.Equal(lengths, want) {
		t.Errorf("%d, want %d", lengths, want)
	}
}

// Given an lnetd that does not answer a registration, when another goroutine deregisters a buffer, then it
// does not wait.
func TestDeregisterDuringRegister(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	one := register(t, d, pages(t, 1))
	f.answers(func(h protocol.Header, _ protocol.Request) ([]byte, bool) { return nil, h.Opcode == protocol.OpAreaAdd })
	memory := pages(t, minAreaSize/os.Getpagesize()+1)
	end, registered := begin(t, func(ctx context.Context) error {
		_, err := d.Register(ctx, [][]byte{memory}, 2)
		return err
	})
	for f.count(protocol.OpAreaAdd) < 2 {
		time.Sleep(time.Microsecond)
	}
	ended(t, one)
	select {
	case err := <-registered:
		t.Errorf("registered without lnetd: %v", err)
	default:
	}
	end()
	if err := <-registered; !errors.Is(err, context.Canceled) || errors.Is(err, syscall.EDQUOT) {
		t.Error(err)
	}
	f.die() // the abandoned request is not answered
}

// Given whole pages of private memory, when lnetd accepts no area for them, then Register returns that
// error, not one about the limit of copies.
func TestRegisterWithoutMemoryOfLnetd(t *testing.T) {
	f := newFake(t, Config{CopyMemory: -1})
	d := f.open()
	memory := [][]byte{pages(t, 1)}
	f.answers(func(h protocol.Header, _ protocol.Request) ([]byte, bool) {
		return protocol.AppendFailure(nil, h, syscall.EMFILE), h.Opcode == protocol.OpAreaAdd
	})
	if _, err := d.Register(t.Context(), memory, 1); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("lnetd has refused: %v", err)
	}
	f.mute()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Register(over, memory, 1); !errors.Is(err, context.Canceled) || errors.Is(err, syscall.EDQUOT) {
		t.Errorf("the context is over: %v", err)
	}
	f.die()
	d.connection.reader.Wait()
	if _, err := d.Register(t.Context(), memory, 1); !errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EDQUOT) {
		t.Errorf("lnetd is gone: %v", err)
	}
}
