package simulation

import (
	"math/rand/v2"
	"time"
)

// pace determines when an agent performs its next action: after a pause, and sometimes several at once.
type pace struct {
	gap     float64 // average nanoseconds between two actions
	bursts  int     // one pause in so many is followed by a burst
	longest int     // upper limit of the actions in a burst
	burst   int     // remaining actions of the current burst
}

// wait waits until the next action is due.
func (p *pace) wait(r *rand.Rand) {
	if p.burst > 0 {
		p.burst--
		return
	}
	pause(time.Duration(r.ExpFloat64() * p.gap))
	if r.IntN(p.bursts) == 0 {
		p.burst = r.IntN(p.longest)
	}
}
