package latency

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Adjacent buckets have no gap between them, contain their own bounds, and are narrow.
func TestBucketsJoin(t *testing.T) {
	for k := range Buckets {
		from, to := Bounds(k)
		if to <= from {
			t.Fatalf("bucket %d: %v to %v", k, from, to)
		}
		if bucket(from) != k || k < Buckets-1 && bucket(to-1) != k {
			t.Fatalf("bucket %d: %v is in %d, %v in %d", k, from, bucket(from), to-1, bucket(to-1))
		}
		if k > 0 && float64(to)/float64(from) > 1.126 {
			t.Errorf("bucket %d is %v to %v", k, from, to)
		}
	}
	if k := bucket(math.MaxInt64); k != Buckets-1 {
		t.Errorf("the longest is in bucket %d", k)
	}
}

// Given random durations, then a quantile is at most an eighth more than that of the sorted list, and
// merging does not change it.
func TestQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 1, 200).Draw(t, "durations")
		var all Recorder
		var halves [2]Recorder
		for k, d := range list {
			all.Record(time.Duration(d))
			halves[k%2].Record(time.Duration(d))
		}
		var h, merged, other Histogram
		all.AddTo(&h)
		halves[0].AddTo(&merged)
		halves[1].AddTo(&other)
		merged.Merge(&other)
		if diff := cmp.Diff(h, merged); diff != "" {
			t.Fatal(diff)
		}
		slices.Sort(list)
		for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
			want := time.Duration(list[max(0, int(math.Ceil(q*float64(len(list))))-1)])
			if got := h.Quantile(q); got < want || got > max(want+want/8, 1024) {
				t.Fatalf("quantile %v: %v, want %v", q, got, want)
			}
		}
		if h.Quantile(1) != h.Max || h.Count() != uint64(len(list)) {
			t.Fatalf("maximum %v, of %d", h.Max, h.Count())
		}
	})
}

// Extreme durations and an empty histogram cause no errors.
func TestEdges(t *testing.T) {
	var empty Histogram
	if empty.Quantile(0.5) != 0 || empty.Mean() != 0 || empty.Count() != 0 {
		t.Error("an empty histogram has figures")
	}
	var r Recorder
	r.Record(-time.Second)
	r.Record(math.MaxInt64)
	var h Histogram
	r.AddTo(&h)
	if h.Counts[0] != 1 || h.Counts[Buckets-1] != 1 || h.Quantile(1) != math.MaxInt64 || h.Quantile(math.NaN()) < 0 {
		t.Errorf("%+v", h)
	}
}

// Record allocates nothing.
func TestRecordDoesNotAllocate(t *testing.T) {
	var r Recorder
	if n := testing.AllocsPerRun(100, func() { r.Record(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Given several goroutines that record at the same time, then no duration is lost.
func TestRecordersAreShared(t *testing.T) {
	const each, several = 500_000, 4
	var r Recorder
	var all sync.WaitGroup
	for k := range several {
		all.Go(func() {
			for n := range each {
				r.Record(time.Duration(n*several + k))
			}
		})
	}
	all.Wait()
	var h Histogram
	r.AddTo(&h)
	const total = several * each
	if h.Count() != total || h.Sum != total*(total-1)/2 || h.Max != total-1 {
		t.Errorf("%d recorded, sum %d, longest %d", h.Count(), h.Sum, h.Max)
	}
}
