package rates_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/rates"
)

// Given samples of the counters of objects that appear, are reset and vanish, and of a program that restarts, each rate
// is what was counted since the sample before, or since the object or the program exists.
func TestMeter(t *testing.T) {
	first := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	second := first.Add(time.Hour)
	type object map[string][]uint64
	type growth map[string][]float64
	samples := []struct {
		name    string
		started time.Time
		uptime  time.Duration
		objects object
		seconds float64
		want    growth
	}{
		{"first", first, 10 * time.Second, object{"a": {100, 7}}, 0, growth{"a": {0, 0}}},
		{"grown, and new", first, 12 * time.Second, object{"a": {110, 7}, "b": {4}}, 2, growth{"a": {5, 0}, "b": {2}}},
		{"reset, and vanished", first, 13 * time.Second, object{"a": {3, 8}}, 1, growth{"a": {3, 8}}},
		{"back", first, 13*time.Second + 500*time.Millisecond, object{"a": {3, 8}, "b": {2}}, 0.5, growth{"a": {0, 0}, "b": {4}}},
		{"restarted", second, 4 * time.Second, object{"a": {8, 12}}, 4, growth{"a": {2, 3}}},
		{"other counters", second, 5 * time.Second, object{"a": {9}}, 1, growth{"a": {9}}},
		{"no time has passed", second, 5 * time.Second, object{"a": {10}}, 0, growth{"a": {0}}},
		{"more counters", second, 6 * time.Second, object{"a": {11, 5}}, 1, growth{"a": {1, 5}}},
	}
	var m rates.Meter
	for _, s := range samples {
		m.Begin(s.started, s.uptime)
		got := growth{}
		for key, counters := range s.objects {
			got[key] = m.Rates(key, counters)
		}
		if diff := cmp.Diff(s.want, got); diff != "" || m.Seconds() != s.seconds {
			t.Errorf("%s, %v s: %s", s.name, m.Seconds(), diff)
		}
	}
}

// A sample may be given the slice of the one before, because a Meter keeps copies.
func TestMeterKeepsCopies(t *testing.T) {
	var m rates.Meter
	counters := []uint64{1}
	m.Begin(time.Time{}, time.Second)
	m.Rates("a", counters)
	counters[0] = 5
	m.Begin(time.Time{}, 2*time.Second)
	if got := m.Rates("a", counters); got[0] != 4 {
		t.Errorf("%v", got)
	}
}
