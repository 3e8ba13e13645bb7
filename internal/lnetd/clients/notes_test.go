package clients

import (
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd/boundedlog"
)

// notes is a watcher of a log that records the texts of events and what they are about.
type notes struct {
	mu  sync.Mutex // guards got
	got []string
}

func (*notes) Wants(boundedlog.Line) bool { return true }

func (w *notes) Watch(s boundedlog.Seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(s.Attrs, func(a slog.Attr) bool { return a.Key == "program" })
	w.got = append(w.got, s.Of.Kind()+" "+s.Attrs[i].Value.String()+" "+s.Text)
}

// TestQuietClientsAreEvents: given a watched log, when a client connects and leaves as it should, then both are events,
// although neither is logged. A connection that ends without HELLO is none.
func TestQuietClientsAreEvents(t *testing.T) {
	seen := &notes{}
	w := newWorld(t, func(c *Config) {
		b := boundedlog.NewWatched(c.Logger, seen)
		t.Cleanup(b.End)
		c.Logger = b.Logger
	})
	_ = w.dial().conn.Close()
	w.empty()
	_ = w.join().conn.Close()
	w.empty()
	if err := w.server.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"pid test client connected", "pid test client disconnected"}, seen.got); diff != "" {
		t.Error(diff)
	}
	if lines := w.log.lines(); len(lines) != 0 {
		t.Errorf("lines: %q", lines)
	}
}
