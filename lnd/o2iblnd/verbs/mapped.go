package verbs

import "syscall"

// Map returns zeroed memory outside of Go's heap. If huge is set, it uses huge pages if the system has any. The
// caller frees the memory with syscall.Munmap. Map is for implementations of Device.Alloc.
func Map(size int, huge bool) ([]byte, error) {
	const (
		access = syscall.PROT_READ | syscall.PROT_WRITE
		flags  = syscall.MAP_PRIVATE | syscall.MAP_ANON
	)
	if huge {
		if b, err := syscall.Mmap(-1, 0, size, access, flags|syscall.MAP_HUGETLB); err == nil {
			return b, nil
		}
	}
	b, err := syscall.Mmap(-1, 0, size, access, flags)
	return b, Wrap(err, "map %d bytes", size)
}
