package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/lnetd/lnetd/internal/load/perf"
)

// role is the role of a process that "scale" or "compare --hosted" starts. The latter starts an lnetd and a program that
// uses it, on the near and on the far side.
type role string

const (
	nearHost  role = "near-lnetd"
	farHost   role = "far-lnetd"
	nearGuest role = "near-program"
	farGuest  role = "far-program"
	// Processes of "scale".
	prober  role = "prober"
	echoer  role = "echoer"
	router  role = "router"
	servers role = "servers"
)

// serve performs the role until ctx is done. It calls ready when the process is ready for requests.
func (r role) serve(ctx context.Context, o *compareOptions, ready func()) error {
	switch r {
	case echoer:
		return perf.ServeEcho(ctx, o.Config, ready)
	case router:
		return perf.ServeRouter(ctx, o.Config, ready)
	case servers:
		return perf.ServeServers(ctx, o.Config, o.servers, ready)
	}
	c, err := o.hostConfig()
	if err != nil {
		return err
	}
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
func (o *compareOptions) hostConfig() (perf.HostConfig, error) {
	c := perf.DefaultHostConfig(o.sockets)
	c.Port, c.Only, c.Settings, c.Hosts = o.Port, o.Only, o.Settings, o.hosts
	if o.rounds {
		c.Rounds = o.Rounds
	}
	if o.time {
		c.Time = o.Time
	}
	if o.rdma {
		return c, c.UseRDMA()
	}
	return c, nil
}

// measureHosted performs "compare --hosted": it runs the measurement and prints the results.
func (p *program) measureHosted(ctx context.Context, o *compareOptions) error {
	bounds, err := o.readBounds()
	if err != nil {
		return err
	}
	var list []*perf.HostedResult
	err = p.amongHosts(ctx, o, func(ctx context.Context, start startGuest) (err error) {
		c, err := o.hostConfig()
		if err != nil {
			return err
		}
		list, err = perf.RunHosted(ctx, c, func(f perf.PlainFiles) error {
			_, err := start(f)
			return err
		}, func(r *perf.HostedResult) { p.caseDone(r.Case) })
		return err
	})
	if err != nil {
		return err
	}
	if p.json {
		err = p.printJSON(map[string]any{"machine": perf.Machine(), "cases": list})
	} else {
		err = perf.PrintHosted(p.stdout, list, p.verbosity > 0)
	}
	if err != nil {
		return err
	}
	if bounds != nil {
		return p.reportBounds(bounds.CompareHosted(list))
	}
	missed := false
	for _, r := range list {
		missed = p.reportMissed(r.Case, r.Missed) || missed
	}
	return goalError(missed)
}

// startGuest starts the program of the near lnetd with the files of the plain exchange, which it closes here. It
// returns all processes that were started.
type startGuest func(f perf.PlainFiles) (perf.PIDs, error)

// amongHosts starts two lnetd and the program of the far one, calls f, and ends all processes that were started.
func (p *program) amongHosts(ctx context.Context, o *compareOptions, f func(ctx context.Context, start startGuest) error) (err error) {
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
	start := func(r role, files ...*os.File) (pid int, err error) {
		c, err := p.startProcess(ctx, o, cancel, files, nil, "--role="+string(r))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", r, err)
		}
		all = append(all, c)
		switch r {
		case nearHost:
			o.hosts[0] = c.talk()
		case farHost:
			o.hosts[1] = c.talk()
		}
		return c.pid, nil
	}
	var pids perf.PIDs
	for _, one := range []struct {
		role role
		pid  *int
	}{{nearHost, &pids.NearHost}, {farHost, &pids.FarHost}, {farGuest, &pids.FarGuest}} {
		if *one.pid, err = start(one.role); err != nil {
			return err
		}
	}
	return f(ctx, func(files perf.PlainFiles) (_ perf.PIDs, err error) {
		pids.NearGuest, err = start(nearGuest, files.List()...)
		for _, file := range files.List() {
			err = errors.Join(err, file.Close())
		}
		return pids, errors.Join(err, o.keepApart(0))
	})
}
