package remote

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// pages maps private memory of whole pages, with contents.
func pages(t *testing.T, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n*os.Getpagesize(), readWrite, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	fill(b)
	return b
}

func fill(b []byte) {
	for i := range b {
		b[i] = byte(i*7 + i/251)
	}
}

// register calls Register, which must succeed.
func register(t *testing.T, d *domain, segments ...[]byte) *buffer {
	t.Helper()
	b, err := d.Register(t.Context(), segments, 1)
	if err != nil {
		t.Fatal(err)
	}
	return b.(*buffer)
}

// Given memory that lnetd has not mapped, when buffers in it are registered, then lnetd uses whole pages of
// private memory in place, and copies of all other memory. The contents stay, and when no buffer uses the
// memory any more, only the program has it.
//
// transport 3.7 (3), 9.3
func TestOwnMemory(t *testing.T) {
	page := os.Getpagesize()
	file, _ := testenv.Mapped(t, 2*page)
	heap := make([]byte, 1<<20)
	fill(file)
	fill(heap)
	private := pages(t, 4)
	given := func(d *domain) []byte {
		b, err := d.Alloc(t.Context(), 2*page)
		if err != nil {
			t.Fatal(err)
		}
		fill(b)
		return b
	}
	for _, c := range []struct {
		name     string
		segments func(d *domain) [][]byte
		inPlace  bool
	}{
		{"pages", func(*domain) [][]byte { return [][]byte{private} }, true},
		{"pages in another order", func(*domain) [][]byte { return [][]byte{private[2*page:], private[:2*page]} }, true},
		{"a large slice of Go", func(*domain) [][]byte { return [][]byte{heap} }, true},
		{"pages and memory of Alloc", func(d *domain) [][]byte { return [][]byte{private[page : 2*page], given(d)[5:100]} }, true},
		{"part of a page", func(*domain) [][]byte { return [][]byte{private[1:page]} }, false},
		{"a small slice of Go", func(*domain) [][]byte { return [][]byte{bytes.Repeat([]byte("x"), 100)} }, false},
		{"memory of a file", func(*domain) [][]byte { return [][]byte{file} }, false},
		{"pages and a part", func(*domain) [][]byte { return [][]byte{private[:page], private[2*page : 2*page+10]} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, Config{})
			d := f.open()
			segments := c.segments(d)
			var before []byte
			for _, s := range segments {
				before = append(before, s...)
			}
			b := register(t, d, segments...)
			if inPlace := b.foreign == nil || b.foreign.copy == nil; inPlace != c.inPlace {
				t.Errorf("in place: %v", inPlace)
			}
			read := func() []byte { return slices.Concat(f.seen()...) }
			b.foreign.send(b.size)
			if got := read(); !bytes.Equal(got, before) {
				t.Error("lnetd sees other bytes")
			}
			for _, r := range f.seen() { // lnetd writes
				for i := range r {
					r[i] ^= 0xff
				}
			}
			b.foreign.fetch(0, b.size)
			for i := range before {
				before[i] ^= 0xff
			}
			check := func(when string) {
				if got := slices.Concat(segments...); !bytes.Equal(got, before) {
					t.Errorf("%s the program has other bytes", when)
				}
			}
			check("registered,")
			if err := b.Deregister(); err != nil {
				t.Fatal(err)
			}
			check("deregistered,")
			seen := read()
			for _, s := range segments {
				s[0]++
			}
			if _, p := d.store.areaOf(segments[len(segments)-1]); p == nil && !bytes.Equal(read(), seen) {
				t.Error("lnetd sees memory of a buffer that has ended")
			}
			if len(d.store.places) != 0 || d.store.copied != 0 {
				t.Errorf("%d places, %d bytes of copies are left", len(d.store.places), d.store.copied)
			}
		})
	}
}

// seen returns the memory of the ranges registered last.
func (f *fake) seen() (all [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.ranges[len(f.ranges)-1] {
		all = append(all, f.areas[r.Area].Bytes()[r.Offset:r.Offset+uint64(r.Length)])
	}
	return all
}

// Given a limit of copies, when it would be exceeded, then the buffer is refused. Memory used in place does
// not count.
func TestCopiesAreBounded(t *testing.T) {
	d := newFake(t, Config{CopyMemory: 1000}).open()
	first := register(t, d, make([]byte, 600))
	if _, err := d.Register(t.Context(), [][]byte{make([]byte, 401)}, 1); !errors.Is(err, syscall.EDQUOT) {
		t.Errorf("1001 bytes of 1000: %v", err)
	}
	inPlace := register(t, d, pages(t, 1))
	second := register(t, d, make([]byte, 400))
	if err := first.Deregister(); err != nil {
		t.Fatal(err)
	}
	third := register(t, d, make([]byte, 600))
	for _, b := range []*buffer{inPlace, second, third} {
		if err := b.Deregister(); err != nil {
			t.Fatal(err)
		}
	}
	none := newFake(t, Config{CopyMemory: -1}).open()
	if _, err := none.Register(t.Context(), [][]byte{make([]byte, 1)}, 1); !errors.Is(err, syscall.EDQUOT) {
		t.Errorf("a copy, of which there shall be none: %v", err)
	}
	if l := none.Limits(); l.CopyMemory != 0 || l.PageSize != os.Getpagesize() {
		t.Errorf("limits %+v", l)
	}
}

// Given memory that is registered for each message, when that is repeated, then one request is sent to
// lnetd. Registrations are evicted if they were not used for long, if their quota is needed, or if their
// memory is removed.
//
// transport 9.3
func TestRegistrationsAreKept(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	page := os.Getpagesize()
	memory, err := d.Alloc(t.Context(), 2000*page)
	if err != nil {
		t.Fatal(err)
	}
	end := func(b *buffer) {
		t.Helper()
		if err := b.Deregister(); err != nil {
			t.Fatal(err)
		}
	}
	first := register(t, d, memory[:100])
	first.sequence = 7
	end(first)
	for range 100 {
		b := register(t, d, memory[:50], memory[50:100]) // the same, however it is split
		if b.registration.operation <= 7 || b.index != first.index || b.generation != first.generation {
			t.Fatalf("another registration, or old numbers: %+v", b.registration)
		}
		end(b)
	}
	if f.count(protocol.OpBufRegister) != 1 || f.count(protocol.OpBufDeregister) != 0 {
		t.Errorf("%d and %d requests", f.count(protocol.OpBufRegister), f.count(protocol.OpBufDeregister))
	}
	two := []*buffer{register(t, d, memory[:100]), register(t, d, memory[:100])}
	if two[0].index == two[1].index {
		t.Error("two buffers have one registration")
	}
	end(two[0])
	end(two[1])
	for k := range 2 * maxIdle {
		end(register(t, d, memory[k:k+10]))
	}
	if n := d.idle.order.Len(); n > maxIdle || n != f.count(protocol.OpBufRegister)-f.count(protocol.OpBufDeregister) {
		t.Errorf("%d are kept, of %d and %d requests", n, f.count(protocol.OpBufRegister), f.count(protocol.OpBufDeregister))
	}
	refused := false
	f.answers(func(h protocol.Header, r protocol.Request) ([]byte, bool) {
		if h.Opcode != protocol.OpBufRegister || refused {
			return nil, false
		}
		refused = true
		return protocol.AppendFailure(nil, h, syscall.EDQUOT), true
	})
	kept := d.idle.order.Len()
	last := register(t, d, memory[5:7])
	if n := d.idle.order.Len(); n != kept-(kept+7)/8 {
		t.Errorf("%d of %d registrations are kept though the quota is met", n, kept)
	}
	end(last)
	if err := d.Free(memory); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if a, b := f.count(protocol.OpBufRegister), f.count(protocol.OpBufDeregister); a != b+1 {
		t.Errorf("%d registered, one refused, %d forgotten", a, b)
	}
}
