// Command lnetperf measures lnetd beside plain TCP between two processes on
// this host and prints the figures side by side.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"syscall"

	"github.com/lnetd/lnetd/internal/perf"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "lnetperf:", err)
		os.Exit(1)
	}
}

func run() error {
	c := perf.DefaultConfig()
	serve := flag.Bool("serve", false, "be the passive process, until standard input ends")
	profile := flag.String("cpuprofile", "", "write a CPU profile of this process to a `file`")
	flag.IntVar(&c.Port, "port", c.Port, "port of the nodes; the plain server takes the next")
	flag.IntVar(&c.Rounds, "rounds", c.Rounds, "rounds of each case")
	flag.DurationVar(&c.Time, "time", c.Time, "length of a round")
	flag.Func("only", "measure only the cases whose name matches a `regexp`", func(s string) (err error) {
		c.Only, err = regexp.Compile(s)
		return err
	})
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if *serve {
		return servePassive(ctx, c)
	}
	return measure(ctx, c)
}

// servePassive serves until its parent closes its standard input.
func servePassive(ctx context.Context, c perf.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		cancel()
	}()
	return perf.Serve(ctx, c, func() { fmt.Println("ready") })
}

// measure starts the passive process and measures.
func measure(ctx context.Context, c perf.Config) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, self, "-serve", "-port", fmt.Sprint(c.Port))
	child.Stderr = os.Stderr
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
	err = perf.Run(ctx, c, os.Stdout)
	return errors.Join(err, in.Close(), child.Wait())
}
