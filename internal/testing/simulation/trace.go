package simulation

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// trace records the events of a scenario, to explain a failure.
type trace struct {
	start time.Time

	mu      sync.Mutex // guards entries
	entries []traceEntry
}

type traceEntry struct {
	at     time.Duration
	format string
	args   []any
}

// addf adds an entry with the current time. The arguments are formatted only by WriteTo, so they must
// not change afterwards.
func (t *trace) addf(format string, args ...any) {
	at := time.Since(t.start)
	t.mu.Lock()
	t.entries = append(t.entries, traceEntry{at, format, args})
	t.mu.Unlock()
}

// WriteTo writes the trace, one line per entry.
func (t *trace) WriteTo(w io.Writer) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b bytes.Buffer
	for _, e := range t.entries {
		fmt.Fprintf(&b, "%11.6f  %s\n", e.at.Seconds(), fmt.Sprintf(e.format, e.args...))
	}
	return b.WriteTo(w)
}

// logger returns a logger that adds its lines, after the prefix who, to the trace.
func (t *trace) logger(who string) *slog.Logger {
	return slog.New(slog.NewTextHandler(traceWriter{t, who}, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

type traceWriter struct {
	t   *trace
	who string
}

func (w traceWriter) Write(b []byte) (int, error) {
	w.t.addf("%s: %s", w.who, string(bytes.TrimRight(b, "\n")))
	return len(b), nil
}
