package metrics

import (
	"bytes"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// native returns the buckets of a native histogram by index.
func native(h *dto.Histogram) map[int32]int64 {
	got := map[int32]int64{}
	var index int32
	var count int64
	deltas := h.GetPositiveDelta()
	for _, s := range h.GetPositiveSpan() {
		index += s.GetOffset()
		for range s.GetLength() {
			count += deltas[0]
			deltas = deltas[1:]
			if count != 0 {
				got[index] = count
			}
			index++
		}
	}
	if len(deltas) > 0 {
		got[math.MaxInt32] = int64(len(deltas)) // more deltas than the spans have
	}
	return got
}

// Both kinds of buckets of a histogram show the counted values, whatever was measured.
func TestHistogramsOfBothKinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h node.LatencyHistogram
		for k, n := range rapid.MapOfN(rapid.IntRange(0, node.LatencyBuckets-1), rapid.Uint64Range(1, 1<<40), 0, 20).Draw(t, "counts") {
			h.Counts[k] = n
		}
		h.Sum = time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "sum"))
		d := latencyMetric(&h, nil).GetHistogram()
		if d.GetSampleCount() != h.Samples() || !nearly(d.GetSampleSum(), h.Sum.Seconds()) || d.GetZeroCount() != h.Counts[0] {
			t.Fatalf("%v", d)
		}
		want := map[int32]int64{}
		for k := 1; k < len(h.Counts); k++ {
			if h.Counts[k] > 0 {
				want[int32(k+node.LatencyOffset)] = int64(h.Counts[k])
			}
		}
		if diff := cmp.Diff(want, native(d)); diff != "" {
			t.Fatalf("native buckets (-want +got):\n%s", diff)
		}
		if got := len(d.GetBucket()); got != 1+(classicLast-classicFirst)/classicStep {
			t.Fatalf("%d classic buckets", got)
		}
		for _, b := range d.GetBucket() {
			var below uint64
			for k, n := range h.Counts {
				if node.LatencyBound(k) <= b.GetUpperBound()*(1+1e-12) {
					below += n
				}
			}
			if b.GetCumulativeCount() != below {
				t.Fatalf("%d up to %g s, want %d", b.GetCumulativeCount(), b.GetUpperBound(), below)
			}
		}
	})
}

// A client that accepts protobuf, as Prometheus does for native histograms, gets both kinds of
// buckets. A client that accepts text gets the classic ones. The values are those of a node.
func TestHistogramsOnTheWire(t *testing.T) {
	tcp := lnet.MakeNet(lnet.TypeTCP, 0)
	s := &fakeSource{nis: []node.NIInfo{{Net: tcp, Detail: node.Detail{
		PutAck: latencies(time.Microsecond/2, time.Millisecond, time.Millisecond, time.Second, time.Hour),
	}}}}
	const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	for _, accept := range []string{protobuf, "text/plain;version=0.0.4"} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		Handler(s, Options{}).ServeHTTP(w, r)
		d := decoded(t, w)["lnet_ni_latency_seconds"]
		if d == nil || d.GetType() != dto.MetricType_HISTOGRAM || len(d.GetMetric()) != 3 {
			t.Fatalf("%s: %v", accept, d)
		}
		h := d.GetMetric()[2].GetHistogram()
		var all uint64
		for _, b := range h.GetBucket() {
			if b.GetUpperBound() == 1 {
				all = b.GetCumulativeCount()
			}
		}
		if h.GetSampleCount() != 5 || all != 4 || !nearly(h.GetSampleSum(), 3601.0020005) {
			t.Errorf("%s: %d up to 1 s; %v", accept, all, h)
		}
		if accept != protobuf {
			continue
		}
		want := map[int32]int64{-39: 2, 0: 1, node.LatencyBuckets - 1 + node.LatencyOffset: 1}
		if diff := cmp.Diff(want, native(h)); diff != "" || h.GetSchema() != 2 || h.GetZeroCount() != 1 || h.GetZeroThreshold() != math.Exp2(-20) {
			t.Errorf("native buckets (-want +got):\n%s%v", diff, h)
		}
	}
}

// decoded returns the families of an answer in any form except OpenMetrics.
func decoded(t *testing.T, w *httptest.ResponseRecorder) map[string]*dto.MetricFamily {
	t.Helper()
	d := expfmt.NewDecoder(bytes.NewReader(w.Body.Bytes()), expfmt.ResponseFormat(w.Header()))
	all := map[string]*dto.MetricFamily{}
	for {
		f := &dto.MetricFamily{}
		if err := d.Decode(f); err != nil {
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			return all
		}
		all[f.GetName()] = f
	}
}
