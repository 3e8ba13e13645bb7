package hostnet

import (
	"context"
	"slices"
	"sync"
)

// Changes implements Host.Watch for a host in memory. The host embeds it and calls Notify after each change.
// The zero value is ready to use. Changes is safe for concurrent use.
type Changes struct {
	mu       sync.Mutex
	watchers []chan struct{} // one channel for each call of Watch; it has a token after a change
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

// Notify makes each running Watch call changed. It does not block. Locks may be held.
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
