package events

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/limit"
)

// Limits of a Log. All its events together need a few MB at most.
const (
	perKind    = 256 // events that are kept of each kind
	detailsMax = 12  // details of an event
	valueMax   = 200 // bytes of a detail, or of a subject
)

// rate limits the events of one kind that are kept, so that a flood of them costs little processor time.
var rate = limit.Rate{Every: time.Second / 200, Burst: 1000}

// Log keeps the latest events of each kind. It is safe for concurrent use. New creates it.
type Log struct {
	begin time.Time
	kinds map[string]*ring // the map does not change

	mu     sync.Mutex    // guards the fields below and the rings
	number uint64        // of the latest event
	added  chan struct{} // closed when an event is added; nil if no reader waits
}

// ring holds the latest events of one kind.
type ring struct {
	meter limit.Meter // safe without the mutex
	// count is the number of events of the kind so far, including those above the rate, which are not kept.
	count uint64
	// dropped is the time of the latest event above the rate since the latest one in kept, or zero.
	dropped time.Time
	kept    []kept // at most perKind
	first   int    // index of the oldest event in kept
}

// kept is an event that a ring holds. It is event number order of its kind, counted from 0.
type kept struct {
	api.Event
	order uint64
	// lost is the time of the latest lost event between this one and the one before it in the ring. It is zero without
	// such an event.
	lost time.Time
}

// New returns an empty Log.
func New() *Log {
	l := &Log{begin: time.Now(), kinds: map[string]*ring{}}
	for _, kind := range api.EventKinds() {
		l.kinds[kind] = &ring{}
	}
	return l
}

// Wants implements boundedlog.Watcher. It counts the event as lost if it returns false.
func (l *Log) Wants(line boundedlog.Line) bool {
	r := l.kinds[KindOf(&line)]
	now := time.Now()
	if r.meter.Allow(rate, int64(now.Sub(l.begin)), 1) {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.count++
	r.dropped = now
	return false
}

// Watch implements boundedlog.Watcher. It adds an event for which Wants returned true.
func (l *Log) Watch(s boundedlog.Seen) {
	e := newEvent(&s)
	e.Time, e.Kind = time.Now(), KindOf(&s.Line)
	r := l.kinds[e.Kind]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	e.Number = l.number
	r.add(e)
	if l.added != nil {
		close(l.added)
		l.added = nil
	}
}

func (r *ring) add(e api.Event) {
	k := kept{e, r.count, r.dropped}
	r.count++
	r.dropped = time.Time{}
	if len(r.kept) < perKind {
		r.kept = append(r.kept, k)
		return
	}
	evicted := r.kept[r.first].Time
	r.kept[r.first] = k
	r.first = (r.first + 1) % perKind
	if oldest := &r.kept[r.first]; oldest.lost.IsZero() {
		oldest.lost = evicted
	}
}

// newEvent converts an event of the log, without its time and kind.
func newEvent(s *boundedlog.Seen) api.Event {
	e := api.Event{Level: strings.ToLower(s.Level.String()), Subject: bounded(s.Of.String()), Text: s.Text}
	for _, a := range s.Attrs {
		switch {
		case len(e.Details) >= detailsMax:
			return e
		case e.Subject == "" && (a.Key == "ni" || a.Key == "nid"): // a line about an NI that was written without Report
			e.Subject = bounded(text(a.Value))
			continue
		case e.Details == nil:
			e.Details = map[string]string{}
		}
		e.Details[a.Key] = bounded(text(a.Value))
	}
	return e
}

// text returns the text of an attribute.
func text(v slog.Value) string { return v.Resolve().String() }

// bounded shortens a text to valueMax bytes, and makes it valid UTF-8.
func bounded(s string) string {
	const more = "..."
	if len(s) > valueMax {
		s = s[:valueMax-len(more)] + more
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
