package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lnetd/lnetd/internal/load/perf"
	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/internal/load/tracing"
	"github.com/lnetd/lnetd/internal/load/tracing/timeline"
)

// traceOptions holds the options of the command "trace".
type traceOptions struct {
	compareOptions
	requests int
	over     string
	delivery string
	svg      string
}

func (p *program) traceCommand() *cobra.Command {
	defaults := perf.DefaultTraceConfig("")
	o := traceOptions{compareOptions: compareOptions{Config: perf.DefaultConfig()}}
	c := &cobra.Command{
		Use: "trace [OPTIONS]", DisableFlagsInUseLine: true,
		Short: "show what happens during a request",
		Long: `Starts the processes of compare --hosted, records what the kernel does during small
requests of one program to another one, and prints the request whose time is the median:
each system call with its result and time, each sleep, each wake-up with the thread that
causes it, and each context switch, in microseconds since the start of the request.

There are four kinds of requests: a pair of eventfds without LNet; a message of 96 bytes
that is sent back, between two programs that each have a node in their process; the same
between two programs of one lnetd; and the same between programs of two lnetd. All
programs sleep while they wait. A thread is written as PROCESS/NUMBER. A hand-off is a
wake-up of a thread by another one of the same process.

With --over rdma the nodes use RDMA. They need three IPv4 addresses of network devices
that an RDMA device of this host serves, and lnetperf from the package lnetd-o2ib.

With --svg the requests are also drawn: a lane for each thread, and an arrow for each
wake-up. A table before the steps has means of all requests for each process. Recording makes a
request slower, by some tenths of a microsecond for each system call. It needs root,
or CAP_PERFMON and the right to read tracefs.`,
		Example: `lnetperf trace
lnetperf trace --only 'one lnetd' --apart
lnetperf trace --delivery async --json
lnetperf trace --stacked --svg trace.svg`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("svg") && o.svg == "" {
				return usage("--svg: no file")
			}
			return p.trace(c.Context(), &o)
		},
	}
	f := c.Flags()
	o.addProcessOptions(f)
	f.IntVar(&o.requests, "requests", defaults.Requests, "record `N` requests of each kind")
	f.StringVar(&o.over, "over", "tcp", "what the nodes use: `tcp|rdma`; rdma needs three addresses of RDMA devices")
	f.StringVar(&o.svg, "svg", "", "also write a picture of the requests to `FILE`")
	f.StringVar(&o.delivery, "delivery", defaults.Delivery.String(), "how programs get their events: `async|sync|poll`")
	return c
}

// addProcessOptions adds the options that "compare" and "trace" have in common.
func (o *compareOptions) addProcessOptions(f *pflag.FlagSet) {
	f.IntVar(&o.Port, "port", o.Port, "`PORT` of the nodes; the plain TCP server uses the next port")
	f.StringVar(&o.only, "only", "", "measure only cases whose name matches `REGEXP`")
	f.BoolVar(&o.apart, "apart", false, "give each process half of the processors, as on two hosts")
	f.BoolVar(&o.stacked, "stacked", false, "run all processes on the same processor")
	f.StringArrayVar(&o.set, "set", nil, "set a tunable of all nodes: `SETTING=VALUE`; may be repeated")
}

func (p *program) trace(ctx context.Context, o *traceOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	delivery, err := tmhost.ParseDelivery(o.delivery)
	if err != nil {
		return usage("--delivery: %w", err)
	}
	if o.requests < 1 {
		return usage("--requests %d: the number must be positive", o.requests)
	}
	var list []*timeline.Timeline
	switch o.over {
	case "tcp":
	case "rdma":
		o.rdma = true
	default:
		return usage("--over %q is neither tcp nor rdma", o.over)
	}
	if _, err := o.hostConfig(); err != nil { // before any process is started
		return err
	}
	err = p.amongHosts(ctx, &o.compareOptions, func(ctx context.Context, start startGuest) (err error) {
		hosts, err := o.hostConfig()
		if err != nil {
			return err
		}
		c := perf.TraceConfig{HostConfig: hosts, Requests: o.requests, Delivery: delivery}
		list, err = perf.Trace(ctx, c, start)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, tracing.ErrNotPermitted):
		return fmt.Errorf("%w; trace needs root, or CAP_PERFMON and the right to read tracefs", err)
	case errors.Is(err, tracing.ErrLost):
		return fmt.Errorf("%w: other programs do too much; try again later", err)
	case err != nil:
		return err
	}
	if o.svg != "" {
		if err := writeFile(o.svg, func(w io.Writer) error { return timeline.WriteSVG(w, list) }); err != nil {
			return err
		}
	}
	if p.json {
		return p.printJSON(map[string]any{"machine": perf.Machine(), "delivery": delivery.String(), "timelines": list})
	}
	for k, t := range list {
		if k > 0 {
			fmt.Fprintln(p.stdout)
		}
		if err := t.Print(p.stdout); err != nil {
			return err
		}
	}
	return nil
}
