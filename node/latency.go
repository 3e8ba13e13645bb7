package node

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Latency summarizes measured latencies. The times are 0 if Samples is 0. Sum is the total of all samples.
type Latency struct {
	Samples       uint64
	Min, Max, Avg time.Duration
	Sum           time.Duration
}

// Layout of a LatencyHistogram. It has four buckets for each factor of two. The bounds are
// those of Prometheus native histograms with schema 2, in seconds, so the counts can be
// exported unchanged. Bucket 0 holds times up to 2^-20 s (0.95 µs). The last bucket also
// holds all times above 2^10 s (17 minutes).
const (
	LatencySchema = 2
	latencyLeast  = -20
	latencyMost   = 10

	// LatencyBuckets is the number of buckets.
	LatencyBuckets = 1 + (latencyMost-latencyLeast)<<LatencySchema
	// LatencyOffset is added to the number of a bucket other than 0 to get its index in a
	// native histogram.
	LatencyOffset = latencyLeast << LatencySchema
)

// LatencyBound returns the upper bound of bucket k in seconds.
func LatencyBound(k int) float64 {
	return math.Exp2(float64(k+LatencyOffset) / (1 << LatencySchema))
}

// LatencyHistogram holds the distribution of latencies. The zero value is empty.
type LatencyHistogram struct {
	Counts   [LatencyBuckets]uint64
	Sum, Max time.Duration
}

// Samples returns the number of latencies.
func (h *LatencyHistogram) Samples() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// 2^(1/4), 2^(2/4) and 2^(3/4) as fractions of 2^63.
const (
	quarter1 = 0x9837f0518db8a96f
	quarter2 = 0xb504f333f9de6484
	quarter3 = 0xd744fccad69d6af4
)

// nsToSeconds is the factor that converts nanoseconds to units of 2^-93 s. It is rounded
// down, so that a time equal to a bucket's bound is counted in that bucket.
const nsToSeconds = 1 << 93 / 1_000_000_000

// latencyBucket returns the number of the bucket for ns nanoseconds. ns must not be
// negative.
func latencyBucket(ns int64) int {
	hi, lo := bits.Mul64(uint64(ns), nsToSeconds)
	e := bits.Len64(hi) - 1 // 2^(e-29) s <= ns
	if e < 29+latencyLeast {
		return 0
	}
	part := hi<<(63-e) | lo>>(e+1)
	_, above1 := bits.Sub64(quarter1, part, 0) // uses the borrow to avoid unpredictable branches
	_, above2 := bits.Sub64(quarter2, part, 0)
	_, above3 := bits.Sub64(quarter3, part, 0)
	k := (e-29-latencyLeast)<<LatencySchema + 1 + int(above1+above2+above3)
	return min(k, LatencyBuckets-1)
}

// extremes holds the sum, the minimum and the maximum of latencies, in nanoseconds.
type extremes struct {
	sum, min, max atomic.Int64 // min is 0 as long as nothing was added
}

func (x *extremes) add(ns int64) {
	x.sum.Add(ns)
	for {
		old := x.min.Load()
		if old != 0 && old <= ns || x.min.CompareAndSwap(old, ns) {
			break
		}
	}
	raise(&x.max, ns)
}

func (x *extremes) reset() {
	x.sum.Store(0)
	x.min.Store(0)
	x.max.Store(0)
}

func (x *extremes) summary(samples uint64) Latency {
	s := Latency{Samples: samples, Min: time.Duration(x.min.Load()), Max: time.Duration(x.max.Load()), Sum: time.Duration(x.sum.Load())}
	if s.Samples > 0 {
		s.Avg = time.Duration(uint64(s.Sum) / s.Samples)
	}
	return s
}

// raise sets a to v if a is lower.
func raise(a *atomic.Int64, v int64) {
	for old := a.Load(); old < v; old = a.Load() {
		if a.CompareAndSwap(old, v) {
			return
		}
	}
}

// latencyStats holds the latencies of a peer NI. Unlike latencyHistogram it has no
// buckets, because a node may have very many peer NIs.
type latencyStats struct {
	samples atomic.Uint64
	extremes
}

func (l *latencyStats) add(ns int64) {
	l.samples.Add(1)
	l.extremes.add(ns)
}

// latencyHistogram holds the latencies of an NI, by bucket.
type latencyHistogram struct {
	counts [LatencyBuckets]atomic.Uint64
	extremes
}

func (h *latencyHistogram) add(ns int64) {
	h.counts[latencyBucket(ns)].Add(1)
	h.extremes.add(ns)
}

func (h *latencyHistogram) samples() (n uint64) {
	for k := range h.counts {
		n += h.counts[k].Load()
	}
	return n
}

func (h *latencyHistogram) reset() {
	for k := range h.counts {
		h.counts[k].Store(0)
	}
	h.extremes.reset()
}

func (h *latencyHistogram) snapshot() (s LatencyHistogram) {
	for k := range h.counts {
		s.Counts[k] = h.counts[k].Load()
	}
	s.Sum, s.Max = time.Duration(h.sum.Load()), time.Duration(h.max.Load())
	return s
}
