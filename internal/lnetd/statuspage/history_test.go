package statuspage

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// counted returns nets with an NI that has sent n messages of 10 bytes.
func counted(t *testing.T, nids map[string]uint64) []api.Net {
	t.Helper()
	net := api.Net{Net: lnet.MakeNet(lnet.TypeTCP, 0), NIs: []api.NI{{NID: lnet.LoopbackNID, Statistics: api.Statistics{Sent: 1e6}}}}
	for name, n := range nids {
		net.NIs = append(net.NIs, api.NI{NID: nid(t, name), Statistics: api.Statistics{Sent: n}, Counters: []api.Counter{{Name: "sent_bytes_total", Value: 10 * n}}})
	}
	return []api.Net{net}
}

// Rates are differences of counters by the time between samples. NIs that are new, and counters that were reset, have
// no rate, and do not disturb the sums.
func TestRates(t *testing.T) {
	var h history
	at := testStart
	for _, nids := range []map[string]uint64{
		{"10.0.0.1@tcp": 100}, {"10.0.0.1@tcp": 200}, {"10.0.0.1@tcp": 0}, {"10.0.0.1@tcp": 50, "10.0.0.2@tcp": 1000}, {"10.0.0.2@tcp": 1100},
	} {
		h.add(at, counted(t, nids))
		at = at.Add(samplePause)
	}
	nan := math.NaN()
	for name, want := range map[string][]float64{
		"10.0.0.1@tcp": {20, nan, 10, nan}, "10.0.0.2@tcp": {nan, nan, nan, 20}, "10.0.0.3@tcp": {nan, nan, nan, nan},
	} {
		if diff := cmp.Diff(want, h.of(nid(t, name)).messages, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if diff := cmp.Diff(rates{[]float64{20, 0, 10, 20}, []float64{200, 0, 100, 200}}, h.of(lnet.NID{}), cmp.AllowUnexported(rates{})); diff != "" {
		t.Error(diff)
	}
}

// Only the samples of the last minutes are kept.
func TestHistoryIsBounded(t *testing.T) {
	var h history
	for k := range 3 * samplesMost {
		h.add(testStart.Add(time.Duration(k)*samplePause), counted(t, map[string]uint64{"10.0.0.1@tcp": uint64(k)}))
	}
	if n := len(h.of(lnet.NID{}).messages); n != samplesMost-1 {
		t.Errorf("%d rates", n)
	}
}

// Run samples until its context is done, except while LNet is not configured.
func TestRun(t *testing.T) {
	for _, down := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := New(&fakeSource{nets: counted(t, map[string]uint64{"10.0.0.1@tcp": 1}), down: down})
			ctx, cancel := context.WithTimeout(t.Context(), 3*samplePause+time.Second)
			defer cancel()
			p.Run(ctx)
			want := 4
			if down {
				want = 0
			}
			if n := len(p.history.samples); n != want {
				t.Errorf("%d samples, want %d", n, want)
			}
		})
	}
}

// A line breaks where a rate is not known, and ends at the right edge.
func TestSparkline(t *testing.T) {
	nan := math.NaN()
	got := lines([]float64{10, 5, nan, 7, nan, 0, 10}, 10)
	if diff := cmp.Diff([]string{"107.0,2.0 109.0,14.0", "117.0,26.0 119.0,2.0"}, got); diff != "" {
		t.Error(diff)
	}
	if got := lines([]float64{0, 0}, 0); len(got) != 1 || !strings.HasSuffix(got[0], ",26.0") {
		t.Errorf("no traffic: %q", got)
	}
	one := trendOf([]float64{3}, "messages", perSecond)
	if one.Now != "3.0/s" || one.Line != "" {
		t.Errorf("a single rate: %+v", one)
	}
	if none := trendOf(nil, "messages", perSecond); none != (trend{}) {
		t.Errorf("no rate: %+v", none)
	}
}

func TestTexts(t *testing.T) {
	for v, want := range map[float64]string{0: "0/s", 0.25: "0.2/s", 12.4: "12/s", 1234567: "1,234,567/s"} {
		if got := perSecond(v); got != want {
			t.Errorf("%v: %s", v, got)
		}
	}
	for v, want := range map[float64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 200 << 20: "200 MiB", math.MaxUint64: "16.0 EiB"} {
		if got := size(v); got != want {
			t.Errorf("%v: %s", v, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "0 s", 59 * time.Second: "59 s", 25 * time.Hour: "1 d 1 h", 3605 * time.Second: "1 h 5 s", -time.Second: "0 s"} {
		if got := duration(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
}
