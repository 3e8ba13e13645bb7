package node

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every latency is in the bucket whose bounds enclose it. An upper bound itself is in the
// bucket that ends there.
func TestLatencyBuckets(t *testing.T) {
	for ns, want := range map[int64]int{
		0: 0, 1: 0, 953: 0, 954: 1, 1134: 1, 1135: 2,
		int64(time.Second):     20 << LatencySchema,
		int64(time.Second) + 1: 20<<LatencySchema + 1,
		int64(time.Second) / 2: 19 << LatencySchema,
		4 * int64(time.Second): 22 << LatencySchema,
		int64(1024 * 1e9):      LatencyBuckets - 1,
		math.MaxInt64:          LatencyBuckets - 1,
	} {
		if got := latencyBucket(ns); got != want {
			t.Errorf("%d ns: bucket %d, want %d", ns, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64Range(0, int64(1024*time.Second)).Draw(t, "ns")
		k, s := latencyBucket(ns), float64(ns)/1e9
		const slack = 1e-12 // for the rounding of both
		if s > LatencyBound(k)*(1+slack) || k > 0 && s < LatencyBound(k-1)*(1-slack) {
			t.Fatalf("%d ns: bucket %d, up to %g s", ns, k, LatencyBound(k))
		}
	})
}

// The summary of a histogram equals that of the latencies of a peer NI.
func TestLatencyHistogram(t *testing.T) {
	var h latencyHistogram
	var l latencyStats
	for _, ns := range []int64{1, 1000, 1e6, 1e6, 1e9, 1e13} {
		h.add(ns)
		l.add(ns)
	}
	if got, want := h.summary(h.samples()), l.summary(l.samples.Load()); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	s := h.snapshot()
	if s.Samples() != 6 || s.Counts[0] != 1 || s.Counts[LatencyBuckets-1] != 1 || s.Max != 1e13 || s.Sum != 1+1000+2e6+1e9+1e13 {
		t.Errorf("%+v", s)
	}
	h.reset()
	if s := h.snapshot(); s != (LatencyHistogram{}) {
		t.Errorf("after the reset: %+v", s)
	}
}

func BenchmarkLatencyBucket(b *testing.B) {
	ns, sum := int64(1), 0
	for b.Loop() {
		sum += latencyBucket(ns)
		ns = ns*7 + 1
		ns &= 1<<36 - 1
	}
	_ = sum
}
