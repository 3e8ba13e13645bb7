package clients

import (
	"maps"
	"time"
)

// pace limits a rate. It permits bursts of one second's worth. It is not safe for concurrent use.
type pace struct {
	each time.Duration // the inverse of the rate
	// free is when all past events are paid off. It is at most one second before now.
	free time.Time
}

func newPace(perSecond int) pace { return pace{each: time.Second / time.Duration(perSecond)} }

// idle reports whether all past events are paid off.
func (p *pace) idle(now time.Time) bool { return !p.free.After(now.Add(-time.Second)) }

// next records an event and returns how long it must be delayed.
func (p *pace) next(now time.Time) time.Duration {
	if earliest := now.Add(-time.Second); p.free.Before(earliest) {
		p.free = earliest
	}
	p.free = p.free.Add(p.each)
	return max(0, p.free.Sub(now))
}

// turns holds the pace of connections of each user, by UID. It is not safe for concurrent use.
type turns map[uint32]*pace

// next records a connection of a user who may make perSecond of them per second. It returns how long the
// connection must be delayed. If that exceeds most, nothing is recorded.
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
