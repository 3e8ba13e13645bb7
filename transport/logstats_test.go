package transport

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// lines collects the log.
type lines struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns the log since the previous call.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

// Given a TM whose statistics are logged every minute, when its queues are used, then each minute logs a
// line for each queue that was used, and the end logs the last lines.
//
// transport 3.12 (3)
func TestLogStats(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		var out lines
		ctx, cancel := context.WithCancel(context.Background()) // of the bubble
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.tm.LogStats(ctx, slog.New(slog.NewTextHandler(&out, nil)), time.Minute)
		}()
		want := func(n int, parts ...string) {
			t.Helper()
			synctest.Wait()
			got := out.take()
			if strings.Count(got, "\n") != n {
				t.Errorf("%d lines, not %d:\n%s", strings.Count(got, "\n"), n, got)
			}
			for _, p := range parts {
				if !strings.Contains(got, p) {
					t.Errorf("no %s in\n%s", p, got)
				}
			}
		}
		w.fake.finish(w.added(PassiveBulkRecv), 30)
		want(0)
		time.Sleep(time.Minute)
		want(1, "tm="+w.tm.Self().Address().String(), "queue=pRECV added=1 cancelled=0 completed=1 failed=0 bytes=30 max_bytes=30 time_in_queue=")
		time.Sleep(time.Minute)
		want(0) // nothing has changed
		w.fake.finish(w.added(PassiveBulkRecv), 10)
		w.fake.finish(w.added(MsgRecv), 5)
		synctest.Wait()
		cancel()
		<-ended
		want(2, "queue=pRECV added=2 cancelled=0 completed=2 failed=0 bytes=40 max_bytes=30", "queue=mRECV added=1")
	})
}

// Given a TM whose statistics are logged each hour, when it ends in any way, then the last lines are logged
// within a second, and LogStats returns.
//
// transport 3.12 (3)
func TestLogStatsEnds(t *testing.T) {
	stop := func(w *fixture) {
		w.ok(w.tm.Abort())
		w.settle()
	}
	for name, end := range map[string]func(w *fixture){
		"closed":  func(w *fixture) { stop(w); w.ok(w.tm.Close()) },
		"stopped": stop,
		"failed":  func(w *fixture) { w.fake.push(Completion{Down: true, Err: syscall.EPIPE}); synctest.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, nil, func(w *fixture) {
				var out lines
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					w.tm.LogStats(context.Background(), slog.New(slog.NewTextHandler(&out, nil)), time.Hour)
				}()
				w.fake.finish(w.added(MsgRecv), 5)
				synctest.Wait()
				w.tm.ResetStats()
				w.fake.finish(w.added(MsgRecv), 7)
				synctest.Wait()
				end(w)
				time.Sleep(time.Second)
				synctest.Wait()
				select {
				case <-ended:
				default:
					t.Fatal("LogStats has not returned")
				}
				if got := out.take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "bytes=7") {
					t.Errorf("the last lines:\n%s", got)
				}
			})
		})
	}
}
