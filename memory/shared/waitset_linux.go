package shared

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxWaitSet is the maximum number of rings of a WaitSet. The kernel permits 128 words; one of them is the set's
// own.
const MaxWaitSet = 127

// WaitSet lets one thread of lnetd sleep on the flags of several submission rings at a time. Except for Wake, only
// one goroutine may call its methods. A WaitSet must not be copied.
type WaitSet struct {
	words [MaxWaitSet + 1]waitWord
	n     int           // number of words in use; the first one is own
	own   atomic.Uint32 // the flag of Wake, with the values of a bell's flag
	until unix.Timespec // argument of the system call in Sleep
}

// waitWord is an argument of the system call futex_waitv.
type waitWord struct {
	value   uint64
	address uint64
	flags   uint32
	_       uint32
}

// futex32 is the flag of a word of 32 bits that other processes use as well.
const futex32 = 2

// Begin announces that the caller is going to sleep. Between Begin and Sleep, the caller must add the rings and
// check for work.
func (s *WaitSet) Begin() {
	s.own.Store(uint32(onWord))
	s.n = 0
	s.add(&s.own)
}

func (s *WaitSet) add(word *atomic.Uint32) {
	s.words[s.n] = waitWord{value: uint64(onWord), address: uint64(uintptr(unsafe.Pointer(word))), flags: futex32}
	s.n++
}

// Add announces to the client of c that lnetd is going to sleep on its flag. The caller then checks c.Pending. There
// may be at most MaxWaitSet rings. After Sleep, the caller must call Awake for each of them.
func (s *WaitSet) Add(c *SubmissionConsumer) {
	c.bell.sleeps.add(1)
	c.wordSleeps.add(1)
	c.bell.flag.Swap(uint32(onWord)) // Pending loads the tail after this store (see fences)
	s.add(c.bell.flag)
}

// Sleep blocks the thread until a client wakes lnetd, until Wake is called, or until the given time of
// CLOCK_MONOTONIC in nanoseconds. It may return early. It returns false if the kernel does not support such a sleep
// (before Linux 5.16, or forbidden by a filter of system calls).
func (s *WaitSet) Sleep(until int64) (ok bool) {
	s.until = unix.NsecToTimespec(until)
	_, _, e := unix.Syscall6(unix.SYS_FUTEX_WAITV, uintptr(unsafe.Pointer(&s.words)), uintptr(s.n), 0, uintptr(unsafe.Pointer(&s.until)), unix.CLOCK_MONOTONIC, 0)
	return e != unix.ENOSYS && e != unix.EPERM
}

// End announces that the caller is awake.
func (s *WaitSet) End() { s.own.Store(0) }

// Wake ends the Sleep that is in progress, or the next one if Begin has been called. It is safe for concurrent use.
func (s *WaitSet) Wake() {
	if s.own.Load() != 0 && s.own.Swap(0) != 0 {
		wakeFutex(&s.own)
	}
}

// Awake announces to the client that lnetd is awake. It reports whether the client has woken lnetd since Add.
func (c *SubmissionConsumer) Awake() (woken bool) {
	woken = c.bell.flag.Swap(0) != uint32(onWord)
	if woken {
		c.bell.reads.add(1)
	}
	return woken
}

// WaitStats are the statistics of the ways in which a consumer waited.
type WaitStats struct {
	// Polls is how often the consumer polled, and Found how often that found an entry. WordSleeps is the number
	// of those ConsumerStats.Sleeps that were on the flag.
	Polls, Found, WordSleeps uint64
}

// WaitStats returns these statistics since the ring was created. It is safe for concurrent use.
func (c *Consumer) WaitStats() WaitStats {
	return WaitStats{Polls: c.polls.load(), Found: c.found.load(), WordSleeps: c.wordSleeps.load()}
}

// CountPoll counts that the caller has polled the ring, and whether it has found an entry.
func (c *Consumer) CountPoll(found bool) {
	c.polls.add(1)
	if found {
		c.found.add(1)
	}
}

// wordSleepTime is how long a consumer sleeps on its flag at most, before it sleeps at its descriptor.
const wordSleepTime = 20 * time.Millisecond
