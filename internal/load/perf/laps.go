package perf

import (
	"time"

	"github.com/lnetd/lnetd/internal/load/tracing/timeline"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/selftest/latency"
)

// laps are the times at which the exchanges of a round ended. A nil *laps records nothing. It must not be used
// concurrently, so exchanges that overlap are not recorded.
type laps struct {
	base time.Time
	at   []time.Duration // since base: the start of the round, then the end of each exchange
}

// newLaps returns a record with room for n exchanges.
func newLaps(n int) *laps { return &laps{base: time.Now(), at: make([]time.Duration, 0, n+1)} }

// start records the start of a round, and discards the previous one.
func (l *laps) start() {
	if l != nil {
		l.at = append(l.at[:0], time.Since(l.base))
	}
}

// add records the end of an exchange, with which the next one begins.
func (l *laps) add() {
	if l != nil {
		l.at = append(l.at, time.Since(l.base))
	}
}

// windows returns the time of each exchange as readings of CLOCK_MONOTONIC.
func (l *laps) windows(c shared.Clock) (list []timeline.Window) {
	zero := c.Reading(l.base)
	for k := range len(l.at) - 1 {
		list = append(list, timeline.Window{Start: zero + int64(l.at[k]), End: zero + int64(l.at[k+1])})
	}
	return list
}

// histogram returns the times of the exchanges, or nil if none were recorded.
func (l *laps) histogram() *latency.Histogram {
	if l == nil || len(l.at) < 2 {
		return nil
	}
	var r latency.Recorder
	for k := range len(l.at) - 1 {
		r.Record(l.at[k+1] - l.at[k])
	}
	h := &latency.Histogram{}
	r.AddTo(h)
	return h
}

// Latency has percentiles of the times of exchanges in microseconds, over all rounds. They are rounded up by at
// most 12.5 %, and times below 1.024 µs to 1.023 µs.
type Latency struct {
	P50  float64 `json:"p50_us"`
	P90  float64 `json:"p90_us"`
	P99  float64 `json:"p99_us"`
	P999 float64 `json:"p99_9_us"`
	Max  float64 `json:"max_us"`
}

// latencyOf returns the percentiles of a histogram, or nil if it is empty.
func latencyOf(h *latency.Histogram) *Latency {
	if h.Count() == 0 {
		return nil
	}
	at := func(q float64) float64 { return h.Quantile(q).Seconds() * 1e6 }
	return &Latency{P50: at(0.5), P90: at(0.9), P99: at(0.99), P999: at(0.999), Max: at(1)}
}
