package console

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Given a running test, when its groups are watched, then servers receive what clients send, and the
// latencies of the console's own node are known.
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

		// A sample survives encoding for the control socket.
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

// Given a watch whose callback blocks, when the session is ended in any way, including by the callback,
// then the end does not wait for the callback, and the watch ends when the callback returns.
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
