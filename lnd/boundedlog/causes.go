package boundedlog

import (
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Limits per cause.
const (
	causeInterval = time.Minute     // minimum time between two lines about one subject
	causeFew      = 2               // lines about single subjects per interval; one summary may be added
	causeGather   = 5 * time.Second // how long a summary waits for more events
	causeLook     = time.Second     // minimum time between two calls of expire

	causesMost   = 64  // causes that are tracked separately; all others share one entry
	subjectsMost = 512 // subjects per cause; events of further subjects are only counted
	exampleMost  = 3   // subjects that a summary names
	heldAttrs    = 8   // attributes that are kept of a counted event
)

// causes decides which events are written. It has no clock: the caller passes times, which never go back and
// are greater than 0. Each event has a cause and a subject. An event is written immediately if it is the first
// one of its subject within an interval, or more severe than the line before, as far as the limits of its cause
// permit. Other events are counted. The last of them is written at the end of the interval, or together with
// the next event that is written. If too many subjects of a cause have counted events, one line summarizes them
// all. No event is reported more than an interval late, if the caller calls expire at the time due.
type causes struct {
	list map[string]*cause // by Line.Cause; "" is shared by the causes above causesMost
	// due is when expire has to be called next. 0 means never.
	due time.Duration
}

// cause is the state of one cause.
type cause struct {
	written  [causeFew]time.Duration // when the latest lines about single subjects were written
	gathered time.Duration           // when the next summary may be written
	subjects map[Subject]*subject
	others   tally // events of subjects above subjectsMost
}

// subject is the state of a subject about which a line was written recently, or which has counted events.
type subject struct {
	due     time.Duration // when the next line about the subject may be written
	written slog.Level    // level of the last line in this interval; unlogged if no line was written
	tally
}

// unlogged is lower than any level.
const unlogged = slog.Level(-1 << 30)

// tally contains counted events, which are still to be reported.
type tally struct {
	count       uint64
	first, last time.Duration // times of the first and the last of them
	worst       slog.Level    // level of the most severe of them
	event       event         // the last of them
}

// event is a counted event, with what is needed to write it later.
type event struct {
	Line
	log    slog.Handler
	attrs  [heldAttrs]slog.Attr
	nattrs int
}

// report is a line to write: an event, and the numbers of other counted events that the line reports.
type report struct {
	event
	subjects int           // number of subjects that the line is about; 0 and 1 mean one
	examples []Subject     // some of these subjects, for a line about several
	more     uint64        // number of other events that were not written
	others   uint64        // number of other events of subjects above subjectsMost
	within   time.Duration // time since the first event that the line reports
	ago      time.Duration // time since the event that the line shows
}

// note processes an event at the time now. writeNow reports whether to write it now. In that case, more is the
// number of events that were counted before and that the line has to report, and within is the time since the
// first of them. note allocates only if the subject is new.
func (c *causes) note(now time.Duration, l *Line, h slog.Handler, attrs []slog.Attr) (more uint64, within time.Duration, writeNow bool) {
	k := c.cause(l)
	s := k.subjects[l.Of]
	switch {
	case s == nil && len(k.subjects) >= subjectsMost:
		c.expect(k.others.add(now, k.gatherAt(now), l, h, attrs))
		return 0, 0, false
	case s == nil:
		s = &subject{written: unlogged}
		k.subjects[l.Of] = s
	case s.due <= now: // the interval is over, and expire was not called since
		s.written = unlogged
	}
	if l.Level > s.written && k.mayWrite(now) {
		more, within = s.count, now-s.first
		*s = subject{due: now + causeInterval, written: l.Level}
		k.noteWritten(now)
		c.expect(s.due)
		return more, within, true
	}
	if s.written == unlogged && s.count == 0 {
		s.due = k.gatherAt(now)
	}
	c.expect(s.add(now, s.due, l, h, attrs))
	return 0, 0, false
}

// cause returns the state of a line's cause, and creates it if it does not exist. Causes above causesMost share
// one state.
func (c *causes) cause(l *Line) *cause {
	name := l.Cause
	if name == "" {
		name = l.Text
	}
	if k := c.list[name]; k != nil {
		return k
	}
	if c.list == nil {
		c.list = map[string]*cause{}
	}
	if len(c.list) >= causesMost {
		name = ""
		if k := c.list[name]; k != nil {
			return k
		}
	}
	k := &cause{subjects: map[Subject]*subject{}}
	for i := range k.written {
		k.written[i] = -causeInterval
	}
	c.list[name] = k
	return k
}

// expect makes due not later than at.
func (c *causes) expect(at time.Duration) {
	if c.due == 0 || at < c.due {
		c.due = at
	}
}

// add counts an event that is not written now. It returns due, for expect.
func (t *tally) add(now, due time.Duration, l *Line, h slog.Handler, attrs []slog.Attr) time.Duration {
	if t.count == 0 {
		t.first, t.worst = now, l.Level
	}
	t.worst = max(t.worst, l.Level)
	t.count++
	t.last = now
	e := &t.event
	e.Line, e.log = *l, h
	e.nattrs = copy(e.attrs[:], attrs)
	return due
}

// mayWrite reports whether the limit of lines about single subjects permits another line at the time now.
func (k *cause) mayWrite(now time.Duration) bool { return now-k.written[0] >= causeInterval }

// noteWritten records that a line about a single subject is written at the time now.
func (k *cause) noteWritten(now time.Duration) {
	copy(k.written[:], k.written[1:])
	k.written[causeFew-1] = now
}

// gatherAt returns when an event that cannot be written now is to be reported.
func (k *cause) gatherAt(now time.Duration) time.Duration { return max(now+causeGather, k.gathered) }

// expire returns the lines that are to be written at the time now, oldest first. It also deletes state that is
// no longer needed. If all is set, it returns lines for all counted events, even if they are not due.
func (c *causes) expire(now time.Duration, all bool) (list []report) {
	if c.due == 0 || now < c.due && !all {
		return nil
	}
	c.due = 0
	for _, k := range c.list {
		list = k.expire(now, all, list)
		if next := k.next(); next > 0 {
			c.expect(max(next, now+causeLook))
		}
	}
	// Sort the lines, oldest first.
	slices.SortStableFunc(list, func(a, b report) int { return int(b.ago - a.ago) })
	return list
}

// expire appends the lines of the cause to list, and deletes subjects that are no longer needed.
func (k *cause) expire(now time.Duration, all bool, list []report) []report {
	var ready []Subject
	for of, s := range k.subjects {
		switch {
		case s.count == 0 && s.due <= now:
			delete(k.subjects, of)
		case s.count > 0 && (s.due <= now || all):
			ready = append(ready, of)
		}
	}
	crowded := k.others.count > 0 && (k.others.first+causeGather <= now || all)
	switch {
	case len(ready) == 0 && !crowded:
	case crowded, len(ready) > causeFew, !all && len(ready) > k.room(now):
		if now >= k.gathered || all {
			return append(list, k.gather(now))
		}
		for _, of := range ready { // report these subjects in the next summary
			k.subjects[of].due = k.gathered
		}
	default:
		slices.SortFunc(ready, Subject.compare)
		for _, of := range ready {
			s := k.subjects[of]
			list = append(list, s.report(now))
			*s = subject{due: now + causeInterval, written: s.worst}
			k.noteWritten(now)
		}
	}
	return list
}

// room returns how many lines about single subjects the limit permits at the time now.
func (k *cause) room(now time.Duration) int {
	n := 0
	for _, at := range k.written {
		if now-at >= causeInterval {
			n++
		}
	}
	return n
}

// next returns when expire has to be called next for this cause. 0 means never.
func (k *cause) next() (at time.Duration) {
	for _, s := range k.subjects {
		if at == 0 || s.due < at {
			at = s.due
		}
	}
	if k.others.count > 0 {
		if crowd := max(k.gathered, k.others.first+causeGather); at == 0 || crowd < at {
			at = crowd
		}
	}
	return at
}

// report returns a line for the counted events. It shows the last event, with the level of the most severe one.
func (t *tally) report(now time.Duration) report {
	t.event.Level = t.worst
	return report{event: t.event, more: t.count - 1, within: now - t.first, ago: now - t.last}
}

// gather returns one line that summarizes all counted events of the cause. It shows the last event of a subject
// that had the most severe event.
func (k *cause) gather(now time.Duration) report {
	var worst, sum tally
	var named []Subject
	take := func(t *tally) {
		if sum.count == 0 || t.first < sum.first {
			sum.first = t.first
		}
		sum.count += t.count
		if worst.count == 0 || t.worst > worst.worst || t.worst == worst.worst && t.last > worst.last {
			worst = *t
		}
	}
	for of, s := range k.subjects {
		if s.count > 0 {
			named = append(named, of)
			take(&s.tally)
			s.written = max(s.written, s.worst)
		}
		s.tally = tally{}
		s.due = now + causeInterval
	}
	r := report{subjects: len(named), others: k.others.count}
	if k.others.count > 0 {
		take(&k.others)
		k.others = tally{}
	}
	worst.event.Level = worst.worst
	r.event, r.more, r.within, r.ago = worst.event, sum.count-r.others, now-sum.first, now-worst.last
	if r.more > 0 { // the event that the line shows is not counted in addition
		r.more--
	} else {
		r.others--
	}
	slices.SortFunc(named, Subject.compare)
	r.examples = named[:min(len(named), exampleMost)]
	k.gathered = now + causeInterval
	return r
}

// compare orders subjects by their names.
func (s Subject) compare(o Subject) int { return strings.Compare(s.String(), o.String()) }
