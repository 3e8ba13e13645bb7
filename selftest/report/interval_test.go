package report

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/latency"
	"github.com/lnetd/lnetd/selftest/message"
)

// sampleOf returns a sample of nodes "1", "2"... of a group.
func sampleOf(nodes ...NodeSample) Sample {
	v := TargetSample{Name: "g", Nodes: nodes}
	for k := range v.Nodes {
		v.Nodes[k].ID = lnet.ProcessID{NID: lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), uint32(k+1)), PID: lnet.PIDLustre}
		if !v.Nodes[k].Success {
			v.Failed++
		}
	}
	return Sample{Targets: []TargetSample{v}}
}

func counted(ms, sent, received uint32, sentBytes, receivedBytes uint64) NodeSample {
	return NodeSample{
		NodeResult: NodeResult{Success: true},
		Framework:  message.FrameworkCounters{RunningMS: ms},
		RPCs:       message.RPCCounters{Sent: sent, Errors: sent / 100, BulkGet: sentBytes},
		LNet: message.LNetCounters{
			SendCount: sent, ReceiveCount: received, SendLength: sentBytes, ReceiveLength: receivedBytes,
		},
	}
}

// Given two samples, then rates are per second of each node's own clock, correct for counters that wrap,
// and averaged over the nodes that answered. The minimum is the smallest rate that is not 0. R is what
// was received.
//
// selftest 9 (1)-(2), 9 (4)
func TestSince(t *testing.T) {
	failed := NodeSample{NodeResult: NodeResult{RPC: syscall.ETIMEDOUT}}
	old := sampleOf(
		counted(1000, 1000, 10, 1<<20, 0), counted(^uint32(0)-999, ^uint32(0)-99, 0, 0, 0),
		counted(5, 5, 5, 5, 5), failed, counted(0, 0, 0, 0, 0), counted(7, 1, 1, 1, 1))
	now := sampleOf(
		counted(3000, 1200, 50, 5<<20, 400), counted(1000, 300, 0, 0, 0),
		counted(2005, 5, 5, 5, 5), counted(2000, 9, 9, 9, 9), failed, counted(7, 2, 2, 2, 2))
	got, err := now.Since(old)
	if err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	expected := []Interval{{
		Name: "g", Nodes: 4, Failed: 2,
		Send: Traffic{
			Rate:      Figure{Avg: (100 + 200 + 0 + 0) / 4.0, Min: 100, Max: 200},
			Bandwidth: Figure{Avg: 2 * mib / 4.0, Min: 2 * mib, Max: 2 * mib},
		},
		Receive: Traffic{
			Rate:      Figure{Avg: 20 / 4.0, Min: 20, Max: 20},
			Bandwidth: Figure{Avg: 200 / 4.0, Min: 200, Max: 200},
		},
		RPC: RPCs{
			Sent:    Figure{Avg: (100 + 200) / 4.0, Min: 100, Max: 200},
			BulkGet: Figure{Avg: 2 * mib / 4.0, Min: 2 * mib, Max: 2 * mib},
			Errors:  got[0].RPC.Errors, // not compared here
		},
	}}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Error(diff)
	}
	for name, other := range map[string]Sample{
		"fewer targets": {},
		"fewer nodes":   sampleOf(failed),
	} {
		if _, err := now.Since(other); !errors.Is(err, ErrGroupChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := sampleOf(slices.Clone(now.Targets[0].Nodes)...)
	other.Targets[0].Nodes[0].ID.PID++
	if _, err := now.Since(other); !errors.Is(err, ErrGroupChanged) {
		t.Errorf("other nodes: %v", err)
	}
}

// Given samples with latencies, then an interval has the latencies during that time, if they are known.
func TestLatencyOfAnInterval(t *testing.T) {
	var r latency.Recorder
	record := func(n int, d time.Duration) *latency.Histogram {
		for range n {
			r.Record(d)
		}
		var h latency.Histogram
		r.AddTo(&h)
		return &h
	}
	with := func(h *latency.Histogram) NodeSample {
		n := counted(0, 0, 0, 0, 0)
		n.Latency = h
		return n
	}
	first := record(1000, time.Second)
	second := record(100, time.Millisecond)
	third := record(0, 0)
	check := func(name string, old, now *latency.Histogram, count uint64, low, high time.Duration) {
		t.Helper()
		list, err := sampleOf(with(now), with(nil)).Since(sampleOf(with(old), with(nil)))
		if err != nil {
			t.Fatal(err)
		}
		p := list[0].Latency
		if p == nil || p.Nodes != 1 || p.Count != count {
			t.Fatalf("%s: %+v", name, p)
		}
		for k, v := range []time.Duration{p.Mean, p.P50, p.P90, p.P99, p.P999, p.Max} {
			if v < low || v > high {
				t.Errorf("%s: figure %d is %v", name, k, v)
			}
		}
	}
	check("an interval", first, second, 100, 990*time.Microsecond, 1130*time.Microsecond)
	check("nothing since", second, third, 0, 0, 0)
	check("other tests", second, first, 1000, 990*time.Millisecond, 1130*time.Millisecond)
	check("the first time", nil, first, 1000, 990*time.Millisecond, 1130*time.Millisecond)
	list, err := sampleOf(with(nil)).Since(sampleOf(with(nil)))
	if err != nil || list[0].Latency != nil {
		t.Errorf("%+v, %v", list, err)
	}
}
