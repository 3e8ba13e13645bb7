package transport

import (
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// confine gives the calling goroutine a thread that runs on these processors alone. The
// goroutine keeps it: when it ends, the thread does.
func confine(processors []int) error {
	var set unix.CPUSet
	for _, p := range processors {
		if p >= 0 {
			set.Set(p)
		}
		if p < 0 || !set.IsSet(p) {
			return fmt.Errorf("no processor %d: %w", p, syscall.EINVAL)
		}
	}
	runtime.LockOSThread()
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	var got unix.CPUSet
	if err := unix.SchedGetaffinity(0, &got); err != nil {
		return err
	}
	if got != set { // the kernel leaves out what is not to be had
		return fmt.Errorf("%d of %d are to be had: %w", got.Count(), set.Count(), syscall.EINVAL)
	}
	return nil
}
