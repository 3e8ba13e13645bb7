package daemon

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/config"
)

// stepsAtOnce is the maximum number of steps that are applied together, because the node is blocked
// while this is done.
const stepsAtOnce = 1024

// stepKind is a kind of step. Consecutive steps of the same kind are applied together, because there
// may be very many of them. Steps of the kind single are applied one by one.
type stepKind int

const (
	single stepKind = iota
	addRoute
	deleteRoute
	addPeer
	deletePeer
)

func kindOf(s config.Step) stepKind {
	switch c := s.(type) {
	case config.Change[config.Route]:
		if c.To == nil {
			return deleteRoute
		}
		return addRoute
	case config.Change[config.Peer]:
		switch {
		case c.To == nil:
			return deletePeer
		case c.From == nil && !c.To.Found:
			return addPeer
		}
	}
	return single
}

// batchOf returns the first of the steps, or more of them if they can be applied together: up to
// stepsAtOnce consecutive steps of the same kind.
func batchOf(steps []config.Step) []config.Step {
	kind := kindOf(steps[0])
	for k := 1; k < min(len(steps), stepsAtOnce); k++ {
		if kind == single || kindOf(steps[k]) != kind {
			return steps[:k]
		}
	}
	return steps[:min(len(steps), stepsAtOnce)]
}

// applyBatch applies the steps of one batch (see batchOf) together, and returns how many of them have
// been applied. If a step causes an error, these are the steps before it, but none if the steps change
// routes. The argument wait is that of apply.
func (t *nodeTask) applyBatch(ctx context.Context, batch []config.Step, wait bool) (done int, err error) {
	for _, s := range batch {
		if t.failStep == nil {
			break
		}
		if err := t.failStep(s); err != nil {
			return 0, err
		}
	}
	switch kindOf(batch[0]) {
	case addRoute, deleteRoute:
		err = t.changeRoutes(ctx, batch)
	case addPeer:
		return t.addPeers(ctx, batch)
	case deletePeer:
		return t.deletePeers(ctx, batch)
	default:
		err = t.applyStep(ctx, batch[0], wait)
	}
	if err != nil {
		return 0, err
	}
	return len(batch), nil
}
