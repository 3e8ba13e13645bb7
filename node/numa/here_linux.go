package numa

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/selection"
)

// Here returns the CPT of the processor on which the caller is running, or
// selection.UnknownCPT if it is unknown. It costs a system call.
func (m *Machine) Here() int {
	var cpu uint32
	if _, _, err := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); err != 0 {
		return selection.UnknownCPT
	}
	return m.OfCPU(int(cpu))
}

// pageNodes returns the NUMA node of the page at each address. The number is negative if
// the page is not allocated yet. If the kernel rejects the system call, as under a seccomp
// filter, pageNodes returns nil.
func pageNodes(addrs []uintptr) []int {
	status := make([]int32, len(addrs))
	nodes := make([]int, len(addrs))
	_, _, err := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(len(addrs)),
		uintptr(unsafe.Pointer(unsafe.SliceData(addrs))), 0, uintptr(unsafe.Pointer(unsafe.SliceData(status))), 0)
	if err != 0 {
		return nil
	}
	for k, s := range status {
		nodes[k] = int(s)
	}
	return nodes
}
