package boundedlog

import (
	"log/slog"
	"slices"
	"strings"
	"time"
)

// The bounds of what is told of one cause.
const (
	causeInterval = time.Minute     // between two lines about one subject
	causeFew      = 2               // lines about single subjects in an interval; one about many comes on top
	causeGather   = 5 * time.Second // how long a line about many waits for more
	causeLook     = time.Second     // between two looks at what has expired

	causesMost   = 64  // told apart; others are one together
	subjectsMost = 512 // of each cause; of others it is only known how often
	exampleMost  = 3   // subjects that a line about many names
	heldAttrs    = 8   // that are kept of an event
)

// causes decide which events are told of: they are a machine without a clock. Times
// are of the caller's clock, which does not go backwards, and above 0. Events are of a cause and a
// subject. The first is told at once, and so is one that is worse than what was told;
// what follows within an interval is counted, and its last one told at the end of
// the interval, or with the next event. A cause that has more to tell than of a few
// subjects tells of all in one line. Nothing is told more than an interval late, if
// somebody calls expire when due says so.
type causes struct {
	list map[string]*cause
	// due is when there is something to do; 0: never.
	due time.Duration
}

type cause struct {
	told     [causeFew]time.Duration // when lines about single subjects were last told
	gathered time.Duration           // when many may be told of again
	subjects map[Subject]*subject
	crowd    tally // of those for whom there was no room
}

// subject is one that was told of lately, or of whom there is something to tell.
type subject struct {
	due  time.Duration // when it may be told of again
	told slog.Level    // the worst that it was told with; lower than all: nothing yet
	tally
}

// untold is below all levels.
const untold = slog.Level(-1 << 30)

// tally is what is to be told.
type tally struct {
	count       uint64
	first, last time.Duration
	worst       slog.Level
	event       event // the last
}

// event is something that may be told.
type event struct {
	Line
	log    slog.Handler
	attrs  [heldAttrs]slog.Attr
	nattrs int
}

// report is what to write: an event, and what it stands for.
type report struct {
	event
	subjects int           // how many there are of whom it tells; 0 or 1: of one
	examples []Subject     // of these
	more     uint64        // further events that were not told
	others   uint64        // further events of those for whom there was no room
	within   time.Duration // since the first of them
	ago      time.Duration // since the event
}

// note takes an event. It says whether it is to be told now, and with how many
// more that were not. It allocates nothing but for a subject that is new.
func (c *causes) note(now time.Duration, l *Line, h slog.Handler, attrs []slog.Attr) (more uint64, within time.Duration, tell bool) {
	k := c.cause(l)
	s := k.subjects[l.Of]
	switch {
	case s == nil && len(k.subjects) >= subjectsMost:
		c.expect(k.crowd.add(now, k.gatherAt(now), l, h, attrs))
		return 0, 0, false
	case s == nil:
		s = &subject{told: untold}
		k.subjects[l.Of] = s
	case s.due <= now: // nobody has looked since
		s.told = untold
	}
	if l.Level > s.told && k.mayTell(now) {
		more, within = s.count, now-s.first
		*s = subject{due: now + causeInterval, told: l.Level}
		k.tell(now)
		c.expect(s.due)
		return more, within, true
	}
	if s.told == untold && s.count == 0 {
		s.due = k.gatherAt(now)
	}
	c.expect(s.add(now, s.due, l, h, attrs))
	return 0, 0, false
}

// cause is that of a line; those beyond the first have one together.
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
	for i := range k.told {
		k.told[i] = -causeInterval
	}
	c.list[name] = k
	return k
}

// expect has due be no later than a time.
func (c *causes) expect(at time.Duration) {
	if c.due == 0 || at < c.due {
		c.due = at
	}
}

// add counts an event that is not told now, and returns due.
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

// mayTell says whether one more line about a single subject may be told.
func (k *cause) mayTell(now time.Duration) bool { return now-k.told[0] >= causeInterval }

// tell notes such a line.
func (k *cause) tell(now time.Duration) {
	copy(k.told[:], k.told[1:])
	k.told[causeFew-1] = now
}

// gatherAt is when to tell of what cannot be told now.
func (k *cause) gatherAt(now time.Duration) time.Duration { return max(now+causeGather, k.gathered) }

// expire returns what is to be told, or, if all is set, all that was not told, and
// forgets what is over.
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
	// In the order in which it happened.
	slices.SortStableFunc(list, func(a, b report) int { return int(b.ago - a.ago) })
	return list
}

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
	crowded := k.crowd.count > 0 && (k.crowd.first+causeGather <= now || all)
	switch {
	case len(ready) == 0 && !crowded:
	case crowded, len(ready) > causeFew, !all && len(ready) > k.room(now):
		if now >= k.gathered || all {
			return append(list, k.gather(now))
		}
		for _, of := range ready { // together with those who wait already
			k.subjects[of].due = k.gathered
		}
	default:
		slices.SortFunc(ready, Subject.compare)
		for _, of := range ready {
			s := k.subjects[of]
			list = append(list, s.report(now))
			*s = subject{due: now + causeInterval, told: s.worst}
			k.tell(now)
		}
	}
	return list
}

// room is how many lines about single subjects may be told.
func (k *cause) room(now time.Duration) int {
	n := 0
	for _, at := range k.told {
		if now-at >= causeInterval {
			n++
		}
	}
	return n
}

// next is when there is something to do; 0: never.
func (k *cause) next() (at time.Duration) {
	for _, s := range k.subjects {
		if at == 0 || s.due < at {
			at = s.due
		}
	}
	if k.crowd.count > 0 {
		if crowd := max(k.gathered, k.crowd.first+causeGather); at == 0 || crowd < at {
			at = crowd
		}
	}
	return at
}

// report tells of what was counted: the last event, at the level of the worst.
func (t *tally) report(now time.Duration) report {
	t.event.Level = t.worst
	return report{event: t.event, more: t.count - 1, within: now - t.first, ago: now - t.last}
}

// gather tells of all subjects with something to tell in one line: of the last event
// of one of those to whom the worst happened.
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
			s.told = max(s.told, s.worst)
		}
		s.tally = tally{}
		s.due = now + causeInterval
	}
	r := report{subjects: len(named), others: k.crowd.count}
	if k.crowd.count > 0 {
		take(&k.crowd)
		k.crowd = tally{}
	}
	worst.event.Level = worst.worst
	r.event, r.more, r.within, r.ago = worst.event, sum.count-r.others, now-sum.first, now-worst.last
	if r.more > 0 { // the event itself is one of them
		r.more--
	} else {
		r.others--
	}
	slices.SortFunc(named, Subject.compare)
	r.examples = named[:min(len(named), exampleMost)]
	k.gathered = now + causeInterval
	return r
}

func (s Subject) compare(o Subject) int { return strings.Compare(s.String(), o.String()) }
