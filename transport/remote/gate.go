package remote

import (
	"math"
	"sync/atomic"
)

// gate is what who uses memory passes through that is going to be unmapped: the last one
// out calls last.
type gate struct {
	// inside is how many there are, plus shut once nobody may enter any more.
	inside atomic.Int64
	last   func()
}

const shut = math.MinInt64 / 2

// enter tells whether the caller may use the memory, until leave.
func (g *gate) enter() bool {
	for {
		n := g.inside.Load()
		if n < 0 {
			return false
		}
		if g.inside.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *gate) leave() {
	if g.inside.Add(-1) == shut {
		g.last()
	}
}

// shut lets nobody enter any more, and does not wait for those inside. It is called once.
func (g *gate) shut() {
	if g.inside.Add(shut) == shut {
		g.last()
	}
}
