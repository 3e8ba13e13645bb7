package simulation

import (
	"math/rand/v2"
	"time"
)

// pace determines when an agent performs its next action. Most actions follow a random pause; sometimes
// a burst of actions follows without pauses.
type pace struct {
	gap     float64 // average nanoseconds between two actions
	bursts  int     // on average, a burst follows one of this many pauses
	longest int     // upper limit of the actions in a burst
	burst   int     // remaining actions of the current burst
}

// wait waits until the agent must perform its next action.
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
