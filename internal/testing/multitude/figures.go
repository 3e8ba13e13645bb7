package multitude

import (
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/load/scale"
)

// meter measures what an event costs. Memory is that of the whole process. The garbage collector does not run
// meanwhile: whether a collection, which visits the memory of all nodes, begins within a short event is
// chance.
type meter struct {
	w        *world
	percent  int // of the garbage collector, before it was switched off
	cpu      time.Duration
	allocs   uint64
	messages int64
	busiest  int64
	at       time.Time
}

// begin starts to measure an event. The caller must call end.
func (w *world) begin() *meter {
	runtime.GC() // ends a collection that has begun
	percent := debug.SetGCPercent(-1)
	return &meter{
		w: w, percent: percent, cpu: processorTime(), allocs: allocations(),
		messages: w.mesh.messages.Load(), busiest: w.busiest(), at: time.Now(),
	}
}

// end returns the costs of the event, which ended at the given time.
func (m *meter) end(event string, ended time.Time) scale.Event {
	n := float64(len(m.w.clients))
	e := scale.Event{
		Name:     event,
		Messages: float64(m.w.mesh.messages.Load()-m.messages) / n,
		Busiest:  float64(m.w.busiest()-m.busiest) / n,
		CPU:      float64((processorTime() - m.cpu).Nanoseconds()) / n / 1000,
		Allocs:   float64(allocations()-m.allocs) / n,
		Quiet:    ended.Sub(m.at).Seconds(),
	}
	debug.SetGCPercent(m.percent)
	return e
}

// allocations returns the number of objects that this process has allocated on the heap.
func allocations() uint64 {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.Mallocs
}

// busiest returns the number of messages that the servers and gateways have received.
func (w *world) busiest() (n int64) {
	for _, p := range w.central {
		n += p.received.Load()
	}
	return n
}

// processorTime returns the user and system time of this process.
func processorTime() time.Duration {
	var at unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &at) != nil {
		return 0
	}
	return time.Duration(at.Nano())
}

// memoryInUse returns the bytes of heap and stacks of this process. The first garbage collection releases
// stacks and pools, the second what they referred to.
func memoryInUse() float64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc + s.StackInuse)
}
