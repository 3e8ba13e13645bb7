package events

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// batchMax is the maximum number of events that Next returns at once.
const batchMax = 256

// Reader reads events as lines of JSON. It is a position in a Log and needs no memory for events. It must not be used
// concurrently.
type Reader struct {
	log    *Log
	filter api.EventFilter
	next   map[string]uint64 // for each kind, the order of the next event
}

// Read returns a Reader for the events that the filter selects. The caller has validated the kinds.
func (l *Log) Read(f api.EventFilter) *Reader {
	if len(f.Kinds) == 0 {
		f.Kinds = api.EventKinds()
	}
	r := &Reader{log: l, filter: f, next: map[string]uint64{}}
	for _, kind := range f.Kinds {
		r.next[kind] = 0
	}
	return r
}

// Next returns the next events as lines, each with a JSON object. If there are none, it returns io.EOF, or, if the
// reader follows the log, waits for one. When ctx is done, it first returns the events so far, and then the cause.
func (r *Reader) Next(ctx context.Context) ([]byte, error) {
	for {
		done := ctx.Err() != nil // asked before take, which then finds all events from before the end
		found, lost, more := r.take()
		switch {
		case len(found) > 0 || lost > 0:
			return lines(found, lost)
		case more == nil: // all of these events are older than the filter permits
			continue
		case !r.filter.Follow:
			return nil, io.EOF
		case done:
			return nil, context.Cause(ctx)
		}
		select {
		case <-more:
		case <-ctx.Done():
		}
	}
}

// take returns the next events, oldest first, and the number of events that were lost among or before them. Events that
// were all lost before the filter's time do not count. If there are none, more is closed when an event is added.
func (r *Reader) take() (found []api.Event, lost uint64, more <-chan struct{}) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*kept
	for kind, next := range r.next {
		all = l.kinds[kind].appendFrom(all, next)
	}
	slices.SortFunc(all, func(a, b *kept) int { return cmp.Compare(a.Number, b.Number) })
	complete := len(all) <= batchMax
	for _, e := range all[:min(len(all), batchMax)] {
		if r.selects(e.Time) {
			if r.selects(e.lost) {
				lost += e.order - r.next[e.Kind]
			}
			found = append(found, e.Event)
		}
		r.next[e.Kind] = e.order + 1
	}
	if complete {
		for kind := range r.next {
			of := l.kinds[kind]
			if r.selects(of.dropped) {
				lost += of.count - r.next[kind]
			}
			r.next[kind] = of.count
		}
	}
	if len(found) == 0 && lost == 0 && complete {
		if l.added == nil {
			l.added = make(chan struct{})
		}
		more = l.added
	}
	return found, lost, more
}

// selects reports whether the filter selects events of the time.
func (r *Reader) selects(at time.Time) bool { return !at.Before(r.filter.Since) }

// appendFrom appends the events that are kept from number next of the kind on, in any order.
func (r *ring) appendFrom(all []*kept, next uint64) []*kept {
	for k := range r.kept {
		e := &r.kept[(r.first+len(r.kept)-1-k)%len(r.kept)] // the latest first
		if e.order < next {
			break
		}
		all = append(all, e)
	}
	return all
}

// lines encodes events. A line before them reports how many were lost.
func lines(found []api.Event, lost uint64) ([]byte, error) {
	var b bytes.Buffer
	j := json.NewEncoder(&b)
	j.SetEscapeHTML(false)
	if lost > 0 {
		at := time.Now()
		if len(found) > 0 {
			at = found[0].Time
		}
		gap := api.Event{Time: at, Kind: api.EventLost, Lost: lost}
		gap.Level, gap.Text = "warn", "events are missing, because lnetd keeps only the latest"
		if err := j.Encode(gap); err != nil {
			return nil, err
		}
	}
	for k := range found {
		if err := j.Encode(&found[k]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
