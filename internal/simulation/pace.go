package simulation

import (
	"math/rand/v2"
	"time"
)

// pace is when an agent does the next of its deeds: after a while, and now and then several at
// once.
type pace struct {
	gap     float64 // nanoseconds between two deeds, on the average
	bursts  int     // one wait in so many is followed by a burst
	longest int     // of fewer deeds than this
	burst   int     // deeds that are left of one
}

// wait waits until the next deed is due.
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
