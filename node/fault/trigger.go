package fault

import (
	"math"
	"math/rand/v2"
	"time"
)

// trigger picks the messages to hit among those that match (lnet-core 11.1).
// Either rate or interval is set.
type trigger struct {
	rate     int
	interval time.Duration
	coin     bool // with an interval: toss for each message instead

	random *rand.Rand

	// By rate: how many messages the present window of that many has seen, and
	// which of them, from 0, is hit.
	seen, place int
	// By interval: when the hit of the present window is due, and when the
	// window began.
	due, begun int64
}

func newTrigger(r *Rule, random *rand.Rand, now int64) trigger {
	t := trigger{rate: r.Rate, interval: r.Interval, coin: r.Random, random: random}
	if t.rate != 0 {
		t.restart()
	} else {
		t.begin(now)
	}
	return t
}

// hit tells whether one more matching message is hit.
func (t *trigger) hit(now int64) bool {
	switch {
	case t.rate != 0:
		return t.hitByRate()
	case t.coin:
		return t.random.IntN(2) == 0
	}
	return t.hitByInterval(now)
}

// alwaysFirst is the rate whose first window has its hit at the first message,
// so that a test can fail a first attempt and let the second pass.
const alwaysFirst = 2

// restart begins the first window of a rate.
func (t *trigger) restart() {
	t.seen, t.place = 0, 0
	if t.rate != 0 && t.rate != alwaysFirst {
		t.place = t.random.IntN(t.rate)
	}
}

func (t *trigger) hitByRate() bool {
	hit := t.seen == t.place
	if t.seen++; t.seen == t.rate {
		t.seen, t.place = 0, t.random.IntN(t.rate)
	}
	return hit
}

// begin begins a window of the interval.
func (t *trigger) begin(at int64) {
	t.begun = at
	t.due = later(at, time.Duration(t.random.Int64N(int64(t.interval))))
}

// hitByInterval hits the first message at or after the moment of a window.
// Moments that pass without a message hit one message together: a silence is
// not made up for.
func (t *trigger) hitByInterval(now int64) bool {
	if now < t.due {
		return false
	}
	present := now - (now-t.begun)%int64(t.interval)
	if present != t.begun {
		if t.begin(present); t.due > now {
			return true
		}
	}
	t.begin(later(present, t.interval))
	return true
}

// later is now + d, or the end of time if that lies beyond.
func later(now int64, d time.Duration) int64 {
	if t := now + int64(d); t >= now {
		return t
	}
	return math.MaxInt64
}
