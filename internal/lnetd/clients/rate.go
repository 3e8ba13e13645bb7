package clients

import (
	"maps"
	"time"
)

// rateLimit limits the number of events per second by telling its caller how long to delay each event. As
// many events as are permitted per second may happen at once. It is not safe for concurrent use.
type rateLimit struct {
	interval time.Duration // the time for which one event counts: a second divided by the permitted number
	// paidUntil is the time up to which past events have used the permitted rate. When an event occurs,
	// an earlier time than one second before is replaced by that time.
	paidUntil time.Time
}

func newRateLimit(perSecond int) rateLimit {
	return rateLimit{interval: time.Second / time.Duration(perSecond)}
}

// idle reports whether past events no longer have an effect, so that the limit need not be kept.
func (p *rateLimit) idle(now time.Time) bool { return !p.paidUntil.After(now.Add(-time.Second)) }

// next records an event at the time now and returns how long the caller must delay it.
func (p *rateLimit) next(now time.Time) time.Duration {
	if earliest := now.Add(-time.Second); p.paidUntil.Before(earliest) {
		p.paidUntil = earliest
	}
	p.paidUntil = p.paidUntil.Add(p.interval)
	return max(0, p.paidUntil.Sub(now))
}

// userPaces limits the rate at which each user makes connections. The keys are UIDs. It is not safe for
// concurrent use.
type userPaces map[uint32]*rateLimit

// next records a connection of a user, and returns how long the caller must delay it so that the user makes
// at most perSecond connections per second. If the delay exceeds most, the caller must reject the
// connection, and next does not record it.
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
