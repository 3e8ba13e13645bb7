package metrics

import (
	"math"

	dto "github.com/prometheus/client_model/go"

	"github.com/lnetd/lnetd/node"
)

// Upper bounds of the classic buckets, as exponents of 2: from 4 µs to 64 s, each 4 times the one before. They
// are bounds of native buckets too.
const (
	classicFirst = -18 // 2^-18 s
	classicLast  = 6
	classicStep  = 2
)

// latencyMetric converts a latency histogram of the node to a metric with the given labels. The metric has
// native buckets, which clients get only in protobuf, and a few classic ones for the text formats.
func latencyMetric(h *node.LatencyHistogram, labels []*dto.LabelPair) *dto.Metric {
	var schema int32 = node.LatencySchema
	d := &dto.Histogram{
		SampleSum: new(h.Sum.Seconds()), Schema: &schema,
		ZeroThreshold: new(node.LatencyBound(0)), ZeroCount: new(h.Counts[0]),
	}
	var seen uint64
	next := classicFirst
	for k, n := range h.Counts {
		seen += n
		if next <= classicLast && k+node.LatencyOffset == next<<node.LatencySchema {
			d.Bucket = append(d.Bucket, &dto.Bucket{UpperBound: new(math.Exp2(float64(next))), CumulativeCount: new(seen)})
			next += classicStep
		}
	}
	d.SampleCount = &seen
	addSpans(d, h)
	return &dto.Metric{Label: labels, Histogram: d}
}

// gapMax is the largest number of consecutive empty buckets that take less space than a new span.
const gapMax = 2

// addSpans adds the buckets of h that are not empty to d as native buckets. Prometheus encodes these as
// spans of consecutive buckets, with the differences between their counts.
func addSpans(d *dto.Histogram, h *node.LatencyHistogram) {
	var span *dto.BucketSpan
	var last int64
	end := 0 // the bucket after the last one of span
	for k := 1; k < len(h.Counts); k++ {
		n := int64(h.Counts[k])
		if n == 0 {
			continue
		}
		index := k + node.LatencyOffset
		switch {
		case span == nil:
			span = &dto.BucketSpan{Offset: new(int32(index)), Length: new(uint32(0))}
			d.PositiveSpan = append(d.PositiveSpan, span)
		case index-end > gapMax:
			span = &dto.BucketSpan{Offset: new(int32(index - end)), Length: new(uint32(0))}
			d.PositiveSpan = append(d.PositiveSpan, span)
		default:
			for ; end < index; end++ {
				d.PositiveDelta = append(d.PositiveDelta, -last)
				last = 0
				*span.Length++
			}
		}
		d.PositiveDelta = append(d.PositiveDelta, n-last)
		last = n
		*span.Length++
		end = index + 1
	}
}
