package remote

import (
	"math"
	"sync/atomic"
)

// gate protects memory that is going to be unmapped. Users of the memory call enter and leave. Once shut was
// called, no user can enter; when the last user has left, the gate calls last, which unmaps the memory.
type gate struct {
	// inside is the number of users between enter and leave. The method shut adds the constant shut, which
	// makes it negative.
	inside atomic.Int64
	last   func()
}

const shut = math.MinInt64 / 2

// enter reports whether the caller may use the memory. If it returns true, the caller must call leave.
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

// shut makes further calls of enter return false. It does not wait for current users. It must be called only
// once.
func (g *gate) shut() {
	if g.inside.Add(shut) == shut {
		g.last()
	}
}
