//go:build !linux

package coretest

import "syscall"

// canConfine says whether this system has what Confine needs.
const canConfine = false

// affinity is the processors that the calling thread may run on: nobody knows here.
func affinity() ([]int, error) { return nil, syscall.ENOSYS }
