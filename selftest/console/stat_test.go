package console

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/latency"
	"github.com/lnetd/lnetd/selftest/message"
)

// sampleOf is a sample of nodes "1", "2"... of a group.
func sampleOf(nodes ...NodeSample) Sample {
	v := TargetSample{Name: "g", Nodes: nodes}
	for k := range v.Nodes {
		v.Nodes[k].ID = lnet.ProcessID{NID: lnet.NIDFromNumber(tcp, uint32(k+1)), PID: lnet.PIDLustre}
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

// Given two samples, then rates are per second of each node's own clock, over
// counters that may have wrapped, averaged over those that answered; the least
// one that is not 0 is the minimum; R is what came in.
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
			Errors:  got[0].RPC.Errors, // of no interest here
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

// Given latencies in samples, then an interval has those of its own time, and
// none where nobody knows.
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

// Given a test that runs, when its groups are watched, then what clients send is
// what servers receive, and latencies are known of the console's own node.
//
// selftest 9 (1), 9 (5)
func TestWatch(t *testing.T) {
	onStage(t, 2, func(t *testing.T, s *stage) {
		s.slow()
		s.session([2]string{"c", "1,100"}, [2]string{"s", "2"})
		_, err := s.Stat(s.ctx, key, []string{"nobody"}, 0)
		want(t, "no such group", err, syscall.ENOENT, "group")
		_, err = s.Stat(s.ctx, key, nil, 0)
		want(t, "nothing", err, syscall.EINVAL, "group")
		q := pingTest()
		q.Kind, q.BRW = BulkTest, BRW{Write: true, Size: 1 << 18}
		s.add(q)
		s.run("batch")
		var seen []Interval
		err = s.Watch(s.ctx, key, WatchOptions{Targets: []string{"c", "s", "10.0.0.2@tcp"}, Delay: 2 * time.Second, Count: 2},
			func(list []Interval) error {
				seen = append(seen, list...)
				return nil
			})
		if err != nil || len(seen) != 6 {
			t.Fatalf("%+v, %v", seen, err)
		}
		if diff := cmp.Diff(seen[4].Receive, seen[5].Receive); diff != "" {
			t.Errorf("a group and its node: %s", diff)
		}
		for k := 0; k < 6; k += 3 {
			c, v := seen[k], seen[k+1]
			sent, received := c.Send.Bandwidth.Avg*2, v.Receive.Bandwidth.Avg
			if received < 1<<20 || sent/received < 0.98 || sent/received > 1.02 {
				t.Errorf("sent %v, received %v", sent, received)
			}
			if c.RPC.Sent.Min <= 0 || v.RPC.BulkGet.Avg < 1<<20 || c.RPC.BulkGet.Avg != 0 || v.Nodes != 1 || c.Nodes != 2 {
				t.Errorf("%+v\n%+v", c, v)
			}
			if c.Latency == nil || c.Latency.Nodes != 1 || c.Latency.Count == 0 || v.Latency != nil {
				t.Errorf("latencies %+v, %+v", c.Latency, v.Latency)
			}
		}
		enough := errors.New("enough")
		if err := s.Watch(s.ctx, key, WatchOptions{Targets: []string{"c"}, Count: -1}, func([]Interval) error { return enough }); !errors.Is(err, enough) {
			t.Error(err)
		}

		// A sample survives the way through a control socket.
		v := s.stat("c")
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var back Sample
		if err := json.NewDecoder(strings.NewReader(string(text))).Decode(&back); err != nil {
			t.Fatal(err)
		}
		a, err := v.Since(Sample{Targets: v.Targets})
		b, err2 := back.Since(v)
		if diff := cmp.Diff(a, b); diff != "" || err != nil || err2 != nil {
			t.Error(diff, err, err2)
		}
	})
}

// Given somebody who watches and does not come back from what he does with an
// interval, when the session is ended in whatever way, be it by himself, then that
// does not wait for him, and his watch ends when he is back.
func TestEndWhileAWatcherHangs(t *testing.T) {
	end := func(ctx context.Context, s *stage) error { return s.EndSession(ctx, key) }
	another := func(ctx context.Context, s *stage) error {
		_, err := s.NewSession(ctx, SessionOptions{Key: key, Name: "another", Force: true})
		return err
	}
	shutdown := func(ctx context.Context, s *stage) error { return s.Console.Close(ctx) }
	for name, test := range map[string]struct {
		end     func(ctx context.Context, s *stage) error
		himself bool
	}{
		"end":                         {end, false},
		"another by force":            {another, false},
		"close":                       {shutdown, false},
		"end by himself":              {end, true},
		"another by force by himself": {another, true},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, 1, func(t *testing.T, s *stage) {
				s.session([2]string{"g", "1"})
				finish := func() {
					ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
					defer cancel()
					if err := test.end(ctx, s); err != nil || ctx.Err() != nil {
						t.Errorf("%v, %v", err, ctx.Err())
					}
					s.empty(s.nodes...)
				}
				watches, watched := make(chan struct{}), make(chan error, 1)
				go func() {
					watched <- s.Watch(s.ctx, key, WatchOptions{Targets: []string{"g"}, Count: -1}, func([]Interval) error {
						close(watches)
						if test.himself {
							finish()
						} else {
							time.Sleep(time.Minute)
						}
						return nil
					})
				}()
				<-watches
				if !test.himself {
					finish()
				}
				if err := <-watched; !errors.Is(err, syscall.ESHUTDOWN) {
					t.Errorf("watch: %v", err)
				}
			})
		})
	}
}
