package remote

import (
	"bufio"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const readWrite = unix.PROT_READ | unix.PROT_WRITE

// privatePages reports whether all memory between two addresses is private, anonymous and writable. Only then
// can other pages replace it without affecting a file or another process.
func privatePages(from, to uintptr) bool {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); from < to && lines.Scan(); {
		m := strings.Fields(lines.Text()) // range, rights, offset, device, inode, name
		first, end, err := parseRange(m)
		if err != nil {
			return false
		}
		if end <= from {
			continue
		}
		if first > from || m[1] != "rw-p" || m[4] != "0" || len(m) > 5 && strings.HasPrefix(m[5], "[stack") {
			return false
		}
		from = end
	}
	return from >= to
}

// parseRange parses the address range in a line of /proc/self/maps, given the fields of the line.
func parseRange(fields []string) (first, end uintptr, err error) {
	if len(fields) < 5 {
		return 0, 0, syscall.EINVAL
	}
	from, to, _ := strings.Cut(fields[0], "-")
	a, err := strconv.ParseUint(from, 16, 64)
	b, err2 := strconv.ParseUint(to, 16, 64)
	return uintptr(a), uintptr(b), errors.Join(err, err2)
}

// replacePages atomically replaces the pages of b by pages of a file that have the same content.
func replacePages(b []byte, fd int, offset int64) error {
	// unix.MmapPtr would convert the result to a pointer, and the race detector would report that it points
	// outside of b.
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		readWrite, unix.MAP_SHARED|unix.MAP_FIXED, uintptr(fd), uintptr(offset))
	if errno != 0 {
		return os.NewSyscallError("mmap", errno)
	}
	return nil
}

// restorePrivate atomically replaces the pages of b by private pages with the same content. It reverts
// replacePages.
func restorePrivate(b []byte) error {
	n := uintptr(len(b))
	fresh, err := unix.MmapPtr(-1, 0, nil, n, readWrite, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	copy(unsafe.Slice((*byte)(fresh), len(b)), b)
	_, _, errno := unix.Syscall6(unix.SYS_MREMAP, uintptr(fresh), n, n, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED,
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), 0)
	if errno != 0 {
		_ = unix.MunmapPtr(fresh, n)
		return os.NewSyscallError("mremap", errno)
	}
	return nil
}
