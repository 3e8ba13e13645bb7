package polling

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Rules for the whole process.
const (
	// longYield is the duration of a yield that shows that other threads need the processor. The process does
	// not poll for restTime then, because the kernel resumes a sleeping thread sooner than a yielding one.
	longYield = 50 * time.Microsecond
	restTime  = 100 * time.Millisecond
)

var (
	started   = time.Now()
	restUntil atomic.Int64 // when the last rest ends, in nanoseconds after started
	pollers   atomic.Int32 // places that Acquire has given
)

// Resting reports whether goroutines must not poll at the time now, because the processors are busy.
func Resting(now time.Time) bool { return int64(now.Sub(started)) < restUntil.Load() }

// rest begins a rest at the time now.
func rest(now time.Time) { restUntil.Store(int64(now.Sub(started) + restTime)) }

// Acquire acquires one of the places of the process for a goroutine that polls, or that sleeps in the kernel and so
// keeps a processor from other goroutines for a while. The goroutine must call Release afterwards. Acquire returns
// false if there is no place: there is one less than processors (GOMAXPROCS).
func Acquire() bool {
	if int(pollers.Add(1)) < runtime.GOMAXPROCS(0) {
		return true
	}
	pollers.Add(-1)
	return false
}

// Release returns the place that Acquire has given.
func Release() { pollers.Add(-1) }

// Yield lets other threads, including those of other processes, run on this processor. A goroutine calls it between
// polls, because the other side may need the processor. It returns false, and begins a rest, if other threads need the
// processors, so that the caller should stop polling.
func Yield() bool {
	_, ok := yield(time.Now())
	return ok
}

// yield is Yield at the time before. It also returns the time afterwards.
func yield(before time.Time) (after time.Time, ok bool) {
	// Without a notice to Go's scheduler, which would wake a thread. It cannot fail.
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	after = time.Now()
	if after.Sub(before) <= longYield {
		return after, true
	}
	rest(after)
	return after, false
}
