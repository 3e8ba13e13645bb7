package figures

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/selftest/latency"
)

// Given series with known statistics, when they are summed, then average and deviation are correct.
//
// transport 10.3 statistics
func TestSumsOfKnownSeries(t *testing.T) {
	var durations []uint64
	for k := range uint64(5) {
		durations = append(durations, uint64(500*time.Millisecond)+k*uint64(time.Second))
	}
	for _, c := range []struct {
		name            string
		samples         []uint64
		mean, deviation float64
	}{
		{"none", nil, 0, 0},
		{"one", []uint64{7}, 7, 0},
		{"1 to 5", []uint64{1, 2, 3, 4, 5}, 3, 1.58113883},
		{"0.5 s to 4.5 s", durations, 2.5e9, 1.58113883e9},
		{"two of the largest and 0", []uint64{math.MaxUint64, math.MaxUint64, 0}, 2. / 3 * math.MaxUint64, 1.0650232656628343e19},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Sums
			for _, v := range c.samples {
				s.Add(v)
			}
			if near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-8*max(b, 1) }; !near(s.Mean(), c.mean) ||
				!near(s.Deviation(), c.deviation) {
				t.Errorf("mean %v, deviation %v; want %v, %v", s.Mean(), s.Deviation(), c.mean, c.deviation)
			}
			if s.Count != uint64(len(c.samples)) {
				t.Errorf("count %d", s.Count)
			}
		})
	}
}

// Given a million samples of the largest number, when they are summed, then the average is that number
// and the deviation is 0, because nothing has overflowed.
//
// transport 10.3 statistics
func TestSumsDoNotWrap(t *testing.T) {
	var s Sums
	for range 1_000_000 {
		s.Add(math.MaxUint64)
	}
	if s.Mean() != math.MaxUint64 || s.Deviation() != 0 || s.Min != math.MaxUint64 || s.Max != math.MaxUint64 {
		t.Errorf("mean %v, deviation %v, %d to %d", s.Mean(), s.Deviation(), s.Min, s.Max)
	}
}

// Given the samples of two nodes, when their sums are merged, then the result equals the sums of all
// samples, even if one node has no samples.
//
// transport 10.3 statistics
func TestSumsMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOf(rapid.Uint64())
		a, b := samples.Draw(t, "a"), samples.Draw(t, "b")
		var left, right, all Sums
		for _, v := range a {
			left.Add(v)
			all.Add(v)
		}
		for _, v := range b {
			right.Add(v)
			all.Add(v)
		}
		left.Merge(&right)
		if diff := cmp.Diff(all, left); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Given inconsistent sums, as another host may send them, then all statistics can be computed.
func TestSumsOfStrangers(t *testing.T) {
	s := Sums{Count: 3, Sum: [2]uint64{0, math.MaxUint64}, Squares: [3]uint64{1}}
	if s.Deviation() != 0 || s.Mean() <= 0 {
		t.Errorf("mean %v, deviation %v", s.Mean(), s.Deviation())
	}
	o := s
	s.Merge(&o)
	if s.Count != 6 {
		t.Errorf("%+v", s)
	}
}

func figures(sent uint64, finished bool, trips ...time.Duration) Figures {
	f := Figures{Finished: finished, BytesOut: sent * 10}
	f.Sent = Counter{Total: sent, Failed: 1}
	var r latency.Recorder
	for _, d := range trips {
		f.RTT.Add(uint64(d))
		r.Record(d)
	}
	r.AddTo(&f.Latency.Histogram)
	return f
}

// Given the figures of two nodes, when they are summed, then counters and round trips are those of both,
// and the sum has finished if both have.
func TestTotal(t *testing.T) {
	got := Total([]Figures{figures(3, true, time.Millisecond), figures(4, false, time.Second)})
	want := figures(7, false, time.Millisecond, time.Second)
	want.Sent.Failed = 2
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.Failures() != 2 {
		t.Errorf("%d failures", got.Failures())
	}
}

// Figures are unchanged by encoding to JSON and decoding.
func TestFiguresAsJSON(t *testing.T) {
	want := figures(3, true, 0, time.Millisecond, time.Hour, 100*time.Hour)
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Figures
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`{"buckets":[[257,1]]}`, `{"buckets":[[-1,1]]}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), &got.Latency); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
