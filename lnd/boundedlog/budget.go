package boundedlog

import "time"

// budget is a number of lines that may be written within any causeInterval.
type budget struct {
	used []time.Duration // when the latest lines were written, as a ring
	next int             // index of the oldest of them
}

func newBudget(lines int) budget {
	b := budget{used: make([]time.Duration, lines)}
	for k := range b.used {
		b.used[k] = -causeInterval
	}
	return b
}

// take uses the budget for one line at the time now. It returns false if nothing is left.
func (b *budget) take(now time.Duration) bool {
	if now-b.used[b.next] < causeInterval {
		return false
	}
	b.use(now)
	return true
}

// use records a line that is written at the time now.
func (b *budget) use(now time.Duration) {
	b.used[b.next] = now
	b.next = (b.next + 1) % len(b.used)
}

// left returns how many lines may be written at the time now.
func (b *budget) left(now time.Duration) (n int) {
	for _, at := range b.used {
		if now-at >= causeInterval {
			n++
		}
	}
	return n
}
