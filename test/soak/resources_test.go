package soak

import (
	"testing"
	"time"
)

func TestGrowthIsFound(t *testing.T) {
	steady := Sample{Live: 30 << 20, Heap: 40 << 20, Resident: 60 << 20, Goroutines: 20, Descriptors: 15}
	for _, c := range []struct {
		name string
		grow func(s *Sample, k int)
		want string
	}{
		{"steady", func(*Sample, int) {}, ""},
		{"noise", func(s *Sample, k int) { s.Live += uint64(k%7) << 20 }, ""},
		{"live heap", func(s *Sample, k int) { s.Live += uint64(k) << 18 }, "live heap but sinks"},
		{"sinks", func(s *Sample, k int) {
			s.Sinks = uint64(k) << 20
			s.Live, s.Heap, s.Resident = s.Live+s.Sinks, s.Heap+s.Sinks, s.Resident+s.Sinks
		}, ""},
		{"resident memory", func(s *Sample, k int) { s.Resident += uint64(k) << 19 }, "resident but sinks"},
		{"goroutines", func(s *Sample, k int) { s.Goroutines += k / 2 }, "goroutines"},
		{"descriptors", func(s *Sample, k int) { s.Descriptors += k / 2 }, "descriptors"},
	} {
		var samples []Sample
		for k := range 60 {
			s := steady
			s.At = time.Duration(k) * time.Second
			c.grow(&s, k)
			samples = append(samples, s)
		}
		found := ""
		for _, x := range trends(samples, 10*time.Second) {
			if !x.flat() {
				found += x.name
			}
		}
		if found != c.want {
			t.Errorf("%s: %q grows, want %q", c.name, found, c.want)
		}
		if trends(samples, 50*time.Second) != nil {
			t.Errorf("%s: trends from too few samples", c.name)
		}
	}
}
