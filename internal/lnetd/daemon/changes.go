package daemon

import "context"

// changes serializes the changes to the node's configuration that the start of lnetd, reloads and
// control requests make. Each change runs as a function that is passed to inTurn. No other change
// runs at the same time, so the state that the function has read cannot become outdated.
type changes struct {
	turn chan struct{}
	// after, if not nil, is called after each function that inTurn has run.
	after func()
}

func newChanges() changes { return changes{turn: make(chan struct{}, 1)} }

// inTurn waits until no other change is in progress, and then calls do. If ctx ends first, inTurn
// returns the cause and does not call do.
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
