package hostnet

import (
	"context"
	"slices"
	"sync"
)

// Changes implements Host.Watch for a host in memory. The zero value is ready to use. It is safe for
// concurrent use.
type Changes struct {
	mu       sync.Mutex
	watchers []chan struct{} // each holds one token if there was a change
}

// Watch implements Host.
func (c *Changes) Watch(ctx context.Context, changed func()) error {
	w := make(chan struct{}, 1)
	w <- struct{}{}
	c.mu.Lock()
	c.watchers = append(c.watchers, w)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watchers = slices.DeleteFunc(c.watchers, func(o chan struct{}) bool { return o == w })
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w:
			changed()
		}
	}
}

// Notify reports a change to the watchers. It does not block. Locks may be held.
func (c *Changes) Notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.watchers {
		select {
		case w <- struct{}{}:
		default: // a change is pending already
		}
	}
}
