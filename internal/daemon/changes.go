package daemon

import "context"

// changes is the queue of those who change the node's configuration: start, control
// requests, and whoever comes later. One has its turn at a time, so that what it has
// found still holds when it acts.
type changes chan struct{}

func newChanges() changes { return make(changes, 1) }

// inTurn calls do when nobody else changes anything. If ctx ends before, it returns
// the cause of that and does not call do.
func (c changes) inTurn(ctx context.Context, do func()) error {
	select {
	case c <- struct{}{}:
		defer func() { <-c }()
		do()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
