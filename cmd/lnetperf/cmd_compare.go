package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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
	apart   bool
	profile string
	only    string
}

func (p *program) compareCommand() *cobra.Command {
	o := compareOptions{Config: perf.DefaultConfig()}
	c := &cobra.Command{
		Use: "compare [OPTIONS]", DisableFlagsInUseLine: true,
		Short: "measure lnetd beside plain TCP",
		Long: `Starts a second process, and measures the same exchanges of the same sizes
between the two, by LNet and by plain TCP in turn. Prints a line for each case, with
medians, their ratio, and what the ratio shall be. Takes two or three minutes.`,
		Example: `lnetperf compare
lnetperf compare --only 'PUT 1 MiB' --rounds 5
lnetperf compare --only 'TM' --apart --cpuprofile cpu.out`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.compare(c.Context(), &o) },
	}
	f := c.Flags()
	f.IntVar(&o.Port, "port", o.Port, "`PORT` of the nodes; the plain server takes the next")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "`N` rounds of each case")
	f.DurationVar(&o.Time, "time", o.Time, "length of a round: a `TIME` with its unit")
	f.StringVar(&o.only, "only", "", "measure only the cases whose name matches `REGEXP`")
	f.BoolVar(&o.apart, "apart", false, "give each process one half of the processors, as two hosts would")
	f.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of this process to `FILE`")
	f.BoolVar(&o.serve, "serve", false, "be the passive process, until standard input ends")
	_ = f.MarkHidden("serve") // it is there
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
	if o.serve {
		return p.servePassive(ctx, o)
	}
	return p.measure(ctx, o)
}

// servePassive serves until its parent closes its standard input.
func (p *program) servePassive(ctx context.Context, o *compareOptions) error {
	if err := o.keepApart(1); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = bufio.NewReader(p.stdin).ReadByte()
		cancel()
	}()
	return perf.Serve(ctx, o.Config, func() { fmt.Fprintln(p.stdout, "ready") })
}

// measure starts the passive process and measures.
func (p *program) measure(ctx context.Context, o *compareOptions) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, self, "compare", "--serve", "--port", fmt.Sprint(o.Port), fmt.Sprintf("--apart=%t", o.apart))
	child.Stderr = p.stderr
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return errors.Join(fmt.Errorf("passive process: %w", err), child.Wait())
	}
	if err = o.keepApart(0); err == nil { // now that the child has the other half
		err = perf.Run(ctx, o.Config, p.stdout)
	}
	return errors.Join(err, in.Close(), child.Wait())
}

func (o *compareOptions) keepApart(half int) error {
	if !o.apart {
		return nil
	}
	if err := perf.KeepApart(half); err != nil {
		return fmt.Errorf("--apart: %w", err)
	}
	return nil
}
