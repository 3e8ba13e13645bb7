//go:build !linux

package transport

import "syscall"

// canConfine says whether confine works on this system.
const canConfine = false

// confine has no equivalent here.
func confine([]int) error { return syscall.ENOSYS }
