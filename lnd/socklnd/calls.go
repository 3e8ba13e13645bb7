package socklnd

import (
	"context"

	"github.com/lnetd/lnetd/lnd/peering"
)

// turn is an attempt to connect. Its channel is closed when the attempt may start.
type turn = peering.Call[chan struct{}]

// calls holds an interface's attempts to connect: those in progress, and those that wait because too many are
// in progress. The zero value is ready to use.
type calls struct{ peering.Calls[chan struct{}] }

// acquire waits until an attempt to connect to a peer of the given kind may start. The caller ends the
// attempt with release. acquire returns nil if ctx ends first.
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

// release ends an attempt, and starts another one that waits.
func (c *calls) release(t *turn) {
	c.End(t)
	c.admit()
}

// admit lets waiting attempts start, as far as the limits permit it.
func (c *calls) admit() {
	for t := c.Next(); t != nil; t = c.Next() {
		close(t.Of)
	}
}
