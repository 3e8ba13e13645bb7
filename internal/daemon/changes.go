package daemon

import "context"

// changes serializes changes of the node's configuration by start, reload and control requests.
// Only one change is in turn at a time, so what it has read still holds when it acts.
type changes struct {
	slot chan struct{}
	// after, if not nil, is called when something may have changed.
	after func()
}

func newChanges() changes { return changes{slot: make(chan struct{}, 1)} }

// inTurn calls do when no other change is in progress. If ctx ends first, inTurn returns the
// cause of that and does not call do.
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
