package soak

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"
)

// Sample has the resources in use by a process, and counters of its work, at one time.
type Sample struct {
	At          time.Duration // since the start
	Live        uint64        // heap: bytes that are reachable after a garbage collection
	Sinks       uint64        // bytes of Live that are memory for GETs
	Heap        uint64        // heap: bytes in use, including garbage and free room between objects
	Resident    uint64        // bytes of resident memory, according to the kernel
	Goroutines  int
	Descriptors int
	Done        uint64 // successful operations
	Parked      int    // number of operations in progress whose answer is probably lost
	Kills       uint64
}

// withoutSinks subtracts the memory for GETs from n bytes and returns the rest in KiB. That memory is
// kept for reuse, so it depends on the largest number of GETs that were ever in progress, which may grow
// late in a run.
func (s *Sample) withoutSinks(n uint64) uint64 { return (n - min(n, s.Sinks)) >> 10 }

// takeSample returns a sample of this process. It collects garbage first, so that Live is current.
func takeSample(at time.Duration) Sample {
	runtime.GC()
	m := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(m)
	return Sample{
		At:          at,
		Live:        m[0].Value.Uint64(),
		Heap:        m[1].Value.Uint64() + m[2].Value.Uint64(),
		Resident:    residentBytes(),
		Goroutines:  runtime.NumGoroutine(),
		Descriptors: descriptors(),
	}
}

// trend is the use of a resource at the beginning and at the end of a run.
type trend struct {
	name        string
	first, last uint64
	unit        string
	// slack is how far last may exceed first, in addition to an eighth of first.
	slack uint64
}

func (t trend) flat() bool { return t.last <= t.first+t.first/8+t.slack }

func (t trend) String() string {
	return fmt.Sprintf("%s: first quarter %d %s, last quarter %d %s", t.name, t.first, t.unit, t.last, t.unit)
}

// trendsMin is the minimum number of samples after the warm-up for trends.
const trendsMin = 16

// trends compares the medians of the first and the last quarter of the samples after the warm-up.
// It returns nil if there are too few.
func trends(samples []Sample, warmUp time.Duration) []trend {
	k := slices.IndexFunc(samples, func(s Sample) bool { return s.At >= warmUp })
	if k < 0 || len(samples)-k < trendsMin {
		return nil
	}
	samples = samples[k:]
	quarter := len(samples) / 4
	first, last := samples[:quarter], samples[len(samples)-quarter:]
	of := func(name, unit string, slack uint64, figure func(s *Sample) uint64) trend {
		return trend{name: name, unit: unit, slack: slack, first: median(first, figure), last: median(last, figure)}
	}
	return []trend{
		of("live heap but sinks", "KiB", 4<<10, func(s *Sample) uint64 { return s.withoutSinks(s.Live) }),
		of("heap in use but sinks", "KiB", 8<<10, func(s *Sample) uint64 { return s.withoutSinks(s.Heap) }),
		of("resident but sinks", "KiB", 8<<10, func(s *Sample) uint64 { return s.withoutSinks(s.Resident) }),
		of("goroutines", "", 8, func(s *Sample) uint64 { return uint64(s.Goroutines) }),
		of("descriptors", "", 8, func(s *Sample) uint64 { return uint64(s.Descriptors) }),
	}
}

func median(samples []Sample, figure func(s *Sample) uint64) uint64 {
	v := make([]uint64, len(samples))
	for k := range samples {
		v[k] = figure(&samples[k])
	}
	slices.Sort(v)
	return v[len(v)/2]
}
