package transport

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Given a TM whose figures are to be logged every minute, when its queues are used, then each
// minute has a line for those that were, and the end has a last one.
//
// transport 3.12 (3)
func TestLogStats(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(context.Background()) // of the bubble
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.tm.LogStats(ctx, slog.New(slog.NewTextHandler(&out, nil)), time.Minute)
		}()
		want := func(lines int, parts ...string) {
			t.Helper()
			synctest.Wait()
			got := out.String()
			if strings.Count(got, "\n") != lines {
				t.Errorf("%d lines, not %d:\n%s", strings.Count(got, "\n"), lines, got)
			}
			for _, p := range parts {
				if !strings.Contains(got, p) {
					t.Errorf("no %s in\n%s", p, got)
				}
			}
			out.Reset()
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
