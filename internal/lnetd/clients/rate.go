package clients

import (
	"maps"
	"time"
)

// rateLimit limits a rate. It permits bursts of one second's worth. It is not safe for concurrent use.
type rateLimit struct {
	interval time.Duration // the inverse of the rate
	// paidUntil is when all past events are paid off. It is at most one second before now.
	paidUntil time.Time
}

func newRateLimit(perSecond int) rateLimit {
	return rateLimit{interval: time.Second / time.Duration(perSecond)}
}

// idle reports whether all past events are paid off.
func (p *rateLimit) idle(now time.Time) bool { return !p.paidUntil.After(now.Add(-time.Second)) }

// next records an event and returns how long it must be delayed.
func (p *rateLimit) next(now time.Time) time.Duration {
	if earliest := now.Add(-time.Second); p.paidUntil.Before(earliest) {
		p.paidUntil = earliest
	}
	p.paidUntil = p.paidUntil.Add(p.interval)
	return max(0, p.paidUntil.Sub(now))
}

// userPaces holds the pace of connections of each user, by UID. It is not safe for concurrent use.
type userPaces map[uint32]*rateLimit

// next records a connection of a user who may make perSecond of them per second. It returns how long the
// connection must be delayed. If that exceeds most, nothing is recorded.
func (u userPaces) next(uid uint32, perSecond int, now time.Time, most time.Duration) time.Duration {
	p := u[uid]
	if p == nil {
		maps.DeleteFunc(u, func(_ uint32, p *rateLimit) bool { return p.idle(now) })
		fresh := newRateLimit(perSecond)
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
