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
		Short: "measure a node that many peers send a little each",
		Long: `Starts a second process with a node, and sends it PUTs of 96 bytes that it
acknowledges, 64 at a time: from one peer, and from many that take turns, in rounds that
take turns too. Prints what a message costs the node either way, and the memory
that a connection takes: at rest, after several messages at once from every peer, and a
while later. That is Go's memory; what the kernel has for a socket is not in it.

A peer has three connections, or one without the right to use privileged ports. Both
processes need a file descriptor for each, and one for each peer. Takes ten seconds and
the rounds.`,
		Example: `lnetperf crowd
lnetperf crowd --peers 100 --rounds 5
GOMAXPROCS=1 lnetperf crowd --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.crowd(c.Context(), &o, peers) },
	}
	f := c.Flags()
	f.IntVar(&peers, "peers", peers, "`N` peers")
	f.IntVar(&o.Port, "port", o.Port, "`PORT` of the node; the next must be free too")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "`N` rounds each way")
	f.DurationVar(&o.Time, "time", o.Time, "length of a round: a `TIME` with its unit")
	f.StringArrayVar(&o.set, "set", nil, "give the node a tunable: `SETTING=VALUE`; may be repeated")
	return c
}

func (p *program) crowd(ctx context.Context, o *compareOptions, peers int) error {
	if peers < 2 || peers > perf.MaxCrowd {
		return usage("--peers %d: not within 2 to %d", peers, perf.MaxCrowd)
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
