package shm

import "sync/atomic"

// counter counts in private memory. If shown is set, it also publishes the count in the ring file. Several
// goroutines may add concurrently. The published value may then lag until the next add.
type counter struct {
	n         atomic.Uint64
	published *atomic.Uint64
}

func (c *counter) add(n uint64) {
	n = c.n.Add(n)
	if c.published != nil {
		c.published.Store(n)
	}
}

func (c *counter) load() uint64 { return c.n.Load() }
