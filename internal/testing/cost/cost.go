// Package cost measures what idle objects cost a process: memory, and goroutines that run.
package cost

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// Memory returns the bytes of live objects on the heap and of the stacks of goroutines, after garbage
// collections. Each collection halves stacks that are mostly unused, so there are several.
func Memory() int64 {
	const collections = 3
	for range collections {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// Bound logs the bytes that each of n objects takes, if all of them take used bytes. It fails the test if
// that is more than most.
func Bound(t testing.TB, what string, used int64, n int, most int64) {
	t.Helper()
	each := used / int64(n)
	t.Logf("%s: %d bytes each, of %d", what, each, n)
	if each > most {
		t.Errorf("%s: %d bytes each, want %d at most", what, each, most)
	}
}

// sampling is the number of times that a goroutine begins to run for each time that the runtime records.
const sampling = 8

// Wakeups returns about how many times goroutines of the process begin to run during f: because a timer
// fires, or for any other reason. The runtime records one of eight such times for each goroutine, with a random
// first one, so the result is a multiple of eight and varies. In a synctest bubble each moment at which a timer
// fires counts one more time, because a goroutine advances the bubble's time.
func Wakeups(f func()) uint64 {
	runtime.GC() // otherwise a collection during f would count
	before := scheduled()
	f()
	return (scheduled() - before) * sampling
}

// scheduled returns how often the runtime has recorded that a goroutine began to run.
func scheduled() (n uint64) {
	s := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(s)
	for _, c := range s[0].Value.Float64Histogram().Counts {
		n += c
	}
	return n
}
