package clients

import (
	"maps"
	"time"
)

// pace spreads what happens over time: as many as fit one second at once, and no more of
// them in the long run. It is not safe for concurrent use.
type pace struct {
	each time.Duration // one takes so long
	// free is when all that has happened is paid for; it is at most a second ago.
	free time.Time
}

func newPace(perSecond int) pace { return pace{each: time.Second / time.Duration(perSecond)} }

// idle tells whether nothing is to be paid for.
func (p *pace) idle(now time.Time) bool { return !p.free.After(now.Add(-time.Second)) }

// next notes that one happens, and returns how long it has to wait.
func (p *pace) next(now time.Time) time.Duration {
	if earliest := now.Add(-time.Second); p.free.Before(earliest) {
		p.free = earliest
	}
	p.free = p.free.Add(p.each)
	return max(0, p.free.Sub(now))
}

// turns are the paces at which users connect, by UID. They are not safe for concurrent use.
type turns map[uint32]*pace

// next notes that a user connects, of whom so many may in a second, and returns how long he
// has to wait. If that is longer than most it notes nothing.
func (u turns) next(uid uint32, perSecond int, now time.Time, most time.Duration) time.Duration {
	p := u[uid]
	if p == nil {
		maps.DeleteFunc(u, func(_ uint32, p *pace) bool { return p.idle(now) })
		fresh := newPace(perSecond)
		p = &fresh
		u[uid] = p
	}
	before := *p
	wait := p.next(now)
	if wait > most {
		*p = before
	}
	return wait
}
