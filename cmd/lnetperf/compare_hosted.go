package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/lnetd/lnetd/internal/load/perf"
)

// role is the role of a process that "compare --hosted" starts: an lnetd or a program that uses it, on the near
// or on the far side.
type role string

const (
	nearHost  role = "near-lnetd"
	farHost   role = "far-lnetd"
	nearGuest role = "near-program"
	farGuest  role = "far-program"
)

// serve performs the role until ctx is done. It calls ready when the process is ready for requests.
func (r role) serve(ctx context.Context, o *compareOptions, ready func()) error {
	c := o.hostConfig()
	switch r {
	case nearHost, farHost:
		return perf.ServeHost(ctx, c, r == farHost, ready)
	case nearGuest:
		return perf.ServeGuest(ctx, c, false, perf.InheritedPlainFiles(), ready)
	case farGuest:
		return perf.ServeGuest(ctx, c, true, perf.PlainFiles{}, ready)
	}
	return usage("--role %q does not exist", string(r))
}

// hostConfig returns the configuration of the measurement "compare --hosted" that the options describe.
func (o *compareOptions) hostConfig() perf.HostConfig {
	c := perf.DefaultHostConfig(o.sockets)
	c.Port, c.Only, c.Settings = o.Port, o.Only, o.Settings
	if o.rounds {
		c.Rounds = o.Rounds
	}
	if o.time {
		c.Time = o.Time
	}
	return c
}

// measureHosted performs "compare --hosted": it starts two lnetd and a program for each of them, runs the
// measurement, and prints the results.
func (p *program) measureHosted(ctx context.Context, o *compareOptions) (err error) {
	if o.sockets, err = os.MkdirTemp("", "lnetperf"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.sockets)) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []*process
	defer func() {
		for _, c := range slices.Backward(all) {
			err = errors.Join(err, c.end())
		}
	}()
	start := func(r role, files ...*os.File) error {
		c, err := p.startProcess(ctx, o, cancel, files, nil, "--role="+string(r))
		if err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
		all = append(all, c)
		return nil
	}
	for _, r := range []role{nearHost, farHost, farGuest} {
		if err := start(r); err != nil {
			return err
		}
	}
	list, err := perf.RunHosted(ctx, o.hostConfig(), func(f perf.PlainFiles) error {
		err := start(nearGuest, f.List()...)
		for _, file := range f.List() {
			err = errors.Join(err, file.Close())
		}
		return errors.Join(err, o.keepApart(0))
	}, func(r *perf.HostedResult) { p.caseDone(r.Case) })
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]any{"machine": perf.Machine(), "cases": list})
	}
	return perf.PrintHosted(p.stdout, list)
}
