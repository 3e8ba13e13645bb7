package shared

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of the futex system call, without FUTEX_PRIVATE_FLAG, because another process uses the word as
// well.
const (
	futexWait = 0
	futexWake = 1
)

// waitFutex blocks the thread while *word is value, until wakeFutex is called or the timeout has passed. It may
// return early, and the caller checks again, whatever the reason is. Go's scheduler takes part in the system call,
// so that other goroutines can run and the garbage collector does not wait.
func waitFutex(word *atomic.Uint32, value uint32, timeout *unix.Timespec) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value), uintptr(unsafe.Pointer(timeout)), 0, 0)
}

// wakeFutex wakes one thread that sleeps on word. It does not block. If the memory is no longer mapped, the
// kernel returns an error, which is ignored.
func wakeFutex(word *atomic.Uint32) {
	_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1)
}
