package daemon

import "context"

// changes serializes the changes that start, reload and control requests make to the node's
// configuration. Each change runs as a function that is passed to inTurn. While it runs, no
// other change is made, so what it has read stays valid.
type changes struct {
	turn chan struct{}
	// after, if not nil, is called when something may have changed.
	after func()
}

func newChanges() changes { return changes{turn: make(chan struct{}, 1)} }

// inTurn calls do when no other change is in progress. If ctx ends first, inTurn returns the
// cause of that and does not call do.
func (c *changes) inTurn(ctx context.Context, do func()) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.after != nil {
		defer c.after()
	}
	defer func() { <-c.turn }()
	do()
	return nil
}
