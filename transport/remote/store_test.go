package remote

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// Small pieces of memory share areas, of which a connection may have few. Thousands of buffers need a
// handful of areas, even if each is much larger than a page.
//
// transport 9.3, 9.8
func TestSmallPiecesShareAreas(t *testing.T) {
	for _, c := range []struct{ size, count, most int }{{1, 2000, 13}, {100_000, 1000, 22}, {3 << 20, 40, 22}} {
		f := newFake(t, Config{})
		d := f.open()
		total := 0
		for range c.count {
			b, err := d.Alloc(t.Context(), c.size)
			if err != nil {
				t.Fatal(err)
			}
			total += (len(b) + os.Getpagesize() - 1) / os.Getpagesize() * os.Getpagesize()
		}
		if n := f.count(protocol.OpAreaAdd); n > c.most {
			t.Errorf("%d pieces of %d bytes need %d areas", c.count, c.size, n)
		}
		if spare := d.store.bytes - total; spare > total/2+minAreaSize {
			t.Errorf("%d pieces of %d bytes: %d bytes are there for nothing", c.count, c.size, spare)
		}
	}
}

// held is memory of a test, filled with a unique byte.
type held struct {
	b    []byte
	fill byte
}

// With any sequence of allocations and releases, memory begins at a page, is zeroed, does not overlap, and
// has the requested size. Empty areas are removed, except for one.
//
// transport 9.3
func TestStoreEqualsModel(t *testing.T) {
	page := os.Getpagesize()
	f := newFake(t, Config{})
	d := f.open()
	rapid.Check(t, func(rt *rapid.T) {
		var all []held
		defer func() { // if the check ends early
			for _, h := range all {
				_ = d.Free(h.b)
			}
		}()
		check := func(h held) {
			for _, x := range h.b {
				if x != h.fill {
					rt.Fatalf("memory full of %d has a byte %d", h.fill, x)
				}
			}
		}
		release := func(i int) {
			check(all[i])
			if err := d.Free(all[i].b); err != nil {
				rt.Fatal(err)
			}
			all = append(all[:i], all[i+1:]...)
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if len(all) > 0 && rapid.IntRange(0, 2).Draw(rt, "free") == 0 {
				release(rapid.IntRange(0, len(all)-1).Draw(rt, "which"))
				continue
			}
			n := rapid.SampledFrom([]int{1, page, page + 1, 100_000, 300_000, 1 << 20, 1<<20 + 1}).Draw(rt, "size")
			b, err := d.Alloc(t.Context(), n)
			if err != nil {
				rt.Fatal(err)
			}
			if len(b) != n || cap(b) != n || address(b)%uintptr(page) != 0 {
				rt.Fatalf("%d bytes with room for %d at %#x, not %d", len(b), cap(b), address(b), n)
			}
			check(held{b: b})
			h := held{b, byte(1 + len(all))}
			copy(h.b, bytes.Repeat([]byte{h.fill}, n))
			all = append(all, h)
		}
		for len(all) > 0 {
			release(rapid.IntRange(0, len(all)-1).Draw(rt, "which"))
		}
		if n := len(d.store.areas); n != 1 || len(d.store.areas[0].freeRuns) != 1 || d.store.inUse() {
			rt.Fatalf("%d areas are left", n)
		}
		f.mu.Lock()
		n := len(f.areas)
		f.mu.Unlock()
		if n != 1 {
			rt.Fatalf("lnetd has %d areas", n)
		}
	})
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Alloc refuses invalid sizes, and Free refuses memory that Alloc has not returned.
func TestInvalidMemory(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	for _, n := range []int{0, -1, 1 << 50} {
		if _, err := d.Alloc(t.Context(), n); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	one, err := d.Alloc(t.Context(), 2*os.Getpagesize())
	if err != nil {
		t.Fatal(err)
	}
	other, err := d.Alloc(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	free := func(what string, b []byte, want error) {
		t.Helper()
		if err := d.Free(b); !errors.Is(err, want) {
			t.Errorf("free %s: %v, not %v", what, err, want)
		}
	}
	free("memory of Go", make([]byte, 100), syscall.EINVAL)
	free("a part", one[:100], syscall.EINVAL)
	free("the end", one[os.Getpagesize():], syscall.EINVAL)
	b, err := d.Register(t.Context(), [][]byte{one[10:20], other, one[:5000]}, "b")
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	got := f.ranges[0]
	f.mu.Unlock()
	page := uint64(os.Getpagesize())
	want := []protocol.Range{
		{Area: 1, Offset: 10, Length: 10}, {Area: 1, Offset: 2 * page, Length: 100},
		{Area: 1, Length: 4096}, {Area: 1, Offset: 4096, Length: 904}, // no longer than a segment
	}
	if !slices.Equal(got, want) {
		t.Errorf("ranges %v, not %v", got, want)
	}
	free("memory of a buffer", one, syscall.EBUSY)
	free("memory of a buffer", other, syscall.EBUSY)
	if err := d.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("close with a buffer: %v", err)
	}
	if err := b.Deregister(); err != nil {
		t.Error(err)
	}
	if err := b.Deregister(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("deregister twice: %v", err)
	}
	if err := d.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("close with memory: %v", err)
	}
	free("all of it", one, nil)
	free("what is free", one, syscall.EINVAL)
	free("the rest", other, nil)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// If lnetd refuses an area as too large, an area of the minimum size is requested, and unneeded memory is
// released.
//
// transport 9.8
func TestQuotaOfBytes(t *testing.T) {
	f := newFake(t, Config{})
	page := os.Getpagesize()
	left := 2 * page
	f.answers(func(h protocol.Header, r protocol.Request) ([]byte, bool) {
		a, ok := r.(*protocol.AreaAdd)
		if !ok || int(a.Size) <= left {
			return nil, false
		}
		return protocol.AppendFailure(nil, h, syscall.EDQUOT), true
	})
	d := f.open()
	if _, err := d.Alloc(t.Context(), 3*page); !errors.Is(err, syscall.EDQUOT) {
		t.Errorf("more than the quota: %v", err)
	}
	if _, err := d.Alloc(t.Context(), 2*page); err != nil {
		t.Errorf("all of the quota: %v", err)
	}
	if d.store.bytes != left {
		t.Errorf("%d bytes in areas, not %d", d.store.bytes, left)
	}
}

// Requests abandoned by their callers are undone when lnetd answers them. Afterwards the address of an
// abandoned start can be used again.
//
// transport 3.5 ours (2), 9.1
func TestAbandoned(t *testing.T) {
	for _, c := range []struct {
		name     string
		at, undo protocol.Opcode
		do       func(d *domain, ctx context.Context, b []byte) error
	}{
		{"area", protocol.OpAreaAdd, protocol.OpAreaDel, func(d *domain, ctx context.Context, _ []byte) error {
			_, err := d.Alloc(ctx, 2<<20)
			return err
		}},
		{"buffer", protocol.OpBufRegister, protocol.OpBufDeregister, func(d *domain, ctx context.Context, b []byte) error {
			_, err := d.Register(ctx, [][]byte{b}, 1)
			return err
		}},
		{"TM", protocol.OpTMStart, protocol.OpTMStop, func(d *domain, ctx context.Context, _ []byte) error {
			_, err := d.StartTM(ctx, transport.Address{NID: fakeNID, Portal: 34, TMID: 5}, 1)
			return err
		}},
		{"NIDs", protocol.OpNIDsGet, 0, func(d *domain, ctx context.Context, _ []byte) error {
			_, err := d.NIDs(ctx)
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, Config{})
			arrived, answer := make(chan struct{}), make(chan struct{})
			d := f.open()
			b, err := d.Alloc(t.Context(), 100)
			if err != nil {
				t.Fatal(err)
			}
			f.answers(func(h protocol.Header, _ protocol.Request) ([]byte, bool) {
				if h.Opcode == c.at {
					arrived <- struct{}{}
					<-answer
				}
				return nil, false
			})
			before := files(t)
			end, result := begin(t, func(ctx context.Context) error { return c.do(d, ctx, b) })
			<-arrived
			end()
			if err := <-result; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			close(answer)
			if err := d.connection.waitUndone(t.Context()); err != nil {
				t.Error(err)
			}
			if c.undo != 0 && f.count(c.undo) != 1 {
				t.Errorf("%d times %v", f.count(c.undo), c.undo)
			}
			if n := files(t); n != before {
				t.Errorf("%d files are open, %d before", n, before)
			}
			if err := d.Free(b); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// However small lnetd's limit of segments is, ranges respect it.
func TestTinySegments(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	b, err := d.Alloc(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	limits := d.hello.Limits
	limits.SegmentSize = 1
	made := testing.AllocsPerRun(10, func() {
		if _, _, err := d.store.acquire([][]byte{b}, &limits); !errors.Is(err, syscall.EFBIG) {
			t.Errorf("1 MiB in segments of a byte: %v", err)
		}
	})
	if most := 32.0; made > most {
		t.Errorf("%v allocations, at most %v", made, most)
	}
}

// files returns the number of descriptors of this process.
func files(t testing.TB) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// All descriptors of a domain are closed on exec.
//
// transport 9.8, 9.10
func TestCloseOnExec(t *testing.T) {
	staying := func() (list []string) {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			fd, err := strconv.Atoi(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
				what, _ := os.Readlink("/proc/self/fd/" + e.Name())
				list = append(list, e.Name()+" "+what)
			}
		}
		return list
	}
	before := staying() // inherited by the test
	f := newFake(t, Config{})
	d := f.open()
	f.start(d)
	f.buffer(d, 1)
	if now := staying(); !slices.Equal(now, before) {
		t.Errorf("descriptors stay open: %q, not %q", now, before)
	}
}
