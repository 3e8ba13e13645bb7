package latency

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// The scale of all histograms. Bucket 0 counts durations below 1.024 µs. Above that, each doubling of the
// duration has 8 buckets, so a bucket is at most 12.5 % wide. The scale ends at 73 minutes; longer durations
// are counted in the last bucket.
const (
	unitBits = 10 // 1024 ns
	subBits  = 3
	subs     = 1 << subBits
	octaves  = 32

	// Buckets is the number of buckets.
	Buckets = 1 + octaves*subs
)

// bucket returns the index of the bucket that counts d.
func bucket(d time.Duration) int {
	if d < 1<<unitBits {
		return 0
	}
	e := bits.Len64(uint64(d)) - 1 // 2^e <= d
	sub := int(uint64(d)>>(e-subBits)) & (subs - 1)
	return min(1+(e-unitBits)*subs+sub, Buckets-1)
}

// Bounds returns the range of durations of bucket k, 0 to Buckets-1. from is included, to is not. The last
// bucket also counts all longer durations.
func Bounds(k int) (from, to time.Duration) { return lower(k), lower(k + 1) }

func lower(k int) time.Duration {
	if k == 0 {
		return 0
	}
	k--
	return time.Duration(subs+k%subs) << (unitBits - subBits + k/subs)
}

// Recorder counts durations. It is safe for concurrent use. The zero value is ready to use.
type Recorder struct {
	counts   [Buckets]atomic.Uint64
	sum, max atomic.Int64
}

// Record counts a duration. Negative durations count as 0.
func (r *Recorder) Record(d time.Duration) {
	d = max(d, 0)
	r.counts[bucket(d)].Add(1)
	r.sum.Add(int64(d))
	for {
		longest := r.max.Load()
		if int64(d) <= longest || r.max.CompareAndSwap(longest, int64(d)) {
			return
		}
	}
}

// AddTo adds the recorded durations to h. If a duration is recorded at the same time, h may contain it in the
// counts but not in the sum.
func (r *Recorder) AddTo(h *Histogram) {
	for k := range r.counts {
		h.Counts[k] += r.counts[k].Load()
	}
	h.Sum += time.Duration(r.sum.Load())
	h.Max = max(h.Max, time.Duration(r.max.Load()))
}

// Histogram contains the durations of one or more recorders at one time. It is a plain value. The zero value
// is empty.
type Histogram struct {
	Counts [Buckets]uint64
	Sum    time.Duration
	Max    time.Duration
}

// Merge adds another histogram to h.
func (h *Histogram) Merge(o *Histogram) {
	for k, n := range o.Counts {
		h.Counts[k] += n
	}
	h.Sum += o.Sum
	h.Max = max(h.Max, o.Max)
}

// Count returns the number of durations.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Mean returns the mean duration, or 0 if the histogram is empty.
func (h *Histogram) Mean() time.Duration {
	if n := h.Count(); n > 0 {
		return h.Sum / time.Duration(n)
	}
	return 0
}

// Quantile returns the duration that the fraction q, 0 to 1, of all durations does not exceed. The result is
// rounded up by at most 12.5 %, or within bucket 0 to its end, but never exceeds Max. It is 0 if the histogram is
// empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	rank := max(1, uint64(math.Ceil(min(max(q, 0), 1)*float64(n))))
	var seen uint64
	for k, c := range h.Counts {
		if seen += c; seen >= rank {
			if k == Buckets-1 {
				return h.Max
			}
			return min(lower(k+1)-1, h.Max)
		}
	}
	return h.Max
}
