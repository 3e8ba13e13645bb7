package shm

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// posted is how far lnetd has carried out submissions, in shared memory (transport 9.6). SQ
// head does not say it: lnetd stores that when it has copied the entries, before its Core has
// begun with them.
//
// A client that waits uses the same order as a sleeper (see fences): it stores its flag, then
// loads the counter; lnetd stores the counter, then loads the flag. It sleeps on the flag by
// futex, since the bell of completions belongs to the goroutine that takes those out, which may
// be the one that waits here. lnetd wakes one thread only, so a client lets one wait at a time.
type posted struct {
	count   *atomic.Uint32 // written by lnetd
	waiting *atomic.Uint32 // 1: the client sleeps, or is about to
	timeout unix.Timespec  // of sleep
}

func (p *posted) attach(b []byte) { p.count, p.waiting = word(b, offSQPosted), word(b, offSQWaiting) }

// mark stores the counter, and reports whether the client must be woken.
func (p *posted) mark(n uint32) bool {
	p.count.Swap(n)
	return p.waiting.Load() != 0 && p.waiting.Swap(0) != 0
}

// reached reports whether the counter is at a position, or behind it.
func (p *posted) reached(position uint32) bool { return int32(p.count.Load()-position) >= 0 }

func (p *posted) prepare() { p.waiting.Swap(1) }

// sleep blocks until the flag is 0, or for d.
func (p *posted) sleep(d time.Duration) {
	p.timeout = unix.NsecToTimespec(int64(d))
	// Whatever it returns, the caller looks again.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(p.waiting)), futexWait, 1, uintptr(unsafe.Pointer(&p.timeout)), 0, 0)
}

// wake wakes one thread that sleeps on the flag. The kernel takes an address that is not mapped
// for an error, so the memory may be gone.
func (p *posted) wake() {
	_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(p.waiting)), futexWake, 1)
}

// Operations of the futex system call. They lack FUTEX_PRIVATE_FLAG, since the word is shared
// with another process.
const (
	futexWait = 0
	futexWake = 1
)
