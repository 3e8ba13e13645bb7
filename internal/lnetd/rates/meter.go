package rates

import (
	"slices"
	"time"
)

// Meter computes the rates of the counters of any number of objects. It holds the counters of two samples. A Meter is not
// safe for concurrent use. The zero value has no sample.
type Meter struct {
	last, now map[string][]uint64
	// started and uptime are those of the sample in now.
	started time.Time
	uptime  time.Duration
	seconds float64
}

// Begin begins a sample. The program that has the counters was started at the given time, and has been running for uptime,
// by a clock that is not set. If it was restarted since the last sample, all its counters count from zero.
func (m *Meter) Begin(started time.Time, uptime time.Duration) {
	switch {
	case m.now == nil: // there is no last sample
	case started.Equal(m.started):
		m.seconds = max((uptime - m.uptime).Seconds(), 0)
	default:
		m.seconds = uptime.Seconds()
		clear(m.now)
	}
	m.last, m.now = m.now, make(map[string][]uint64, len(m.now))
	m.started, m.uptime = started, uptime
}

// Seconds returns the time between the sample and the one before in seconds. It is 0 if there is no sample before.
func (m *Meter) Seconds() float64 { return m.seconds }

// Rates adds the counters of an object to the sample, and returns how much each of them has grown per second since the
// last sample. An object that was not in the last sample is new, and its counters count from zero. So do the counters of
// an object of which one has decreased, because they have been reset. The result is 0 for all counters in the first
// sample. The key identifies the object. Rates keeps a copy of counters.
func (m *Meter) Rates(key string, counters []uint64) []float64 {
	old := m.last[key]
	for k := range old {
		if k >= len(counters) || counters[k] < old[k] {
			old = nil
			break
		}
	}
	m.now[key] = slices.Clone(counters)
	rates := make([]float64, len(counters))
	if m.seconds == 0 {
		return rates
	}
	for k, n := range counters {
		if k < len(old) {
			n -= old[k]
		}
		rates[k] = float64(n) / m.seconds
	}
	return rates
}
