package transport

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// canConfine reports whether confine works on this system.
const canConfine = true

// confine locks the calling goroutine to a thread that runs only on these processors. The thread ends with
// the goroutine. Unavailable processors are ignored. confine returns EINVAL if all are unavailable.
func confine(processors []int) error {
	var set unix.CPUSet
	for _, p := range processors {
		if p >= 0 {
			set.Set(p) // no effect if p is out of range
		}
	}
	runtime.LockOSThread()
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("none of the processors %d can be used: %w", processors, err)
	}
	return nil
}
