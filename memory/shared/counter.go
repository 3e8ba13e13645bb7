package shared

import "sync/atomic"

// counter counts in private memory. If published is set, it also stores the count there, in the ring file.
// Several goroutines may call add at a time; the published value may then be too low until the next add.
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
