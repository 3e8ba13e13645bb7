package daemon

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/systemd"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/node"
)

// A loop is stuck if it is repeatedly found busy at the same step. A loop that waits, makes
// progress, or is seen for the first time is not stuck.
func TestVigil(t *testing.T) {
	work := func(step uint64) node.Progress { return node.Progress{Loop: "a", Step: step} }
	wait := node.Progress{Loop: "a", Step: 7, Waits: true}
	for _, c := range []struct {
		name  string
		looks []node.Progress
		stuck []bool
	}{
		{"idle", []node.Progress{wait, wait, wait, wait}, []bool{false, false, false, false}},
		{"busy", []node.Progress{work(1), work(2), work(3), work(9)}, []bool{false, false, false, false}},
		{"stuck", []node.Progress{work(1), work(1), work(1), work(1), work(2)}, []bool{false, false, true, true, false}},
		{"slow", []node.Progress{work(1), work(1), work(2), work(2), work(2)}, []bool{false, false, false, false, true}},
		{"waits in between", []node.Progress{work(7), work(7), wait, work(7), work(7)}, []bool{false, false, false, false, false}},
	} {
		v := progressCheck{looks: 2}
		for k, p := range c.looks {
			other := node.Progress{Loop: "b", Step: uint64(k)}
			if got := v.check([]node.Progress{p, other}); (len(got) > 0) != c.stuck[k] || len(got) > 0 && got[0] != "a" {
				t.Errorf("%s, look %d: stuck %v", c.name, k, got)
			}
		}
	}
}

func TestWatchTimes(t *testing.T) {
	for watchdog, want := range map[time.Duration]struct {
		pause time.Duration
		looks int
	}{
		0:                {5 * time.Second, 3},
		30 * time.Second: {5 * time.Second, 3},
		4 * time.Second:  {time.Second, 2},
		10 * time.Minute: {5 * time.Second, 60},
		1:                {time.Millisecond, 0},
	} {
		if pause, looks := watchTimes(watchdog); pause != want.pause || looks != want.looks {
			t.Errorf("%v: every %v, %d looks", watchdog, pause, looks)
		}
	}
}

// The watchdog is fed while the loops make progress. While one is stuck, it is not fed, and the
// status and one log line say so. It is fed again when the loop recovers. The status is current
// all the time.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, log := newFakeSystemd(t), &daemontest.Log{}
		var loop atomic.Pointer[node.Progress]
		var status atomic.Value
		var stuck atomic.Pointer[string]
		loop.Store(&node.Progress{Loop: "monitor", Waits: true})
		status.Store("1 NI is up")
		w := watch{
			systemd: systemd.New(systemd.Config{Send: f.send, Watchdog: 20 * time.Second}),
			loops:   func() []node.Progress { return []node.Progress{*loop.Load()} },
			status:  func() string { return status.Load().(string) },
			log:     slog.New(slog.NewTextHandler(log, nil)),
			stuck:   &stuck,
		}
		ctx, cancel := context.WithCancel(t.Context())
		go w.run(ctx)
		fed := func(d time.Duration) int {
			synctest.Wait()
			before := f.fed()
			time.Sleep(d)
			synctest.Wait()
			return f.fed() - before
		}
		if n := fed(20 * time.Second); n != 4 {
			t.Errorf("idle: fed %d times", n)
		}
		status.Store("2 NIs are up")
		loop.Store(&node.Progress{Loop: "monitor", Step: 5})
		if n := fed(60 * time.Second); n != 2 { // until the loop was found there for 10 s
			t.Errorf("stuck: fed %d times", n)
		}
		if got := f.heard(); got != "stuck: the monitor of the node; 2 NIs are up" || *stuck.Load() != "monitor" {
			t.Errorf("status %q, stuck %q", got, *stuck.Load())
		}
		if n := strings.Count(log.String(), "the node is stuck"); n != 1 {
			t.Errorf("logged %d times: %s", n, log)
		}
		loop.Store(&node.Progress{Loop: "monitor", Step: 6})
		if n := fed(5 * time.Second); n != 1 || f.heard() != "2 NIs are up" || *stuck.Load() != "" || !strings.Contains(log.String(), "the stuck node makes progress again") {
			t.Errorf("fed %d times, status %q, log %s", n, f.heard(), log)
		}
		cancel()
		synctest.Wait()
		if diff := cmp.Diff([]string{"1 NI is up", "2 NIs are up", "stuck: the monitor of the node; 2 NIs are up", "2 NIs are up"}, f.statuses); diff != "" {
			t.Error(diff)
		}
	})
}
