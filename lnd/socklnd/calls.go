package socklnd

import (
	"context"
	"sync"

	"github.com/lnetd/lnetd/lnd/peering"
)

// calls holds an interface's attempts to connect that are in progress or wait for their turn. The zero
// value is ready to use.
type calls struct {
	mu  sync.Mutex                     // guards all
	all peering.Calls[chan<- struct{}] // each channel is closed when its turn has come
}

// take waits for a turn, which give ends. It returns false if ctx ended first.
func (c *calls) take(ctx context.Context, to peering.Callee) bool {
	turn := make(chan struct{})
	c.mu.Lock()
	place := c.all.Add(to, turn)
	c.admit()
	c.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-turn: // the turn came at the same moment
		c.all.Done(to)
		c.admit()
	default:
		c.all.Remove(to, place)
	}
	return false
}

// give ends a turn.
func (c *calls) give(to peering.Callee) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Done(to)
	c.admit()
}

// admit starts the calls whose turn has come. mu is held.
func (c *calls) admit() {
	for turn, _, ok := c.all.Next(); ok; turn, _, ok = c.all.Next() {
		close(turn)
	}
}

// queued returns how many calls wait.
func (c *calls) queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.Waiting()
}
