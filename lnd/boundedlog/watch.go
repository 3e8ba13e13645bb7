package boundedlog

import (
	"context"
	"log/slog"
	"slices"
)

// Seen is an event as a watcher gets it.
type Seen struct {
	// Line is the line of the event. A line that is written without Report has no Cause and no Of.
	Line
	// Attrs are the attributes of the logger and of the line. They belong to the watcher.
	Attrs []slog.Attr
}

// Watcher gets events at once, also those that the limits or the level of the log keep out of it. Its methods may be
// called concurrently, and they must neither block nor use the log.
type Watcher interface {
	// Wants reports whether the watcher wants an event. It is called once for each event.
	Wants(l Line) bool
	// Watch gets an event that the watcher wants. Making a Seen allocates, unlike asking for it.
	Watch(s Seen)
}

// NewWatched is like New, and also offers w each event of at least level info and those that are passed to Note. If w
// is nil, it is the same as New. If l was derived from a Log, the watcher of that Log remains in force, and w is not
// used.
func NewWatched(l *slog.Logger, w Watcher) *Log {
	b := New(l)
	if b.owner {
		b.core.watcher = w
	}
	return b
}

// Note offers an event to the watcher only. It is for changes of state that are too frequent, or not important
// enough, for the log. Without a watcher it does nothing.
func (b *Log) Note(l Line, attrs ...slog.Attr) {
	h, _ := b.Handler().(handler) // always succeeds
	h.show(&l, attrs)
}

// Watched reports whether the log has a watcher, so that a caller of Note need not make attributes in vain.
func (b *Log) Watched() bool { return b.core.watcher != nil }

// show offers an event to the watcher, if there is one.
func (h handler) show(l *Line, attrs []slog.Attr) {
	if w := h.core.watcher; w != nil && w.Wants(*l) {
		w.Watch(Seen{Line: *l, Attrs: slices.Concat(h.attrs, attrs)})
	}
}

// showRecord offers a line that was written without Report to the watcher, if there is one.
func (h handler) showRecord(r *slog.Record) {
	w, l := h.core.watcher, Line{Level: r.Level, Text: r.Message}
	if w == nil || !w.Wants(l) {
		return
	}
	attrs := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	w.Watch(Seen{Line: l, Attrs: attrs})
}

// Enabled implements slog.Handler. Lines that the watcher gets are enabled, whatever the level of the log is.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.core.watcher != nil && level >= slog.LevelInfo || h.Handler.Enabled(ctx, level)
}
