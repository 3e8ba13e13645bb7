package shared

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// posted is the position up to which lnetd has carried out submissions (transport 9.6). It is in shared
// memory. The head of the submission ring does not show this: lnetd advances the head when it has copied the
// entries, before it carries them out.
//
// A client that waits stores its flag, then loads the counter. lnetd stores the counter, then loads the flag.
// Because of this order no wake-up is lost; see fences in bell_linux.go. The client sleeps on the flag with a
// futex. It cannot use the bell of completions: that belongs to the goroutine that reads completions, which
// may itself be waiting here. lnetd wakes only one thread, so only one thread of a client may wait at a time.
type posted struct {
	count   *atomic.Uint32 // written by lnetd
	waiting *atomic.Uint32 // the flag; 1: the client sleeps, or is about to
	timeout unix.Timespec  // argument of the system call in sleep
}

func (p *posted) attach(b []byte) { p.count, p.waiting = word(b, offSQPosted), word(b, offSQWaiting) }

// store sets the counter to n, and reports whether the caller must wake the client.
func (p *posted) store(n uint32) bool {
	p.count.Swap(n)
	return p.waiting.Load() != 0 && p.waiting.Swap(0) != 0
}

// reached reports whether lnetd has carried out all submissions before position.
func (p *posted) reached(position uint32) bool { return int32(p.count.Load()-position) >= 0 }

func (p *posted) prepareSleep() { p.waiting.Swap(1) }

// sleep blocks the thread until the flag is 0, but at most for d.
func (p *posted) sleep(d time.Duration) {
	p.timeout = unix.NsecToTimespec(int64(d))
	waitFutex(p.waiting, 1, &p.timeout)
}

// wake wakes one thread that sleeps on the flag. It has no effect if the memory is no longer mapped.
func (p *posted) wake() { wakeFutex(p.waiting) }
