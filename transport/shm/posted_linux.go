package shm

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// posted is the position up to which lnetd has carried out submissions (transport 9.6). It is in shared
// memory. The head of the submission queue does not show this: lnetd advances it when it has copied the
// entries, before its Core processes them.
//
// A client that waits stores its flag, then loads the counter. lnetd stores the counter, then loads the
// flag. See fences in bell_linux.go for why this order loses no wake-up. The client sleeps on the flag with
// a futex. It cannot sleep on the bell of completions. That belongs to the goroutine that reads
// completions, which may itself be waiting here. lnetd wakes one thread only, so only one thread of a
// client may wait at a time.
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
