package boundedlog

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd/limit"
)

// debugRate limits debug lines.
var debugRate = limit.Rate{Every: time.Second / 100, Burst: 1000}

// Log is a logger whose output stays bounded no matter what peers do. Events that others can repeat at will are
// written with Report. An event is a failure if its level is warn or above. For each cause and minute, Report
// writes at once:
//
//   - the first failure of each of up to 16 subjects, however often others fail,
//   - the recovery of each of up to 16 subjects,
//   - two other events, each the first one of its subject in a minute, or more severe than the one before.
//
// Events that are not written are counted. Their number appears as "more" in a later line, which is written
// within a minute even if nothing else happens. That line shows the last event, with the level of the most
// severe one. If it is about many subjects, it names up to 128 whose failure no line has named. If more than 16
// subjects fail or recover within a minute, or more than 512 have events, a line at level warn says that the
// budget is used up. Stats counts what had no line of its own. Debug lines share one limit: 100 per second after
// the first 1,000. The attribute "not_logged" is the number of omitted debug lines.
//
// Lines about actions of the program or its administrator are written with the embedded Logger, which does not
// limit them unless they are debug lines.
//
// A Log is safe for concurrent use. It starts no goroutine. It runs a timer while counted events are to be
// reported, and for up to ten minutes after a failure; End stops the timer.
type Log struct {
	*slog.Logger

	core  *core
	owner bool // core was created for this Log
}

// Line is a line for Report, without its attributes.
type Line struct {
	Level slog.Level
	// Text is the message. It must be a constant.
	Text string
	// Cause groups lines that describe the same matter, such as a peer going down and coming back. It must be a
	// constant. If it is empty, Text is the cause.
	Cause string
	Of    Subject // what the line is about
	// Recovery is set if the event ends a failure of the subject. Its level is below warn.
	Recovery bool
}

// textFull is written when a budget of a cause is used up, at most once a minute for each cause.
const textFull = "log budget used up; further events of the kind are summarized, and those beyond a summary only counted"

// Stats counts events that had no line of their own when they happened.
type Stats struct {
	Summarized uint64 // events that were counted for a later line
	OverBudget uint64 // those of them that are first failures or recoveries, or of subjects beyond the limit
	Omitted    uint64 // debug lines that were omitted
}

// core is the state shared by all loggers derived from one Log.
type core struct {
	begin   time.Time
	debug   limit.Meter
	running sync.WaitGroup // counts the timer from when it is set until it has run
	watcher Watcher        // may be nil; set before the log is used

	mu     sync.Mutex // guards the fields below; not held during writes
	causes causes
	missed uint64 // debug lines that were omitted since the last one that was written
	timer  *time.Timer
	set    time.Duration // time for which the timer is set; 0 if it is not set
	ended  bool
}

// New returns a log that writes to l. If l is nil, lines are discarded. If l was derived from a Log, both share
// the limits of that Log, whose End must be called instead.
func New(l *slog.Logger) *Log {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	if h, ok := l.Handler().(handler); ok {
		return &Log{Logger: l, core: h.core}
	}
	c := &core{begin: time.Now()}
	return &Log{Logger: slog.New(handler{Handler: l.Handler(), core: c}), core: c, owner: true}
}

// With returns a log that adds attributes to its lines. It shares the limits of b.
func (b *Log) With(args ...any) *Log {
	return &Log{Logger: b.Logger.With(args...), core: b.core}
}

// Report writes a line, or counts it if a limit is reached. A counted line that is written later has at most
// eight of its attributes. Counting a line allocates nothing, unless the watcher wants it, or the caller allocates
// for its attributes: pass existing errors and strings.
func (b *Log) Report(l Line, attrs ...slog.Attr) {
	h, _ := b.Handler().(handler) // always succeeds
	if l.Level >= slog.LevelInfo {
		h.show(&l, attrs)
	}
	if !h.Handler.Enabled(context.Background(), l.Level) {
		return
	}
	if l.Level < slog.LevelInfo {
		b.detail(h, &l, attrs)
		return
	}
	c := b.core
	c.mu.Lock()
	now := c.now()
	var late []report
	if c.causes.due != 0 && c.causes.due <= now {
		late = c.causes.expire(now, false)
	}
	v := c.causes.note(now, &l, h.Handler, attrs)
	c.arm(now)
	c.mu.Unlock()
	for k := range late {
		late[k].write()
	}
	if v.full {
		full, event := Line{Level: slog.LevelWarn, Text: textFull}, []slog.Attr{slog.String("event", l.Text)}
		h.show(&full, event)
		write(h.Handler, newRecord(&full, false, event))
	}
	if v.write {
		r := newRecord(&l, true, attrs)
		if v.more > 0 {
			r.AddAttrs(slog.Uint64("more", v.more), slog.Duration("within", rounded(v.within)))
		}
		write(h.Handler, r)
	}
}

// Stats returns what was not written so far, by this log and those that share its limits.
func (b *Log) Stats() Stats {
	b.core.mu.Lock()
	defer b.core.mu.Unlock()
	return b.core.causes.stats
}

// detail writes a debug line if the limit permits it.
func (b *Log) detail(h handler, l *Line, attrs []slog.Attr) {
	if missed, pass := b.core.detail(); pass {
		write(h.Handler, withMissed(newRecord(l, true, attrs), missed))
	}
}

// End reports all counted events, and waits until no timer of the log is running. On a log that shares another
// log's limits it does nothing; call End of that log. Later lines are still limited, and those above the limit
// are lost.
func (b *Log) End() {
	if !b.owner {
		return
	}
	c := b.core
	c.mu.Lock()
	c.ended = true
	c.disarm()
	late := c.causes.expire(c.now(), true)
	c.mu.Unlock()
	for k := range late {
		late[k].write()
	}
	c.running.Wait()
}

// now returns the time that causes uses: the time since the log was created.
func (c *core) now() time.Duration { return time.Since(c.begin) + 1 }

// arm sets the timer to the time at which expire has to be called. mu is held.
func (c *core) arm(now time.Duration) {
	due := c.causes.due
	if due == c.set || c.ended {
		return
	}
	c.disarm()
	if due == 0 {
		return
	}
	c.set = due
	c.running.Add(1)
	if c.timer == nil {
		c.timer = time.AfterFunc(due-now, c.expire)
	} else {
		c.timer.Reset(due - now)
	}
}

// disarm stops the timer. If the timer's function is already running, it will find nothing to do. mu is held.
func (c *core) disarm() {
	if c.set != 0 && c.timer.Stop() {
		c.running.Done()
	}
	c.set = 0
}

// expire is the timer's function. It writes the lines that are due.
func (c *core) expire() {
	defer c.running.Done()
	c.mu.Lock()
	var late []report
	if now := c.now(); !c.ended {
		late = c.causes.expire(now, false)
		c.disarm() // the timer may have been set again since it fired
		c.arm(now)
	}
	c.mu.Unlock()
	for k := range late {
		late[k].write()
	}
}

// detail reports whether a debug line may be written, and how many debug lines were omitted before it.
func (c *core) detail() (missed uint64, pass bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.debug.Allow(debugRate, int64(c.now()), 1) {
		c.missed++
		c.causes.stats.Omitted++
		return 0, false
	}
	missed, c.missed = c.missed, 0
	return missed, true
}

// write writes the line.
func (r *report) write() {
	out := newRecord(&r.Line, r.subjects <= 1, r.attrs[:r.nattrs])
	if r.subjects > 1 {
		names := make([]string, len(r.examples))
		for k, of := range r.examples {
			names[k] = of.String()
		}
		out.AddAttrs(slog.Int(r.Of.key+"s", r.subjects), slog.Any("examples", names))
	}
	if r.more > 0 {
		out.AddAttrs(slog.Uint64("more", r.more))
	}
	if r.others > 0 {
		out.AddAttrs(slog.Uint64("others", r.others))
	}
	if within := rounded(r.within); r.more+r.others > 0 && within > 0 {
		out.AddAttrs(slog.Duration("within", within))
	}
	if ago := rounded(r.ago); ago > 0 {
		out.AddAttrs(slog.Duration("ago", ago))
	}
	write(r.log, out)
}

// newRecord returns the record of a line. If named is set, it has the line's subject as an attribute.
func newRecord(l *Line, named bool, attrs []slog.Attr) slog.Record {
	r := slog.NewRecord(time.Now(), l.Level, l.Text, 0)
	if named && l.Of != (Subject{}) {
		r.AddAttrs(l.Of.attr())
	}
	r.AddAttrs(attrs...)
	return r
}

// write writes a record. It discards errors, as slog.Logger does, because callers cannot handle them. It checks
// the level again, which may have changed since the event.
func write(h slog.Handler, r slog.Record) {
	if ctx := context.Background(); h.Enabled(ctx, r.Level) {
		_ = h.Handle(ctx, r)
	}
}

// rounded rounds a duration for display.
func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// handler is the slog.Handler of a Log. It limits debug lines that are written without Report. New recognizes
// by it that a logger was derived from a Log.
type handler struct {
	slog.Handler
	core  *core
	attrs []slog.Attr // those of the logger, for the watcher; nil without a watcher
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		missed, pass := h.core.detail()
		if !pass {
			return nil
		}
		r = withMissed(r, missed)
	} else {
		h.showRecord(&r)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// withMissed adds the number of omitted debug lines to a record.
func withMissed(r slog.Record, missed uint64) slog.Record {
	if missed == 0 {
		return r
	}
	r = r.Clone()
	r.AddAttrs(slog.Uint64("not_logged", missed))
	return r
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	if h.core.watcher != nil {
		h.attrs = append(slices.Clip(h.attrs), attrs...)
	}
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
