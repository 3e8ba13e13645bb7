package boundedlog

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorder is a Watcher that records events, after it has refused some.
type recorder struct {
	refused int // number of events that Wants still refuses
	got     []string
}

func (w *recorder) Wants(Line) bool {
	w.refused--
	return w.refused < 0
}

func (w *recorder) Watch(s Seen) {
	line := []string{s.Level.String(), s.Text, s.Of.Kind(), s.Of.String()}
	for _, a := range s.Attrs {
		line = append(line, a.String())
	}
	w.got = append(w.got, strings.Join(line, "|"))
}

// watched returns a Log of the given level that discards its lines, and its watcher.
func watched(level slog.Level) (*Log, *recorder) {
	w := &recorder{}
	return NewWatched(slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: level})), w), w
}

// TestWatcherGetsAllEvents: given a log with level warn, when events are reported more often than the log permits,
// then the watcher gets each of them from level info on, with the attributes of their loggers.
func TestWatcherGetsAllEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := watched(slog.LevelWarn)
		defer b.End()
		l := b.With("nid", "10.0.0.1@tcp")
		of := AboutPeer(nidOf("10.0.0.2@tcp"))
		for range 3 {
			l.Report(Line{Level: slog.LevelWarn, Text: "connect failed", Of: of}, slog.Any("cause", io.EOF))
			time.Sleep(time.Second)
		}
		b.Report(Line{Level: slog.LevelInfo, Text: "peer answers again", Of: of})
		b.Report(Line{Level: slog.LevelDebug, Text: "a detail"})
		New(b.Logger).Info("ready", "pid", 7)
		b.Debug("another detail")
		b.Note(Line{Level: slog.LevelInfo, Text: "NI is healthy again", Of: AboutNI(nidOf("10.0.0.1@tcp"))})
		want := []string{
			"WARN|connect failed|peer|10.0.0.2@tcp|nid=10.0.0.1@tcp|cause=EOF",
			"WARN|connect failed|peer|10.0.0.2@tcp|nid=10.0.0.1@tcp|cause=EOF",
			"WARN|connect failed|peer|10.0.0.2@tcp|nid=10.0.0.1@tcp|cause=EOF",
			"INFO|peer answers again|peer|10.0.0.2@tcp",
			"INFO|ready|||pid=7",
			"INFO|NI is healthy again|ni|10.0.0.1@tcp",
		}
		if diff := cmp.Diff(want, w.got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestWatcherDoesNotChangeTheLog: given a log with a watcher, then it writes the same lines as without one.
func TestWatcherDoesNotChangeTheLog(t *testing.T) {
	write := func(w Watcher) string {
		var out strings.Builder
		b := NewWatched(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
			Level: slog.LevelWarn,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})), w)
		defer b.End()
		b.Info("not logged")
		b.Warn("logged", "a", 1)
		b.With("b", 2).Report(Line{Level: slog.LevelInfo, Text: "not reported"})
		b.With("b", 2).Report(Line{Level: slog.LevelError, Text: "reported"})
		return out.String()
	}
	if diff := cmp.Diff(write(nil), write(&recorder{})); diff != "" {
		t.Error(diff)
	}
}

// TestDebugStaysOff: given a watcher, then debug lines are not enabled because of it.
func TestDebugStaysOff(t *testing.T) {
	b, _ := watched(slog.LevelError)
	for level, want := range map[slog.Level]bool{slog.LevelDebug: false, slog.LevelInfo: true, slog.LevelError: true} {
		if got := b.Enabled(context.Background(), level); got != want {
			t.Errorf("%s: enabled %v", level, got)
		}
	}
}

// TestRefusedEvents: given a watcher that refuses events, then it does not get these, however they are written.
func TestRefusedEvents(t *testing.T) {
	b, w := watched(slog.LevelInfo)
	defer b.End()
	w.refused = 3
	for range 2 {
		b.Report(Line{Level: slog.LevelInfo, Text: "reported"})
		b.With("a", 1).Info("written", "b", 2)
		b.Note(Line{Level: slog.LevelInfo, Text: "noted"})
	}
	if diff := cmp.Diff([]string{"INFO|reported||", "INFO|written|||a=1|b=2", "INFO|noted||"}, w.got); diff != "" {
		t.Error(diff)
	}
}

// TestWatcherSeesUsedBudget: given more failing peers in a minute than the log has lines for, then one event says that
// the budget is used up, as one line of the log does.
func TestWatcherSeesUsedBudget(t *testing.T) {
	b, w := watched(slog.LevelInfo)
	defer b.End()
	for k := range causeNews + 2 {
		b.Report(Line{Level: slog.LevelWarn, Text: "connect failed", Of: About("peer", string(rune('a'+k)))})
	}
	if want := "WARN|" + textFull + "|||event=connect failed"; len(w.got) != causeNews+3 || w.got[causeNews+1] != want {
		t.Errorf("%d events: %q", len(w.got), w.got)
	}
}

// TestPendingSummaryIsNoOmission: given two events within the interval of their cause, of which the log writes the
// second one later, then no event says that lines are missing.
func TestPendingSummaryIsNoOmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := watched(slog.LevelInfo)
		defer b.End()
		for range 2 {
			b.Report(Line{Level: slog.LevelWarn, Text: "link changed", Of: AboutNI(nidOf("10.0.0.1@tcp"))})
			time.Sleep(5 * time.Second)
		}
		if diff := cmp.Diff([]string{"WARN|link changed|ni|10.0.0.1@tcp", "WARN|link changed|ni|10.0.0.1@tcp"}, w.got); diff != "" {
			t.Error(diff)
		}
	})
}
