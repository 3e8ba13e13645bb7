package selftest

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// logLimit lets one message in a while pass: what others do to a node must not
// fill its log. The zero value is ready; it is safe for concurrent use.
type logLimit struct {
	next    atomic.Int64 // Unix time in nanoseconds
	skipped atomic.Uint64
}

// Intervals between messages.
const (
	malformedInterval = time.Minute
	sessionInterval   = 100 * time.Millisecond
)

// pass tells whether a message may be logged now: one per interval.
func (l *logLimit) pass(interval time.Duration) bool {
	now := time.Now().UnixNano()
	next := l.next.Load()
	if now < next || !l.next.CompareAndSwap(next, now+int64(interval)) {
		l.skipped.Add(1)
		return false
	}
	return true
}

// malformed logs a message that makes no sense.
func (a *Agent) malformed(from lnet.ProcessID, err error) {
	if !a.malformedLog.pass(malformedInterval) {
		return
	}
	a.config.Logger.Warn("selftest: dropped a malformed request", "from", from.String(), "err", err,
		"not_logged", a.malformedLog.skipped.Swap(0))
}

// sessionLevel is the level at which to log what consoles do with sessions:
// anybody may make and end them as fast as he likes.
func (a *Agent) sessionLevel() slog.Level {
	if a.sessionLog.pass(sessionInterval) {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
