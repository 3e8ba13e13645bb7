package transport

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// canConfine says whether confine works on this system.
const canConfine = true

// confine gives the calling goroutine a thread that runs on these processors alone. The
// goroutine keeps it: when it ends, the thread does. The kernel leaves out processors that
// are not to be had, and refuses if none is left.
func confine(processors []int) error {
	var set unix.CPUSet
	for _, p := range processors {
		if p >= 0 {
			set.Set(p) // does nothing if there can be none
		}
	}
	runtime.LockOSThread()
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("no processor of %d: %w", processors, err)
	}
	return nil
}
