package nettest

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/nettest/figures"
	"github.com/lnetd/lnetd/internal/nettest/message"
)

// graceTime is what clients have at the end of a test beyond their time and the time-outs
// of what is under way.
const graceTime = 5 * time.Second

// partingTime is how long the console waits for those to stop that have not answered before.
const partingTime = time.Second

// run takes the nodes through a test (transport 10.3), and stops it whatever happens.
func (k *console) run(ctx context.Context, r *Result) error {
	err := k.begin(ctx, r)
	if err == nil {
		err = k.watch(ctx, r)
		r.Finish = time.Now()
	}
	// What is left to do takes as long as its commands, also if ctx has ended.
	ctx = context.WithoutCancel(ctx)
	if err == nil {
		err = k.figures(ctx, k.clients, &r.Clients)
	}
	err = errors.Join(err, k.stop(ctx, k.clients))
	if err == nil {
		err = k.figures(ctx, k.servers, &r.Servers)
	}
	return errors.Join(err, k.stop(ctx, k.servers))
}

func (k *console) begin(ctx context.Context, r *Result) error {
	for _, s := range []struct {
		nodes []*remote
		do    message.Type
	}{{k.servers, message.Init}, {k.clients, message.Init}, {k.servers, message.Start}, {k.clients, message.Start}} {
		r.Start = time.Now()
		if _, err := k.step(ctx, s.nodes, s.do); err != nil {
			return err
		}
	}
	return nil
}

// watch asks the clients each second how it goes, until they have finished, ctx ends, or
// they ought to have finished.
func (k *console) watch(ctx context.Context, r *Result) error {
	t := &k.config.Test
	limit := t.Time + failuresMax*t.Timeout + graceTime
	pause := pollTime / 8 // a short test is not to wait for a whole second
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			pause = min(2*pause, pollTime)
			timer.Reset(pause)
		case <-ctx.Done():
			return nil
		}
		if err := k.figures(ctx, k.clients, &r.Clients); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		elapsed := time.Since(r.Start)
		if k.config.Progress != nil {
			k.config.Progress(elapsed, &r.Clients)
		}
		if r.Clients.Finished || t.Time > 0 && elapsed > limit {
			return nil
		}
	}
}

// figures asks nodes for what they have counted, and adds it up.
func (k *console) figures(ctx context.Context, nodes []*remote, sum *figures.Figures) error {
	answers, err := k.step(ctx, nodes, message.Status)
	if err != nil {
		return err
	}
	all := make([]figures.Figures, 0, len(answers))
	for i, a := range answers {
		if a.Figures == nil {
			return errors.Join(errors.New(nodes[i].name+": an answer without figures"), syscall.EPROTO)
		}
		all = append(all, *a.Figures)
	}
	*sum = figures.Total(all)
	return nil
}

// stop stops the nodes that may have a test. Of those that were silent already it does not
// expect much.
func (k *console) stop(ctx context.Context, nodes []*remote) error {
	var have, silent []*remote
	for _, n := range nodes {
		switch {
		case n.inited && n.silent:
			silent = append(silent, n)
		case n.inited:
			have = append(have, n)
		}
	}
	if silent != nil {
		ctx, cancel := context.WithTimeout(ctx, min(partingTime, k.config.CommandTime))
		defer cancel()
		_, _ = k.stepWithin(ctx, silent, message.Stop) // that they are silent was told
	}
	if have == nil {
		return nil
	}
	_, err := k.step(ctx, have, message.Stop)
	return err
}
