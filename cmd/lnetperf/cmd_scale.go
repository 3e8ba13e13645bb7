package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/load/perf"
	"github.com/lnetd/lnetd/internal/load/ports"
)

// scaleOptions holds the options of the command "scale".
type scaleOptions struct {
	compareOptions
	peers  []int
	router bool
}

func (p *program) scaleCommand() *cobra.Command {
	o := scaleOptions{compareOptions: compareOptions{Config: perf.DefaultConfig(), servers: 100}, peers: []int{1000, 2000, 4000}}
	o.Port = 0
	c := &cobra.Command{
		Use: "scale [OPTIONS]", DisableFlagsInUseLine: true,
		Short: "measure a node to which many peers connect at the same time",
		Long: `Starts a second process with a node, to which many peers connect at the same time. Then
restarts that process, after which all peers connect again. Prints, for each number of
peers, the memory of an idle connection, what the node costs while nothing happens, how
long the peers take to connect, the cost of a connection to the node, and the time of
messages of peers that are connected, before and during the second storm.

With --router the second process is a router, and a third one has servers on a second net.
All peers are then whole nodes, each of which sends messages through the router to one of
the servers. Prints the time until all are served, before and after a restart of the router,
its memory for each peer, and the rate and the costs of messages.

A peer has three connections, or one if privileged ports are not permitted. Both processes
need a file descriptor per connection.`,
		Example: `lnetperf scale
lnetperf scale --peers 50,100
lnetperf scale --peers 100 --set accept_backlog=127 --json
lnetperf scale --router --peers 50 --servers 5`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("servers") && !o.router {
				return usage("--servers is the number of servers behind a router, so it needs --router")
			}
			return p.scale(c.Context(), &o)
		},
	}
	f := c.Flags()
	f.IntSliceVar(&o.peers, "peers", o.peers, "numbers `N,...` of peers")
	f.BoolVar(&o.router, "router", false, "measure a router between the peers and servers")
	f.IntVar(&o.servers, "servers", o.servers, "number `N` of servers behind the router")
	f.IntVar(&o.Port, "port", o.Port, "`PORT` of the nodes; the next must be free too; 0: choose free ones")
	f.StringArrayVar(&o.set, "set", nil, "set a tunable of the node: `SETTING=VALUE`; may be repeated")
	return c
}

func (p *program) scale(ctx context.Context, o *scaleOptions) (err error) {
	for _, n := range o.peers {
		if n < 2 || n > perf.MaxCrowd {
			return usage("--peers %d is not within 2 to %d", n, perf.MaxCrowd)
		}
	}
	if o.servers < 1 || o.servers > perf.MaxServers {
		return usage("--servers %d is not within 1 to %d", o.servers, perf.MaxServers)
	}
	if o.Port == 0 {
		if o.Port, err = ports.Free(portsOfArm, o.Server.String(), o.Client.String(), perf.RouterFar.String()); err != nil {
			return err
		}
	}
	if err := o.check(); err != nil {
		return err
	}
	if o.router {
		results, err := measureEach(ctx, p, o, p.routed)
		return p.printScale("routed", len(results), err, results, func() error { return perf.PrintRouted(p.stdout, results) })
	}
	results, err := measureEach(ctx, p, o, p.storm)
	return p.printScale("storms", len(results), err, results, func() error { return perf.PrintStorms(p.stdout, results) })
}

// printScale prints n results, as the table that the function writes, or as JSON with the given name. If err is not nil, the
// results are those before the error, which it returns.
func (p *program) printScale(name string, n int, err error, results any, table func() error) error {
	if n == 0 {
		return err
	}
	if p.json {
		return errors.Join(err, p.printJSON(map[string]any{"method": perf.How(), "machine": perf.Machine(), name: results}))
	}
	return errors.Join(err, table())
}

// measureEach calls measure for each number of peers. If one fails, it returns the results before it, and an error.
func measureEach[R any](ctx context.Context, p *program, o *scaleOptions, measure func(context.Context, *compareOptions, int) (R, error)) (results []R, err error) {
	for _, n := range o.peers {
		r, err := measure(ctx, &o.compareOptions, n)
		if err != nil {
			return results, fmt.Errorf("%d peers: %w", n, err)
		}
		p.caseDone(fmt.Sprint(n, " peers"))
		results = append(results, r)
	}
	return results, nil
}

// storm measures a node with n peers, and again after the node has restarted.
func (p *program) storm(ctx context.Context, o *compareOptions, n int) (r *perf.Storm, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := perf.NewStorms(ctx, o.Config, n)
	if err != nil {
		return nil, err
	}
	defer finish(&err, s.Close)
	idle, err := p.startProcess(ctx, o, cancel, nil, nil, "--role="+string(echoer))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, idle.end()) }()
	probes, err := p.startProcess(ctx, o, cancel, nil, nil, "--role="+string(prober))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, probes.end()) }()
	r = &perf.Storm{}
	for _, measure := range []func(_ context.Context, passive, probes *perf.Process, r *perf.Storm) error{s.First, s.Again} {
		err := p.beside(ctx, o, func(ctx context.Context) error { return measure(ctx, o.Passive, probes.talk(), r) })
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// routed measures a router between n clients and the servers, and again after the router has restarted.
func (p *program) routed(ctx context.Context, o *compareOptions, n int) (r *perf.Routed, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	far, err := p.startProcess(ctx, o, cancel, nil, nil, "--role="+string(servers), fmt.Sprint("--servers=", o.servers))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, far.end()) }()
	r = &perf.Routed{}
	var s *perf.Clients
	defer func() {
		if s != nil {
			finish(&err, s.Close)
		}
	}()
	for _, first := range []bool{true, false} {
		err := p.besideRole(ctx, o, router, func(ctx context.Context) (err error) {
			if !first {
				return s.Again(ctx, o.Passive, r)
			}
			if s, err = perf.NewClients(ctx, o.Config, n, o.servers); err != nil {
				return err
			}
			return s.First(ctx, o.Passive, r)
		})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}
