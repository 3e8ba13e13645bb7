package shm

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// posted is the position up to which lnetd has carried out submissions, in shared memory (transport 9.6).
// SQ head is not sufficient, because lnetd stores it after copying the entries, before its Core begins with
// them.
//
// A client that waits uses the same order as a sleeper (see fences): it stores its flag, then loads the
// counter; lnetd stores the counter, then loads the flag. The client sleeps on the flag by futex. It cannot
// use the bell of completions, which belongs to the goroutine that reads completions; that may be the one
// waiting here. lnetd wakes one thread only, so only one thread of a client may wait at a time.
type posted struct {
	count   *atomic.Uint32 // written by lnetd
	waiting *atomic.Uint32 // 1: the client sleeps, or is about to
	timeout unix.Timespec  // of sleep
}

func (p *posted) attach(b []byte) { p.count, p.waiting = word(b, offSQPosted), word(b, offSQWaiting) }

// store stores the counter, and reports whether the client must be woken.
func (p *posted) store(n uint32) bool {
	p.count.Swap(n)
	return p.waiting.Load() != 0 && p.waiting.Swap(0) != 0
}

// reached reports whether the counter has reached a position.
func (p *posted) reached(position uint32) bool { return int32(p.count.Load()-position) >= 0 }

func (p *posted) prepareSleep() { p.waiting.Swap(1) }

// sleep blocks until the flag is 0, but at most for d.
func (p *posted) sleep(d time.Duration) {
	p.timeout = unix.NsecToTimespec(int64(d))
	// The caller checks again, whatever the result is.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(p.waiting)), futexWait, 1, uintptr(unsafe.Pointer(&p.timeout)), 0, 0)
}

// wake wakes one thread that sleeps on the flag. If the memory is no longer mapped, the kernel returns an
// error, which is ignored.
func (p *posted) wake() {
	_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(p.waiting)), futexWake, 1)
}

// Operations of the futex system call. They do not include FUTEX_PRIVATE_FLAG, because the word is shared
// with another process.
const (
	futexWait = 0
	futexWake = 1
)
