package remote

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const readWrite = unix.PROT_READ | unix.PROT_WRITE

// private reports whether all memory between two addresses is private, anonymous and writable, so
// that no file and no other process loses it when other pages take its place.
func private(from, to uintptr) bool {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); from < to && lines.Scan(); {
		var first, end uintptr
		var rights, offset, device string
		var inode uint64
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %d", &first, &end, &rights, &offset, &device, &inode); err != nil {
			return false
		}
		if end <= from {
			continue
		}
		if first > from || rights != "rw-p" || inode != 0 || strings.Contains(lines.Text(), "[stack") {
			return false
		}
		from = end
	}
	return from >= to
}

// mapOver has the pages of b be those of a file, which have the same content, in one step.
func mapOver(b []byte, fd int, offset int64) error {
	// unix.MmapPtr makes a pointer of the result, which the race detector takes for one beyond b.
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		readWrite, unix.MAP_SHARED|unix.MAP_FIXED, uintptr(fd), uintptr(offset))
	if errno != 0 {
		return os.NewSyscallError("mmap", errno)
	}
	return nil
}

// mapPrivate has the pages of b be private ones with the same content, in one step.
func mapPrivate(b []byte) error {
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
