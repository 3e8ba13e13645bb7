package perf

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// TestRunMeasuresEveryCase runs the whole measurement briefly, with both sides in this process. Each case
// has one line with figures and three with costs.
func TestRunMeasuresEveryCase(t *testing.T) {
	c := DefaultConfig()
	c.Server, c.Client = netip.MustParseAddr("127.11.1.3"), netip.MustParseAddr("127.11.1.2")
	c.Rounds, c.Time, c.first, c.Port = 1, time.Microsecond, fewExchanges, freePort(t, c.Server, c.Client, c.Client.Next().Next())
	if testenv.Race { // one of each kind: messages take twenty times as long
		c.Only = regexp.MustCompile(`PUT\+ACK 96 B|1 MiB, 2 in|credits 8$|96 B and back, (polling|asynch)|brought`)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() { served <- Serve(ctx, c, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-served:
		t.Fatal(err)
	}
	c.Passive = teller(t)
	var told []string
	results, err := Run(ctx, c, func(r *Result) { told = append(told, r.Case) })
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Print(&out, results, false); err != nil {
		t.Fatal(err)
	}
	all, err := c.chosen()
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != len(all) || len(results) != len(all) {
		t.Fatalf("%d results, %d told of, want %d", len(results), len(told), len(all))
	}
	ratios := 0
	for _, r := range results {
		if r.CostGoal != 0 {
			ratios++
		}
		if timed := r.Unit == microseconds.String() && !r.test.selftest; (r.LNet.Latency != nil) != timed || (r.Floor.Latency != nil) != (r.Unit == microseconds.String()) {
			t.Errorf("%s: latency %+v, floor %+v", r.Case, r.LNet.Latency, r.Floor.Latency)
		}
	}
	if got, want := strings.Count(out.String(), "\n"), 1+len(all)+2+3*len(all)+ratios; got != want {
		t.Errorf("%d lines, want %d:\n%s", got, want, &out)
	}
	for k, r := range results {
		if r.Case != all[k].name || strings.Count(out.String(), r.Case) != 2 {
			t.Errorf("no lines for %q in\n%s", all[k].name, &out)
		}
		for method, m := range map[Method]*Measured{MethodLNet: r.LNet, MethodFloor: r.Floor, MethodLimit: r.Limit} {
			for _, costs := range []map[string]Spread{m.Asks, m.Answers} {
				if costs[CPU].Max <= 0 {
					t.Errorf("%s, %s: no processor time", r.Case, method)
				}
			}
			if !(m.Figure.Min > 0) || m.Messages < 1 {
				t.Errorf("%s, %s: %+v", r.Case, method, m.Figure)
			}
		}
		if !(r.Ratio.Median > 0) || !(r.OfLimit.Median > 0) || math.IsInf(r.Ratio.Median, 0) {
			t.Errorf("%s: ratio %v, of limit %v", r.Case, r.Ratio, r.OfLimit)
		}
	}
	if _, err := json.Marshal(results); err != nil {
		t.Error(err)
	}
}

// teller returns this process as one that reports its costs.
func teller(t *testing.T) *Process {
	t.Helper()
	questions, ask := io.Pipe()
	answers, tell := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- ServeCosts(t.Context(), questions, tell) }()
	t.Cleanup(func() {
		if err := ask.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return NewProcess(answers, ask)
}

// Names in JSON are used by other programs and must not change.
func TestResultJSON(t *testing.T) {
	m := &Measured{Messages: 2, Asks: map[string]Spread{Wakeups: {}}, Answers: map[string]Spread{CPU: {}}}
	r := tests()[0].result()
	r.LNet, r.Floor, r.Limit = m, m, m
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		`"case":"PUT+ACK 0 B, handler sends the next"`, `"in_bytes":0`, `"out_bytes":0`, `"in_flight":1`, `"unit":"us"`, `"goal":1.25`,
		`"lnetd":{"figure":{"median":0,"q1":0,"q3":0,"min":0,"max":0},"messages":2,"asks":{"wakeups":`, `"answers":{"cpu_us":`,
		`"floor":`, `"limit":`, `"ratio":`, `"of_limit":`, `"cost_ratios":`,
	} {
		if !strings.Contains(string(text), name) {
			t.Errorf("no %s in %s", name, text)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3, 3, 3}},
		{[]float64{5, 1, 4, 2, 3}, Spread{3, 2, 4, 1, 5}},
		{[]float64{9, 8, 7, 6, 5, 4, 3, 2, 1}, Spread{5, 3, 7, 1, 9}},
	} {
		if got := spreadOf(c.v); got != c.want {
			t.Errorf("spread of %v: %v, want %v", c.v, got, c.want)
		}
	}
}
