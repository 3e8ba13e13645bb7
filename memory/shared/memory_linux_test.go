package shared

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Memory that one process creates can be adopted by another. Both see the same memory, which can neither
// shrink nor grow nor lose its seals, and whose pages are allocated. Everything is released at the end.
//
// r.m0.net.xprt.lnet.dev.pin-objects
func TestMemoryIsShared(t *testing.T) {
	before := open(t)
	page := os.Getpagesize()
	for size, want := range map[int]int{1: page, page: page, page + 1: 2 * page} {
		a, fd, err := Create("test", size)
		if err != nil {
			t.Fatal(err)
		}
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || stat.Size != int64(want) || stat.Blocks*512 < int64(want) {
			t.Errorf("%d bytes: a file of %d with %d blocks, %v", size, stat.Size, stat.Blocks, err)
		}
		if flags := must[int](t)(unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)); flags&unix.FD_CLOEXEC == 0 {
			t.Error("programs inherit the descriptor")
		}
		for name, err := range map[string]error{
			"shrink":   unix.Ftruncate(fd, 0),
			"grow":     unix.Ftruncate(fd, int64(8*page)),
			"new seal": func() error { _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); return err }(),
		} {
			if !errors.Is(err, unix.EPERM) {
				t.Errorf("%s: %v", name, err)
			}
		}
		b, err := Adopt(fd, int64(want))
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Bytes()) != want || len(b.Bytes()) != want || !bytes.Equal(a.Bytes(), make([]byte, want)) {
			t.Fatalf("%d and %d bytes of %d", len(a.Bytes()), len(b.Bytes()), want)
		}
		a.Bytes()[want-1] = 7
		if err := a.Close(); err != nil || a.Bytes() != nil || a.Close() != nil {
			t.Errorf("unmapped: %v, %d bytes", err, len(a.Bytes()))
		}
		if b.Bytes()[want-1] != 7 {
			t.Error("the memory is not the same")
		}
		finish(t, b)
	}
	if after := open(t); after != before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}

// Create refuses sizes that are not positive.
func TestMemoryOfNoSize(t *testing.T) {
	for _, size := range []int{0, -1} {
		if m, fd, err := Create("test", size); !errors.Is(err, unix.EINVAL) || m != nil || fd != -1 {
			t.Errorf("%d: %v, %d, %v", size, m, fd, err)
		}
	}
}

// Descriptors of anything but suitable memory are refused and closed.
//
// transport 9.3
// r.m0.net.xprt.lnet.dev.pin-objects
func TestRejectedMemory(t *testing.T) {
	page := int64(os.Getpagesize())
	shrink := unix.F_SEAL_SHRINK
	reopened := func(fd, flags int) int {
		defer shut(fd)
		return must[int](t)(unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), flags|unix.O_CLOEXEC, 0))
	}
	cases := []struct {
		name string
		fd   func() int
		size int64
		want syscall.Errno
	}{
		{"no seal", func() int { return memfd(t, 0, page, 0) }, page, unix.EPERM},
		{"the wrong seal", func() int { return memfd(t, 0, page, unix.F_SEAL_GROW) }, page, unix.EPERM},
		{"sealed against writing", func() int { return memfd(t, 0, page, shrink|unix.F_SEAL_WRITE) }, page, unix.EPERM},
		{"sealed against writing later", func() int { return memfd(t, 0, page, shrink|unix.F_SEAL_FUTURE_WRITE) }, page, unix.EPERM},
		{"for reading", func() int { return reopened(memfd(t, 0, page, shrink), unix.O_RDONLY) }, page, unix.EACCES},
		{"for writing", func() int { return reopened(memfd(t, 0, page, shrink), unix.O_WRONLY) }, page, unix.EACCES},
		{"for neither", func() int { return reopened(memfd(t, 0, page, shrink), unix.O_PATH) }, page, unix.EACCES},
		{"smaller", func() int { return memfd(t, 0, page, shrink) }, 2 * page, unix.EINVAL},
		{"larger", func() int { return memfd(t, 0, 2*page, shrink) }, page, unix.EINVAL},
		{"no size", func() int { return memfd(t, 0, 0, shrink) }, 0, unix.EINVAL},
		{"negative size", func() int { return memfd(t, 0, page, shrink) }, -page, unix.EINVAL},
		{"half a page", func() int { return memfd(t, 0, page/2, shrink) }, page / 2, unix.EINVAL},
		{"pages and a half", func() int { return memfd(t, 0, page*3/2, shrink) }, page * 3 / 2, unix.EINVAL},
		{"a file", func() int {
			name := filepath.Join(t.TempDir(), "file")
			fd := must[int](t)(unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600))
			if err := unix.Ftruncate(fd, page); err != nil {
				t.Fatal(err)
			}
			return fd
		}, page, 0},
		{"a directory", func() int { return must[int](t)(unix.Open("/dev/shm", unix.O_RDONLY|unix.O_CLOEXEC, 0)) }, page, 0},
		{"an eventfd", func() int { return must[int](t)(unix.Eventfd(0, unix.EFD_CLOEXEC)) }, page, unix.EINVAL},
		{"a pipe", func() int {
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			shut(p[0])
			return p[1]
		}, page, unix.EINVAL},
		{"a device", func() int { return must[int](t)(unix.Open("/dev/zero", unix.O_RDWR|unix.O_CLOEXEC, 0)) }, page, 0},
		{"a socket", func() int {
			return must[int](t)(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
		}, page, unix.EINVAL},
		{"nothing", func() int { return -1 }, page, unix.EBADF},
		{"huge pages", func() int {
			fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
			if err != nil {
				t.Logf("no memfd of huge pages here: %v", err)
				return must[int](t)(unix.Eventfd(0, unix.EFD_CLOEXEC))
			}
			if err := unix.Ftruncate(fd, 2<<20); err != nil {
				t.Fatal(err)
			}
			must[int](t)(unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, shrink))
			return fd
		}, 2 << 20, unix.EINVAL},
	}
	for _, c := range cases {
		fd := c.fd()
		m, err := Adopt(fd, c.size)
		if err == nil || m != nil || c.want != 0 && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if strings.HasPrefix(c.name, "sealed") && !strings.Contains(err.Error(), "cannot be written") {
			t.Errorf("%s: %v does not say so", c.name, err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("%s: the descriptor is open yet", c.name)
		}
	}
}

// A process that can write to the memory can free its pages. They then read as zeros, without a fault.
func TestMemoryWithHoles(t *testing.T) {
	page := os.Getpagesize()
	own, fd, err := Create("test", 2*page)
	if err != nil {
		t.Fatal(err)
	}
	defer finish(t, own)
	other := must[int](t)(unix.Dup(fd))
	defer shut(other)
	m, err := Adopt(fd, int64(2*page))
	if err != nil {
		t.Fatal(err)
	}
	defer finish(t, m)
	m.Bytes()[page] = 1
	if err := unix.Fallocate(other, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(2*page)); err != nil {
		t.Fatal(err)
	}
	if m.Bytes()[page] != 0 {
		t.Error("the page is still there")
	}
	m.Bytes()[page] = 2
	if own.Bytes()[page] != 2 {
		t.Error("the memory is not the same any more")
	}
}
