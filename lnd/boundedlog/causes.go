package boundedlog

import (
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Limits per cause.
const (
	causeInterval = time.Minute      // minimum time between two lines about one subject
	causeFew      = 2                // repeated lines about single subjects per interval; one summary may be added
	causeNews     = 16               // lines about first failures per interval, and as many about recoveries
	causeGather   = 5 * time.Second  // how long a summary waits for more events
	causeLook     = time.Second      // minimum time between two calls of expire
	causeMemory   = 10 * time.Minute // time without events after which a failure counts as the first one again

	causesMost   = 64  // causes that are tracked separately; all others share one entry
	subjectsMost = 512 // subjects per cause; events of further subjects are only counted
	exampleMost  = 3   // subjects that a summary names, if all were named before
	unnamedMost  = 128 // subjects that a summary names because no line has named their failure
	heldAttrs    = 8   // attributes that are kept of a counted event
)

// causes decides which events are written. It has no clock: the caller passes times, which never go back and
// are greater than 0. Each event has a cause and a subject. Three kinds of events are written immediately:
//
//   - the first failure of a subject: an event at level warn or above, if no line has named a failure of the
//     subject for causeMemory, or since it recovered for an interval;
//   - a recovery, if a line has named a failure of the subject and none shows that the last one has ended;
//   - any other event, if it is the first one of its subject within an interval, or more severe than the line
//     before.
//
// Each kind has a budget per cause, so other subjects and repeated failures do not hide the first failure of a
// subject, nor its recovery. Other events are counted. The last of them is written at the end of the interval, or
// together with the next event that is written. If too many subjects of a cause have counted events, one line
// summarizes them all, and names those whose failure no line has named. No event is reported more than an
// interval late, if the caller calls expire at the time due.
type causes struct {
	list map[string]*cause // by Line.Cause; "" is shared by the causes above causesMost
	// due is when expire has to be called next. 0 means never.
	due   time.Duration
	stats Stats
}

// cause is the state of one cause.
type cause struct {
	repeated   budget // for lines about single subjects that are neither a first failure nor a recovery
	failures   budget // for first failures
	recoveries budget
	warned     time.Duration // when the last line said that a budget is used up
	swept      time.Duration // when quiet subjects were last deleted to make room
	gathered   time.Duration // when the next summary may be written
	subjects   map[Subject]*subject
	others     tally // events of subjects above subjectsMost
}

// subject is the state of a subject about which a line was written recently, or which has counted events.
type subject struct {
	due       time.Duration // when the next line about the subject may be written
	quiet     time.Duration // when the state may be deleted, if no event is counted
	written   slog.Level    // level of the last line in this interval; unlogged if no line was written
	named     bool          // a line has named a failure of the subject
	failing   bool          // a line shows a failure of the subject, and none shows that it has ended
	recovered bool          // a recovery was written in this interval
	tally
}

// unlogged is lower than any level.
const unlogged = slog.Level(-1 << 30)

// failure reports whether events of the level are failures. Others may be recoveries.
func failure(l slog.Level) bool { return l >= slog.LevelWarn }

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
	examples []Subject     // some of these subjects, for a line about several; those that no line has named first
	more     uint64        // number of other events that were not written
	others   uint64        // number of other events of subjects above subjectsMost
	within   time.Duration // time since the first event that the line reports
	ago      time.Duration // time since the event that the line shows
}

// verdict is what note decides about an event.
type verdict struct {
	write  bool          // write the event now
	more   uint64        // number of events that were counted before and that the line has to report
	within time.Duration // time since the first of them
	full   bool          // write also that the budget of the cause is used up
}

// note processes an event at the time now. It allocates only if the subject is new.
func (c *causes) note(now time.Duration, l *Line, h slog.Handler, attrs []slog.Attr) (v verdict) {
	k := c.cause(l)
	s := k.subject(now, l.Of)
	if s == nil {
		v.full = k.exhausted(now)
		c.stats.Summarized++
		c.stats.OverBudget++
		c.expect(k.others.add(now, k.gatherAt(now), l, h, attrs))
		return v
	}
	if s.due <= now { // the interval is over, and expire was not called since
		s.written, s.recovered = unlogged, false
	}
	of := &k.repeated
	news, due := true, false
	switch {
	case l.Recovery && s.failing:
		of, due = &k.recoveries, !s.recovered
	case failure(l.Level) && !s.named:
		of, due = &k.failures, l.Level > s.written
	default:
		news, due = false, l.Level > s.written
	}
	if due && of.take(now) {
		v = verdict{write: true, more: s.count, within: now - s.first}
		s.tally = tally{}
		s.recovered = s.recovered || l.Recovery
		s.show(now, max(s.written, l.Level), l)
		s.named = s.named || failure(l.Level)
		c.expect(s.next())
		return v
	}
	if due && news {
		v.full = k.exhausted(now)
		c.stats.OverBudget++
	}
	if s.written == unlogged && s.count == 0 {
		s.due = k.gatherAt(now)
	}
	c.stats.Summarized++
	c.expect(s.add(now, s.due, l, h, attrs))
	return v
}

// subject returns the state of a subject, and creates it if it does not exist. It returns nil if there are too many.
func (k *cause) subject(now time.Duration, of Subject) *subject {
	s := k.subjects[of]
	if s != nil {
		return s
	}
	if len(k.subjects) >= subjectsMost && now >= k.swept+causeLook {
		k.swept = now
		for of, s := range k.subjects {
			if s.count == 0 && s.due <= now { // forget failures early rather than miss new ones
				delete(k.subjects, of)
			}
		}
	}
	if len(k.subjects) >= subjectsMost {
		return nil
	}
	s = &subject{written: unlogged}
	k.subjects[of] = s
	return s
}

// show notes that a line about the subject was written at the time now. written is the most severe level of the
// interval that begins, and shown is the event that the line shows.
func (s *subject) show(now time.Duration, written slog.Level, shown *Line) {
	s.written, s.due = written, now+causeInterval
	s.failing = !shown.Recovery && (s.failing || failure(written))
	s.quiet = s.due
	if s.failing {
		s.quiet = now + causeMemory
	}
}

// next returns when expire has to look at the subject.
func (s *subject) next() time.Duration {
	if s.count == 0 {
		return s.quiet
	}
	return s.due
}

// exhausted reports whether a line has to say at the time now that the budget of the cause is used up.
func (k *cause) exhausted(now time.Duration) bool {
	if now-k.warned < causeInterval {
		return false
	}
	k.warned = now
	return true
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
	k := &cause{
		repeated: newBudget(causeFew), failures: newBudget(causeNews), recoveries: newBudget(causeNews),
		warned: -causeInterval, subjects: map[Subject]*subject{},
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
		if next := k.next(now); next > 0 {
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
		case s.count == 0 && s.quiet <= now:
			delete(k.subjects, of)
		case s.count > 0 && (s.due <= now || all):
			ready = append(ready, of)
		}
	}
	crowded := k.others.count > 0 && (k.others.first+causeGather <= now || all)
	switch {
	case len(ready) == 0 && !crowded:
	case crowded, len(ready) > causeFew, !all && len(ready) > k.repeated.left(now):
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
			s.named = s.named || failure(s.worst)
			s.recovered = false
			s.show(now, s.worst, &s.event.Line)
			list = append(list, s.report(now))
			s.tally = tally{}
			k.repeated.use(now)
		}
	}
	return list
}

// next returns when expire has to be called next for this cause, after a call at the time now. 0 means never.
func (k *cause) next(now time.Duration) (at time.Duration) {
	for _, s := range k.subjects {
		look := s.next()
		if s.count == 0 { // there is no hurry to delete it
			look = max(look, now+causeInterval)
		}
		if at == 0 || look < at {
			at = look
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
// that had the most severe event. It names the subjects whose failure no line has named, as far as unnamedMost
// permits, and otherwise a few examples.
func (k *cause) gather(now time.Duration) report {
	var worst, sum tally
	var known, unnamed []Subject
	add := func(t *tally) {
		if sum.count == 0 || t.first < sum.first {
			sum.first = t.first
		}
		sum.count += t.count
		if worst.count == 0 || t.worst > worst.worst || t.worst == worst.worst && t.last > worst.last {
			worst = *t
		}
	}
	for of, s := range k.subjects {
		if s.count == 0 {
			continue
		}
		if failure(s.worst) && !s.named {
			unnamed = append(unnamed, of)
		} else {
			known = append(known, of)
		}
		add(&s.tally)
		s.recovered = false
		s.show(now, max(s.written, s.worst), &s.event.Line)
		s.tally = tally{}
	}
	r := report{subjects: len(known) + len(unnamed), others: k.others.count}
	if k.others.count > 0 {
		add(&k.others)
		k.others = tally{}
	}
	worst.event.Level = worst.worst
	r.event, r.more, r.within, r.ago = worst.event, sum.count-r.others, now-sum.first, now-worst.last
	if r.more > 0 { // the event that the line shows is not counted in addition
		r.more--
	} else {
		r.others--
	}
	slices.SortFunc(unnamed, Subject.compare)
	slices.SortFunc(known, Subject.compare)
	unnamed = unnamed[:min(len(unnamed), unnamedMost)]
	for _, of := range unnamed {
		k.subjects[of].named = true
	}
	r.examples = slices.Concat(unnamed, known[:min(len(known), max(0, exampleMost-len(unnamed)))])
	k.gathered = now + causeInterval
	return r
}

// compare orders subjects by their names.
func (s Subject) compare(o Subject) int { return strings.Compare(s.String(), o.String()) }
