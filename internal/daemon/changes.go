package daemon

import "context"

// changes is the queue of those who change the node's configuration: start, control
// requests, and whoever comes later. One has its turn at a time, so that what it has
// found still holds when it acts.
type changes struct {
	slot chan struct{}
	// after is called when something may have changed; nil: nobody wants to know.
	after func()
}

func newChanges() changes { return changes{slot: make(chan struct{}, 1)} }

// inTurn calls do when nobody else changes anything. If ctx ends before, it returns
// the cause of that and does not call do.
func (c *changes) inTurn(ctx context.Context, do func()) error {
	select {
	case c.slot <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.after != nil {
		defer c.after()
	}
	defer func() { <-c.slot }()
	do()
	return nil
}
