package shm

import "sync/atomic"

// counter counts in private memory, and shows the count in the ring file if shown is set.
// Several goroutines may add; what is shown may be behind then, until the next one adds.
type counter struct {
	n     atomic.Uint64
	shown *atomic.Uint64
}

func (c *counter) add(n uint64) {
	n = c.n.Add(n)
	if c.shown != nil {
		c.shown.Store(n)
	}
}

func (c *counter) load() uint64 { return c.n.Load() }
