package numa

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/selection"
)

// Here is the CPT of the processor that the caller runs on at this moment,
// selection.UnknownCPT if nobody knows. It costs a system call.
func (m *Machine) Here() int {
	var cpu uint32
	if _, _, err := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); err != 0 {
		return selection.UnknownCPT
	}
	return m.OfCPU(int(cpu))
}
