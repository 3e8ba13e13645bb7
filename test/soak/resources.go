package soak

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"
)

// Sample is the resource use of a process, and its work, at one moment.
type Sample struct {
	At          time.Duration // since the start
	Live        uint64        // heap: bytes that are reachable after a collection
	Sinks       uint64        // memory for GETs among them: depends on how many have waited at once
	Heap        uint64        // heap: bytes in spans in use
	Resident    uint64        // bytes, according to the kernel
	Goroutines  int
	Descriptors int
	Done        uint64 // successful operations
	Parked      int    // operations whose answer is lost
	Kills       uint64
}

// butSinks returns a number of bytes without the sinks, in KiB. The number of sinks is the largest
// number of answers that were ever missing at once, which may grow late in a run.
func (s *Sample) butSinks(n uint64) uint64 { return (n - min(n, s.Sinks)) >> 10 }

// look takes a sample of the process. It collects garbage first, so that Live is the current value.
func look(at time.Duration) Sample {
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

// trend is a value at the beginning and at the end of a run.
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
		of("live heap but sinks", "KiB", 4<<10, func(s *Sample) uint64 { return s.butSinks(s.Live) }),
		of("heap in use but sinks", "KiB", 8<<10, func(s *Sample) uint64 { return s.butSinks(s.Heap) }),
		of("resident but sinks", "KiB", 8<<10, func(s *Sample) uint64 { return s.butSinks(s.Resident) }),
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
