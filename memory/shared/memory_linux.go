package shared

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Memory is a sealed memfd that is mapped for reading and writing. It can neither shrink nor grow, so the
// other process cannot make accesses fault. But any process that can write to it can free its pages, which
// then read as zeros.
type Memory struct {
	mu    sync.Mutex // guards bytes
	bytes []byte
}

// seals are the seals that Create sets.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Create creates zeroed memory of size bytes, rounded up to whole pages. It allocates all pages, so that
// accesses do not fail for lack of memory. name appears in /proc. The caller owns the descriptor fd and can
// pass it to other processes; closing it does not affect the mapping. Create may block while the kernel
// allocates pages. It returns EINVAL if size is less than 1.
func Create(name string, size int) (m *Memory, fd int, err error) {
	if size < 1 {
		return nil, -1, fmt.Errorf("memory of %d bytes: %w", size, unix.EINVAL)
	}
	size = wholePages(size)
	fd, err = newMemfd(name)
	if err != nil {
		return nil, -1, os.NewSyscallError("memfd_create", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
			fd = -1
		}
	}()
	if err := retryEINTR(func() error { return unix.Ftruncate(fd, int64(size)) }); err != nil {
		return nil, fd, os.NewSyscallError("ftruncate", err)
	}
	if err := retryEINTR(func() error { return unix.Fallocate(fd, 0, 0, int64(size)) }); err != nil {
		return nil, fd, os.NewSyscallError("fallocate", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fd, os.NewSyscallError("fcntl F_ADD_SEALS", err)
	}
	m, err = mapped(fd, size)
	return m, fd, err
}

// newMemfd creates an empty memfd that cannot be executed. Kernels before 6.3 do not support this flag; there
// the memfd can be executed.
func newMemfd(name string) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, flags)
	}
	return fd, err
}

// Adopt maps memory that another process has created, with the given size. It always closes fd, and may
// block while it maps. It validates the type, size and seals of the file:
//
//	EPERM   it can shrink, so that accesses might fault; or it cannot be written
//	EACCES  the descriptor is not open for reading and writing
//	EINVAL  it is not a memfd, or has huge pages, whose lack would cause a fault; it has
//	        another size; or the size is not a positive number of whole pages
func Adopt(fd int, size int64) (*Memory, error) {
	defer func() { _ = unix.Close(fd) }()
	found, err := validateDescriptor(fd)
	if err != nil {
		return nil, err
	}
	if found != size {
		return nil, fmt.Errorf("memory has %d bytes, not %d: %w", found, size, unix.EINVAL)
	}
	return mapped(fd, int(size))
}

// validateDescriptor checks that fd is a memfd that Adopt accepts, and returns its size. It checks the seals
// before it calls the file system: only the kernel's own file systems have seals, and others might not
// answer.
func validateDescriptor(fd int) (size int64, err error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return 0, os.NewSyscallError("fcntl F_GETFL", err)
	}
	have, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	switch {
	case flags&unix.O_PATH != 0 || err == nil && flags&unix.O_ACCMODE != unix.O_RDWR:
		return 0, fmt.Errorf("memory is not open for reading and writing: %w", unix.EACCES)
	case err != nil:
		return 0, fmt.Errorf("memory that cannot have seals is no memfd: %w", os.NewSyscallError("fcntl F_GET_SEALS", err))
	}
	switch {
	case have&unix.F_SEAL_SHRINK == 0:
		return 0, fmt.Errorf("memory that can shrink (seals %#x): %w", have, unix.EPERM)
	case have&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0:
		return 0, fmt.Errorf("memory that cannot be written (seals %#x): %w", have, unix.EPERM)
	}
	var fs unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Fstatfs(fd, &fs) }); err != nil {
		return 0, os.NewSyscallError("fstatfs", err)
	}
	if fs.Type != unix.TMPFS_MAGIC {
		return 0, fmt.Errorf("memory on a file system of type %#x, not a memfd of small pages: %w", fs.Type, unix.EINVAL)
	}
	var stat unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(fd, &stat) }); err != nil {
		return 0, os.NewSyscallError("fstat", err)
	}
	if page := int64(os.Getpagesize()); stat.Size < page || stat.Size%page != 0 {
		return 0, fmt.Errorf("memory of %d bytes, not of whole pages: %w", stat.Size, unix.EINVAL)
	}
	return stat.Size, nil
}

// mapped maps size bytes of a memfd.
func mapped(fd, size int) (*Memory, error) {
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &Memory{bytes: b}, nil
}

// Bytes returns the whole memory, which begins at a page boundary. It returns nil after Close. The caller
// must not use the slice after Close.
func (m *Memory) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// Close unmaps the memory. Further calls have no effect.
func (m *Memory) Close() error {
	m.mu.Lock()
	b := m.bytes
	m.bytes = nil
	m.mu.Unlock()
	if b == nil {
		return nil
	}
	return os.NewSyscallError("munmap", unix.Munmap(b))
}

// wholePages rounds n up to a multiple of the page size.
func wholePages(n int) int {
	page := os.Getpagesize()
	return (n + page - 1) / page * page
}

// retryEINTR calls f again while a signal interrupts it, and returns the final error.
func retryEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
