package testenv

import (
	"io"
	"log/slog"
	"sync"
	"testing"
)

// Logger returns a logger that writes lines of all levels to the output of the test. Lines after the end of the test are
// discarded: timers of a bounded log may write them, and the output does not permit that.
func Logger(t testing.TB) *slog.Logger {
	o := &output{w: t.Output()}
	t.Cleanup(o.end)
	return slog.New(slog.NewTextHandler(o, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// output is the output of a test.
type output struct {
	mu sync.Mutex
	w  io.Writer // io.Discard after the end of the test
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(b)
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w = io.Discard
}
