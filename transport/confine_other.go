//go:build !linux

package transport

import "syscall"

// canConfine reports whether confine works on this system.
const canConfine = false

// confine is not supported on this system.
func confine([]int) error { return syscall.ENOSYS }
