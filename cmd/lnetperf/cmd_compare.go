package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime/pprof"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lnetd/lnetd/internal/load/perf"
)

// compareOptions holds the options of the command "compare".
type compareOptions struct {
	perf.Config
	serve   bool
	perform bool
	hosted  bool
	role    role
	apart   bool
	stacked bool
	profile string
	rounds  bool // whether --rounds was given
	time    bool // whether --time was given
	sockets string
	servers int              // behind the router of "scale"
	hosts   [2]*perf.Process // the near and the far lnetd of --hosted
	rdma    bool             // the nodes of --hosted use RDMA
	only    string
	set     []string
	against []string
	base    string // the value of --baseline
	program string // the program to start as a child; if empty, this program
	bounds  string
	record  string
}

func (p *program) compareCommand() *cobra.Command {
	o := compareOptions{Config: perf.DefaultConfig()}
	c := &cobra.Command{
		Use: "compare [OPTIONS]", DisableFlagsInUseLine: true,
		Short: "compare lnetd with plain TCP",
		Long: `Starts a second process and measures the same exchanges between the two processes,
alternately over LNet and over plain TCP. Prints one line per case, with medians, their
ratio, and the expected ratio. The measurement takes four or five minutes.

"floor" is a simple TCP program that writes each message separately and reads with a
buffer. "limit" is the fastest TCP program: one thread on a dedicated processor polls its
socket, writes all pending data at once, and reads all available data. "ratio" compares
lnetd with floor, "of limit" with limit, with the quartiles of the rounds. A second table
has the cost of each exchange to the requester and to the responder, for lnetd, floor and
limit: wake-ups, system calls, processor time, allocations. Below the table is how they
were counted; counting all system calls needs root.

Cases have goals for the ratio, for the rate, or for the ratio of costs. Goals that were
missed are listed at the end, and the exit status is 3. With --bounds and --record-bounds,
goals do not count. -v 1 also prints how far rounds and single exchanges differ: quartiles
of the figures, and percentiles of the times.

With --against it measures each case with and without a setting, alternately in four
processes, and prints the ratio of the pairs. A setting is a tunable of nodes, as in
configuration files, or an environment variable. With --baseline it compares this version
of lnetperf with another one in the same way. docs/performance.md explains the columns.

With --bounds it measures the cases in a file, and fails if wake-ups, system calls or
allocations are above the bounds in the file. With --hosted, bounds can be those of the
program that makes the exchanges.

With --hosted it measures programs that use a separate lnetd. Four more processes are
started: two lnetd and one program of each. Two programs of one lnetd are compared with
two processes that share memory and wake each other by eventfds, and bulk with a copy in
memory; programs of two lnetd are compared with plain TCP; and both with a program that
has a node in its process. The processes with eventfds always have one exchange in flight.
"bells" is the number of wake-up signals that one of the programs sent and received per
exchange, one system call each; system calls of the Go runtime are not included. "allocs"
is the number of its allocations.`,
		Example: `lnetperf compare
lnetperf compare --only 'PUT 1 MiB' --rounds 5
lnetperf compare --only 'TM' --apart --cpuprofile cpu.out
lnetperf compare --only 'caller blocks' --against GOMAXPROCS=1
lnetperf compare --only '64 in flight' --against eager_ack=7 --against min_bulk=4096
lnetperf compare --only '64 in flight' --baseline /usr/bin/lnetperf
lnetperf compare --json --rounds 9
lnetperf compare --hosted --stacked --only notified`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.rounds, o.time = c.Flags().Changed("rounds"), c.Flags().Changed("time")
			for _, name := range []string{"baseline", "bounds", "record-bounds", "cpuprofile"} {
				if c.Flags().Changed(name) && c.Flags().Lookup(name).Value.String() == "" {
					return usage("--%s: no file", name)
				}
			}
			return p.compare(c.Context(), &o)
		},
	}
	o.addTo(c.Flags())
	return c
}

// addTo adds the options to f.
func (o *compareOptions) addTo(f *pflag.FlagSet) {
	o.addProcessOptions(f)
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "measure each case in `N` rounds")
	f.DurationVar(&o.Time, "time", o.Time, "duration of a round: a `TIME` with a unit")
	f.BoolVar(&o.hosted, "hosted", false, "measure programs that use a separate lnetd")
	f.StringArrayVar(&o.against, "against", nil, "measure with and without `SETTING=VALUE`; may be repeated to combine settings")
	f.StringVar(&o.base, "baseline", "", "measure this program and `FILE`, another version of it, alternately")
	f.StringVar(&o.bounds, "bounds", "", "measure the cases in `FILE`, and compare with its bounds")
	f.StringVar(&o.record, "record-bounds", "", "write bounds to `FILE`, slightly above the measured values")
	f.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of this process to `FILE`")
	f.BoolVar(&o.serve, "serve", false, "run as the passive process, until standard input ends")
	f.BoolVar(&o.perform, "perform", false, "run as an active process, until standard input ends")
	f.StringVar((*string)(&o.role), "role", "", "run as one of the processes of --hosted, until standard input ends")
	f.IntVar(&o.servers, "servers", 0, "number `N` of servers of the role servers")
	f.StringVar(&o.sockets, "sockets", "", "directory of the sockets of --hosted")
	f.BoolVar(&o.rdma, "rdma", false, "use RDMA between the processes of --hosted")
	for _, name := range []string{"serve", "perform", "role", "servers", "sockets", "rdma"} {
		_ = f.MarkHidden(name) // the flag exists
	}
}

func (p *program) compare(ctx context.Context, o *compareOptions) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() != nil { // the signal, not the errors that follow from it
			err = context.Cause(ctx)
		}
	}()
	if o.profile != "" {
		f, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	switch {
	case o.serve || o.role != "":
		return p.servePassive(ctx, o)
	case o.perform:
		return p.perform(ctx, o)
	case o.hosted:
		return p.measureHosted(ctx, o)
	case len(o.against) > 0 || o.base != "":
		return p.measureAgainst(ctx, o)
	}
	return p.measure(ctx, o)
}

// check validates the options and stores their values in o.Config.
func (o *compareOptions) check() (err error) {
	if o.only != "" {
		if o.Only, err = regexp.Compile(o.only); err != nil {
			return usage("--only: %w", err)
		}
	}
	if o.Rounds < 1 || o.Time <= 0 {
		return usage("--rounds %d, --time %v: both must be positive", o.Rounds, o.Time)
	}
	if last := o.Port + 2*portsOfArm - 1; o.Port < 1 || last > math.MaxUint16 {
		return usage("--port %d: the measurement needs ports %d to %d, which are not all between 1 and 65535", o.Port, o.Port, last)
	}
	if o.Settings, err = settings("--set", o.set); err != nil {
		return err
	}
	for _, s := range o.Settings {
		if s.Variable() {
			return usage("--set %s: set an environment variable before the command: %s lnetperf compare", s.Name, s)
		}
	}
	return o.checkCombinations()
}

// checkCombinations returns an error if options are given that cannot be combined. The kinds of measurement
// exclude each other, and only the usual one and that of --hosted are compared with bounds.
func (o *compareOptions) checkCombinations() error {
	bounds, against := o.bounds != "" || o.record != "", len(o.against) > 0
	type option struct {
		given bool
		name  string
	}
	for _, pair := range [][2]option{
		{{o.apart, "--apart"}, {o.stacked, "--stacked"}},
		{{o.bounds != "", "--bounds"}, {o.record != "", "--record-bounds"}},
		{{o.hosted, "--hosted"}, {o.record != "", "--record-bounds"}},
		{{o.hosted, "--hosted"}, {against, "--against"}},
		{{o.base != "", "--baseline"}, {o.hosted, "--hosted"}},
		{{o.base != "", "--baseline"}, {against, "--against"}},
	} {
		if pair[0].given && pair[1].given {
			return usage("%s and %s cannot be combined", pair[0].name, pair[1].name)
		}
	}
	for _, comparison := range []option{{against, "--against"}, {o.base != "", "--baseline"}} {
		for _, other := range []option{{bounds, "bounds"}, {o.profile != "", "--cpuprofile"}} {
			if comparison.given && other.given {
				return usage("%s and %s cannot be combined", comparison.name, other.name)
			}
		}
	}
	return nil
}

// readBounds returns the bounds in the file of --bounds, or nil without that option. It restricts the measurement to the
// cases with bounds, unless --only is given.
func (o *compareOptions) readBounds() (*perf.Bounds, error) {
	if o.bounds == "" {
		return nil, nil
	}
	bounds, err := perf.ReadBounds(o.bounds)
	if err == nil && o.Only == nil {
		o.Only = bounds.Cases()
	}
	return bounds, err
}

// measure starts the passive process, runs the measurement, and prints the results.
func (p *program) measure(ctx context.Context, o *compareOptions) error {
	bounds, err := o.readBounds()
	if err != nil {
		return err
	}
	var results []*perf.Result
	err = p.beside(ctx, o, func(ctx context.Context) (err error) {
		results, err = perf.Run(ctx, o.Config, func(r *perf.Result) { p.caseDone(r.Case) })
		return err
	})
	if err != nil {
		return err
	}
	if p.json {
		err = p.printJSON(map[string]any{"method": perf.How(), "machine": perf.Machine(), "cases": results})
	} else {
		err = perf.Print(p.stdout, results, p.verbosity > 0)
		p.printMethod()
	}
	switch {
	case err != nil:
		return err
	case o.record != "":
		return perf.RecordBounds(results).Write(o.record)
	case bounds != nil:
		return p.reportBounds(bounds.Compare(results))
	}
	missed := false
	for _, r := range results {
		missed = p.reportMissed(r.Case, r.Missed) || missed
	}
	return goalError(missed)
}

// reportMissed prints the goals of a case that were missed. It reports whether there are any.
func (p *program) reportMissed(name string, goals []string) bool {
	for _, text := range goals {
		fmt.Fprintf(p.stderr, "goal missed: %s: %s\n", name, text)
	}
	return len(goals) > 0
}

// goalError returns errMissed if goals were missed.
func goalError(missed bool) error {
	if missed {
		return errMissed
	}
	return nil
}

// reportBounds prints the costs above their bounds, and those left, which could not be compared. It returns errCounted
// if any cost is above its bound.
func (p *program) reportBounds(above, left []string) error {
	for _, text := range left {
		fmt.Fprintf(p.stderr, "not compared: %s\n", text)
	}
	for _, text := range above {
		fmt.Fprintf(p.stderr, "above its bound: %s\n", text)
	}
	if len(above) > 0 {
		return errCounted
	}
	return nil
}

// caseDone prints the name of a case that has been measured, if stderr is a terminal.
func (p *program) caseDone(name string) {
	if p.terminal {
		fmt.Fprintln(p.stderr, "measured:", name)
	}
}

// printMethod prints how costs were measured.
func (p *program) printMethod() {
	fmt.Fprintln(p.stdout)
	for _, line := range perf.How() {
		fmt.Fprintln(p.stdout, line)
	}
}
