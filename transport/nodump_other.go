//go:build !linux

package transport

import "syscall"

// canHide reports whether memory can be excluded from core dumps.
const canHide = false

// hide and unhide are not supported on this system.
func hide([]byte) error { return syscall.ENOSYS }
func unhide([]byte)     {}
