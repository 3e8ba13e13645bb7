package fault

import (
	"math"
	"math/rand/v2"
	"time"
)

// trigger decides which of the matching messages a rule hits (lnet-core 11.1). Exactly one
// of rate and interval is set.
type trigger struct {
	rate     int
	interval time.Duration
	coin     bool // with an interval: hit each message with a probability of 1/2 instead

	random *rand.Rand

	// With a rate, messages are counted in windows of that many messages. seen is the number
	// of messages in the current window so far, and place is the index of the message to hit.
	seen, place int
	// With an interval, begun is when the current window began, and due is when its hit is
	// due.
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

// hit reports whether the rule hits the message that has just matched.
func (t *trigger) hit(now int64) bool {
	switch {
	case t.rate != 0:
		return t.hitByRate()
	case t.coin:
		return t.random.IntN(2) == 0
	}
	return t.hitByInterval(now)
}

// alwaysFirst is the rate for which the first message is always hit. A test can so fail a
// first attempt and let the second one pass.
const alwaysFirst = 2

// restart begins the first window of a rate. It has no effect with an interval.
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

// begin begins a window of the interval, at the given time, and chooses when its hit is
// due.
func (t *trigger) begin(at int64) {
	t.begun = at
	t.due = later(at, time.Duration(t.random.Int64N(int64(t.interval))))
}

// hitByInterval reports whether the message is the first one at or after the due time of
// the current window. If the due times of several windows pass without a message, only one
// message is hit for all of them.
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

// later returns now + d, or math.MaxInt64 if that overflows.
func later(now int64, d time.Duration) int64 {
	if t := now + int64(d); t >= now {
		return t
	}
	return math.MaxInt64
}
