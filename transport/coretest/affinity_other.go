//go:build !linux

package coretest

import "syscall"

// canConfine reports whether this system supports Confine.
const canConfine = false

// affinity is not supported on this system.
func affinity() ([]int, error) { return nil, syscall.ENOSYS }
