package lnd

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// What a bounded log tells: of each peer and message a line a minute, and of so
// many peers; and so many lines at debug.
const (
	boundedInterval = time.Minute
	boundedPeers    = 16
	boundedMessages = 64 // texts that are told apart
)

var boundedDebug = Rate{Every: time.Second / 100, Burst: 1000}

// BoundedLog returns a logger that writes to l and stays bounded whatever peers
// do: lines with an attribute "peer", "from", "gateway" or "address" are about a
// peer, and of those with one message no more than 16 are written in a minute, one
// for each peer; and of all lines at debug no more than 100 a second, after the
// first 1,000. What was
// left out is told with the next line, as "not_logged" of the same peer and
// "not_logged_others". Messages must be constants. nil discards.
func BoundedLog(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(boundedHandler{Handler: l.Handler(), log: &boundedLog{begin: time.Now(), limits: map[string]*LogLimit[string]{}}})
}

// boundedLog is what the loggers that come of one have in common.
type boundedLog struct {
	begin time.Time
	debug Meter

	mu     sync.Mutex                   // guards limits and missed
	limits map[string]*LogLimit[string] // by message
	missed uint64                       // lines at debug that were left out
}

type boundedHandler struct {
	slog.Handler
	log  *boundedLog
	peer string // that all lines are about
}

// Handle implements slog.Handler.
func (h boundedHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		missed, pass := h.log.atDebug(time.Now())
		if !pass {
			return nil
		}
		return h.Handler.Handle(ctx, telling(r, 0, missed))
	}
	peer := h.peer
	r.Attrs(func(a slog.Attr) bool {
		if about(a) {
			peer = a.Value.String()
		}
		return peer == ""
	})
	if peer == "" {
		return h.Handler.Handle(ctx, r)
	}
	if _, nid, found := strings.Cut(peer, "-"); found { // a process: its NID
		peer = nid
	}
	skipped, others, pass := h.log.limit(r.Message).Pass(time.Now(), peer)
	if !pass {
		return nil
	}
	return h.Handler.Handle(ctx, telling(r, skipped, others))
}

// about says that an attribute names the peer that a line is about, or the address
// that peers call.
func about(a slog.Attr) bool {
	switch a.Key {
	case "peer", "from", "gateway", "address":
		return true
	}
	return false
}

// telling is a line that also tells how many others were left out.
func telling(r slog.Record, skipped, others uint64) slog.Record {
	if skipped+others == 0 {
		return r
	}
	r = r.Clone()
	r.AddAttrs(slog.Uint64("not_logged", skipped), slog.Uint64("not_logged_others", others))
	return r
}

// atDebug tells whether a line at debug may be written, and then how many were not.
func (l *boundedLog) atDebug(now time.Time) (missed uint64, pass bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.debug.Take(boundedDebug, int64(now.Sub(l.begin)), 1) {
		l.missed++
		return 0, false
	}
	missed, l.missed = l.missed, 0
	return missed, true
}

// limit is that of a message; those beyond the first have one together.
func (l *boundedLog) limit(message string) *LogLimit[string] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if limit := l.limits[message]; limit != nil {
		return limit
	}
	if len(l.limits) >= boundedMessages {
		message = ""
		if limit := l.limits[message]; limit != nil {
			return limit
		}
	}
	limit := NewLogLimit[string](boundedInterval, boundedPeers)
	l.limits[message] = limit
	return limit
}

// WithAttrs implements slog.Handler.
func (h boundedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if about(a) {
			h.peer = a.Value.String()
		}
	}
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// WithGroup implements slog.Handler.
func (h boundedHandler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
