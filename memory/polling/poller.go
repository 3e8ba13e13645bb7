package polling

import "time"

// DefaultTime is how long a side of a ring polls at most before it sleeps, unless it is configured otherwise. It is
// longer than an exchange between programs of two lnetd takes over loopback.
const DefaultTime = 100 * time.Microsecond

// Rules by which a Poller decides how long it polls.
const (
	// minPoll bounds how far the time is reduced by polling that finds nothing: if it would become shorter than
	// the maximum divided by minPoll, the Poller does not poll any more, except in one of waitsPerTry waits.
	minPoll     = 16
	waitsPerTry = 32
)

// Poller decides how long one side polls before it sleeps. The time becomes longer while polling finds something, and
// shorter while it does not. The zero value does not poll. A Poller is not safe for concurrent use.
type Poller struct {
	most, current time.Duration
	waits         int // waits without polling since the last try
}

// SetTime sets the longest time for which the Poller polls. 0 or less disables polling. Without a change, it has no
// effect.
func (p *Poller) SetTime(most time.Duration) {
	if most = max(0, most); most != p.most {
		*p = Poller{most: most, current: most}
	}
}

// Resting reports whether the Poller, which usually polls, must not do so at the time now, because the processors are
// busy. It is safe for concurrent use, except with SetTime.
func (p *Poller) Resting(now time.Time) bool { return p.most > 0 && Resting(now) }

// Time returns how long to poll in a wait that begins at the time now, or 0 if there is to be no polling. Each wait
// calls it once.
func (p *Poller) Time(now time.Time) time.Duration {
	if p.current == 0 && p.most > 0 {
		if p.waits++; p.waits >= waitsPerTry {
			p.waits, p.current = 0, p.most
		}
	}
	if Resting(now) {
		return 0
	}
	return p.current
}

// Record records whether polling has found something. The polling began and ended at the given times, and Time has
// returned how long it was to take.
func (p *Poller) Record(found bool, began, ended time.Time) {
	switch {
	case found:
		p.current = min(2*p.current, p.most)
		return
	case ended.Sub(began) > p.current+longYield:
		rest(ended)
		return
	}
	if p.current /= 2; p.current < p.most/minPoll {
		p.current = 0
	}
}

// Poll calls found repeatedly until it returns true, and reports whether it has. It yields the processor in between.
// polled is false if it has not polled at all. Poll ends at the given time at the latest, where zero means no limit.
// The caller has acquired a place (Acquire).
func (p *Poller) Poll(until time.Time, found func() bool) (polled, ok bool) {
	now := time.Now()
	d := p.Time(now)
	if d == 0 {
		return false, false
	}
	began, end := now, now.Add(d)
	if !until.IsZero() && until.Before(end) {
		end = until
	}
	for {
		if found() {
			p.Record(true, began, now)
			return true, true
		}
		if !now.Before(end) {
			p.Record(false, began, now)
			return true, false
		}
		if now, ok = yield(now); !ok {
			return true, found()
		}
	}
}
