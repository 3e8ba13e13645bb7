package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime/pprof"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/perf"
)

// compareOptions are compare's.
type compareOptions struct {
	perf.Config
	serve   bool
	hosted  bool
	role    role
	apart   bool
	stacked bool
	profile string
	rounds  bool // is given
	time    bool // is given
	sockets string
	only    string
}

func (p *program) compareCommand() *cobra.Command {
	o := compareOptions{Config: perf.DefaultConfig()}
	c := &cobra.Command{
		Use: "compare [OPTIONS]", DisableFlagsInUseLine: true,
		Short: "measure lnetd beside plain TCP",
		Long: `Starts a second process, and measures the same exchanges of the same sizes
between the two, by LNet and by plain TCP in turn. Prints a line for each case, with
medians, their ratio, and what the ratio shall be. Takes two or three minutes.

With --hosted it measures what programs of an lnetd have: four more processes are two
lnetd and a program of each. Two programs of one lnetd are set beside two processes
that share memory and wake each other by eventfds, and bulk beside a copy; programs of
two lnetd beside plain TCP; and both beside a program with a node of its own. The two
with eventfds have one exchange in flight, whatever the case is. "bells" are those that
one of the programs rang and heard, a system call each, for each exchange; what the Go
runtime does to sleep is not in it. "allocs" are its allocations.`,
		Example: `lnetperf compare
lnetperf compare --only 'PUT 1 MiB' --rounds 5
lnetperf compare --only 'TM' --apart --cpuprofile cpu.out
lnetperf compare --hosted --stacked --only notified`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.rounds, o.time = c.Flags().Changed("rounds"), c.Flags().Changed("time")
			return p.compare(c.Context(), &o)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Port, "port", o.Port, "`PORT` of the nodes; the plain server takes the next")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "`N` rounds of each case")
	f.DurationVar(&o.Time, "time", o.Time, "length of a round: a `TIME` with its unit")
	f.StringVar(&o.only, "only", "", "measure only the cases whose name matches `REGEXP`")
	f.BoolVar(&o.apart, "apart", false, "give each process one half of the processors, as two hosts would")
	f.BoolVar(&o.stacked, "stacked", false, "give all processes the same processor")
	f.BoolVar(&o.hosted, "hosted", false, "measure what programs of an lnetd have")
	f.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of this process to `FILE`")
	f.BoolVar(&o.serve, "serve", false, "be the passive process, until standard input ends")
	f.StringVar((*string)(&o.role), "role", "", "be one of the processes of --hosted, until standard input ends")
	f.StringVar(&o.sockets, "sockets", "", "directory of the sockets of --hosted")
	for _, name := range []string{"serve", "role", "sockets"} {
		_ = f.MarkHidden(name) // it is there
	}
	return c
}

func (p *program) compare(ctx context.Context, o *compareOptions) (err error) {
	if o.only != "" {
		if o.Only, err = regexp.Compile(o.only); err != nil {
			return usage("--only: %w", err)
		}
	}
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
	if o.apart && o.stacked {
		return usage("--apart and --stacked: not both")
	}
	if o.serve || o.role != "" {
		return p.servePassive(ctx, o)
	}
	if o.hosted {
		return p.measureHosted(ctx, o)
	}
	return p.measure(ctx, o)
}

// servePassive serves until its parent closes its standard input.
func (p *program) servePassive(ctx context.Context, o *compareOptions) error {
	half := 1
	if o.role == nearHost {
		half = 0
	}
	if err := o.keepApart(half); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = bufio.NewReader(p.stdin).ReadByte()
		cancel()
	}()
	ready := func() { fmt.Fprintln(p.stdout, "ready") }
	if o.role != "" {
		return o.role.serve(ctx, o, ready)
	}
	return perf.Serve(ctx, o.Config, ready)
}

// measure starts the passive process and measures.
func (p *program) measure(ctx context.Context, o *compareOptions) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c, err := p.startPassive(ctx, self, o, nil, "--serve")
	if err != nil {
		return err
	}
	if err = o.keepApart(0); err == nil { // now that the child has the other half
		err = perf.Run(ctx, o.Config, p.stdout)
	}
	return errors.Join(err, c.end())
}

// passive is a process that this one has started.
type passive struct {
	command *exec.Cmd
	stdin   io.Closer
}

// startPassive starts a process that does the same as this one but for an option, and waits
// until it is ready.
func (p *program) startPassive(ctx context.Context, self string, o *compareOptions, files []*os.File, option string) (*passive, error) {
	args := []string{
		"compare", option, "--port", fmt.Sprint(o.Port), fmt.Sprintf("--apart=%t", o.apart),
		fmt.Sprintf("--stacked=%t", o.stacked), "--sockets", o.sockets,
	}
	c := &passive{command: exec.CommandContext(ctx, self, args...)}
	c.command.Stderr, c.command.ExtraFiles = p.stderr, files
	in, err := c.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = in
	out, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("passive process: %w", err), c.command.Wait())
	}
	return c, nil
}

// end has it end, and waits for that.
func (c *passive) end() error { return errors.Join(c.stdin.Close(), c.command.Wait()) }

func (o *compareOptions) keepApart(half int) error {
	if o.stacked {
		if err := perf.KeepTogether(); err != nil {
			return fmt.Errorf("--stacked: %w", err)
		}
	}
	if !o.apart {
		return nil
	}
	if err := perf.KeepApart(half); err != nil {
		return fmt.Errorf("--apart: %w", err)
	}
	return nil
}
