package boundedlog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd/limit"
)

// debugRate is what is written at debug, beyond a burst.
var debugRate = limit.Rate{Every: time.Second / 100, Burst: 1000}

// Log is a logger that stays bounded whatever peers do. What others can make
// happen again and again is written with Tell: of each cause and subject a line a
// minute, two if the second is worse; and of each cause three lines a minute at most,
// of which one may be about many subjects. What was not written is counted, and told as "more" with a later line,
// within a minute also if nothing further happens: the last that happened, at the level of the
// worst. Lines at debug are bounded
// together: 100 a second after the first 1,000, and "not_logged" tells how many
// were not written.
//
// Other lines go to the embedded Logger and are written as they come: they are for
// what the program, or who rules it, does.
//
// It may be used concurrently. It starts no goroutine, but a timer while there is
// something to tell, which End stops.
type Log struct {
	*slog.Logger

	core  *core
	owner bool
}

// Line is what Tell writes.
type Line struct {
	Level slog.Level
	// Text is a constant.
	Text string
	// Cause, also a constant, is shared by texts that tell of one matter, as that a
	// peer went and came; empty: each text is its own.
	Cause string
	Of    Subject
}

// core is what the loggers that come of one have in common.
type core struct {
	begin   time.Time
	debug   limit.Meter
	running sync.WaitGroup // the timer, from when it is set until it has run

	mu     sync.Mutex // guards the rest; not held while something is written
	causes causes
	missed uint64 // lines at debug that were left out
	timer  *time.Timer
	set    time.Duration // for when the timer is set; 0: it is not
	ended  bool
}

// New returns a log that writes to l; nil discards. If l came out of a
// Log itself they are bounded together, and that one's End counts.
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

// With returns a log whose lines have further attributes, bounded together with b.
func (b *Log) With(args ...any) *Log {
	return &Log{Logger: b.Logger.With(args...), core: b.core}
}

// Tell writes a line, or counts it. At most eight attributes are kept of a line that
// is told later. A line that is not written costs no allocation, if its attributes
// do not: errors and strings that are there already.
func (b *Log) Tell(l Line, attrs ...slog.Attr) {
	h, _ := b.Handler().(handler) // it always is one
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
	more, within, tell := c.causes.note(now, &l, h.Handler, attrs)
	c.arm(now)
	c.mu.Unlock()
	for k := range late {
		late[k].write()
	}
	if tell {
		r := newRecord(&l, true, attrs)
		if more > 0 {
			r.AddAttrs(slog.Uint64("more", more), slog.Duration("within", rounded(within)))
		}
		write(h.Handler, r)
	}
}

// detail writes a line at debug.
func (b *Log) detail(h handler, l *Line, attrs []slog.Attr) {
	if missed, pass := b.core.detail(); pass {
		write(h.Handler, withMissed(newRecord(l, true, attrs), missed))
	}
}

// End tells what was not told yet, and returns when nothing of the log runs any
// more; a log that is bounded together with another leaves both to that one. What
// is told afterwards is bounded too, but what is not written then stays unknown.
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

// now is the clock of causes.
func (c *core) now() time.Duration { return time.Since(c.begin) + 1 }

// arm has the timer run when there is something to do. mu is held.
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

// disarm stops the timer; one that runs already finds nothing to do. mu is held.
func (c *core) disarm() {
	if c.set != 0 && c.timer.Stop() {
		c.running.Done()
	}
	c.set = 0
}

// expire is what the timer does.
func (c *core) expire() {
	defer c.running.Done()
	c.mu.Lock()
	var late []report
	if now := c.now(); !c.ended {
		late = c.causes.expire(now, false)
		c.disarm() // it may have been set anew since it went off
		c.arm(now)
	}
	c.mu.Unlock()
	for k := range late {
		late[k].write()
	}
}

// detail tells whether a line at debug may be written, and then how many were not.
func (c *core) detail() (missed uint64, pass bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.debug.Take(debugRate, int64(c.now()), 1) {
		c.missed++
		return 0, false
	}
	missed, c.missed = c.missed, 0
	return missed, true
}

// write writes what was not told when it happened.
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

func newRecord(l *Line, named bool, attrs []slog.Attr) slog.Record {
	r := slog.NewRecord(time.Now(), l.Level, l.Text, 0)
	if named && l.Of != (Subject{}) {
		r.AddAttrs(l.Of.attr())
	}
	r.AddAttrs(attrs...)
	return r
}

// write leaves errors where slog.Logger leaves them: who logs has no use for them. The level may
// have changed since the event.
func write(h slog.Handler, r slog.Record) {
	if ctx := context.Background(); h.Enabled(ctx, r.Level) {
		_ = h.Handle(ctx, r)
	}
}

// rounded is a duration as somebody wants to read it.
func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// handler marks the loggers of a Log, and bounds what is written at
// debug without Tell.
type handler struct {
	slog.Handler
	core *core
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		missed, pass := h.core.detail()
		if !pass {
			return nil
		}
		r = withMissed(r, missed)
	}
	return h.Handler.Handle(ctx, r)
}

// withMissed is a line that also tells how many others were left out.
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
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
