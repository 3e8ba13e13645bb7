package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/load/perf"
)

func (p *program) crowdCommand() *cobra.Command {
	o := compareOptions{Config: perf.DefaultConfig()}
	peers := 1000
	c := &cobra.Command{
		Use: "crowd [OPTIONS]", DisableFlagsInUseLine: true,
		Short: "measure a node with many peers that send little",
		Long: `Starts a second process with a node, and sends acknowledged PUTs of 96 bytes to it, 64 at
a time. Rounds with one peer alternate with rounds in which many peers take turns. Prints
the cost of a message to the node in both cases, and the memory of a connection: when
idle, after several concurrent messages from every peer, and a while later. This is the
memory of Go; the memory of sockets in the kernel is not included.

A peer has three connections, or one if privileged ports are not permitted. Both processes
need a file descriptor per connection. The measurement takes ten seconds plus the rounds.`,
		Example: `lnetperf crowd
lnetperf crowd --peers 100 --rounds 5
GOMAXPROCS=1 lnetperf crowd --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.crowd(c.Context(), &o, peers) },
	}
	f := c.Flags()
	f.IntVar(&peers, "peers", peers, "number `N` of peers")
	f.IntVar(&o.Port, "port", o.Port, "`PORT` of the node; the next must be free too")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "`N` rounds with one peer and with many peers")
	f.DurationVar(&o.Time, "time", o.Time, "duration of a round: a `TIME` with a unit")
	f.StringArrayVar(&o.set, "set", nil, "set a tunable of the node: `SETTING=VALUE`; may be repeated")
	return c
}

func (p *program) crowd(ctx context.Context, o *compareOptions, peers int) error {
	if peers < 2 || peers > perf.MaxCrowd {
		return usage("--peers %d is not within 2 to %d", peers, perf.MaxCrowd)
	}
	if err := o.check(); err != nil {
		return err
	}
	var result *perf.Crowd
	err := p.beside(ctx, o, func(ctx context.Context) (err error) {
		result, err = perf.RunCrowd(ctx, o.Config, peers)
		return err
	})
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]any{"method": perf.How(), "machine": perf.Machine(), "crowd": result})
	}
	if err := result.Print(p.stdout); err != nil {
		return err
	}
	p.printMethod()
	return nil
}
