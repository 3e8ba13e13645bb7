package socklnd

import (
	"context"

	"github.com/lnetd/lnetd/lnd/peering"
)

// turn is an attempt to connect. Its channel is closed when its turn has come.
type turn = peering.Call[chan struct{}]

// calls holds an interface's attempts to connect that are in progress or wait for their turn. The zero
// value is ready to use.
type calls struct{ peering.Calls[chan struct{}] }

// acquire waits for a turn, which release ends. It returns nil if ctx ended first.
func (c *calls) acquire(ctx context.Context, to peering.Callee) *turn {
	t := c.Add(to, make(chan struct{}))
	c.admit()
	select {
	case <-t.Of:
		return t
	case <-ctx.Done():
		c.release(t)
		return nil
	}
}

// release ends a turn.
func (c *calls) release(t *turn) {
	c.End(t)
	c.admit()
}

// admit starts the calls whose turn has come.
func (c *calls) admit() {
	for t := c.Next(); t != nil; t = c.Next() {
		close(t.Of)
	}
}
