package nettest

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/figures"
	"github.com/lnetd/lnetd/internal/load/nettest/message"
)

// graceTime is how long the console waits for clients at the end of a test, in addition to the test's
// time and the timeouts of messages and transfers in progress.
const graceTime = 5 * time.Second

// finalStopTime is how long the console waits for the answer to STOP of nodes that did not answer the
// last command.
const finalStopTime = time.Second

// run runs a test on the nodes (transport 10.3) and sets its result. It stops the test on all nodes,
// also after an error.
func (k *console) run(ctx context.Context, r *Result) error {
	err := k.begin(ctx, r)
	if err == nil {
		err = k.watch(ctx, r)
		r.Finish = time.Now()
	}
	// The remaining commands have their own time limits, even if ctx is done.
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

// watch polls the figures of the clients until all have finished, ctx is done, or the time of the test,
// the timeouts and graceTime have passed.
func (k *console) watch(ctx context.Context, r *Result) error {
	t := &k.config.Test
	limit := t.Time + failuresMax*t.Timeout + graceTime
	pause := pollTime / 8 // short at first, so that a short test does not wait for a whole second
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

// figures requests the figures of nodes and sets sum to their total.
func (k *console) figures(ctx context.Context, nodes []*remote, sum *figures.Figures) error {
	answers, err := k.step(ctx, nodes, message.Status)
	if err != nil {
		return err
	}
	all := make([]figures.Figures, 0, len(answers))
	for i, a := range answers {
		if a.Figures == nil {
			return errors.Join(errors.New(nodes[i].name+": the answer to STATUS contains no counters"), syscall.EPROTO)
		}
		all = append(all, *a.Figures)
	}
	*sum = figures.Total(all)
	return nil
}

// stop stops the test on the nodes that may have one. For nodes that did not answer the last command, it
// waits only finalStopTime.
func (k *console) stop(ctx context.Context, nodes []*remote) error {
	var have, silent []*remote
	for _, n := range nodes {
		switch {
		case n.mayHaveTest && n.silent:
			silent = append(silent, n)
		case n.mayHaveTest:
			have = append(have, n)
		}
	}
	if silent != nil {
		ctx, cancel := context.WithTimeout(ctx, min(finalStopTime, k.config.CommandTime))
		defer cancel()
		_, _ = k.stepWithin(ctx, silent, message.Stop) // the missing answer to the last command was already reported
	}
	if have == nil {
		return nil
	}
	_, err := k.step(ctx, have, message.Stop)
	return err
}
