package remote

import (
	"math"
	"sync/atomic"
)

// gate protects memory that is going to be unmapped. After shut, when the last user has left, it calls
// last.
type gate struct {
	// inside is the number of users, plus shut after shut was called.
	inside atomic.Int64
	last   func()
}

const shut = math.MinInt64 / 2

// enter reports whether the caller may use the memory. If so, the caller must call leave.
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

// shut prevents later calls of enter from succeeding. It does not wait for current users. It is called
// once.
func (g *gate) shut() {
	if g.inside.Add(shut) == shut {
		g.last()
	}
}
