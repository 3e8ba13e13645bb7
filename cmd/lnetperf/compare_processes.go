package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/internal/load/perf"
)

// servePassive runs a passive process of a measurement until the parent process closes standard input.
func (p *program) servePassive(ctx context.Context, o *compareOptions) error {
	if o.role == prober {
		return perf.ServeProbes(ctx, o.Config, p.stdin, p.stdout, p.sayReady)
	}
	half := 1
	if o.role == nearHost {
		half = 0
	}
	if err := o.keepApart(half); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- perf.ServeCosts(ctx, p.stdin, p.stdout)
	}()
	var err error
	if o.role != "" {
		err = o.role.serve(ctx, o, p.sayReady)
	} else {
		err = perf.Serve(ctx, o.Config, p.sayReady)
	}
	if ctx.Err() == nil {
		return err // do not wait for the parent, which may still send requests
	}
	select {
	case told := <-ended:
		return errors.Join(err, told)
	default: // a signal has ended the work, while standard input is still open
		return err
	}
}

// sayReady prints the line with which a child process reports to its parent that it is ready.
func (p *program) sayReady() { fmt.Fprintln(p.stdout, "ready") }

// perform runs the active process of one of the variants that measureAgainst compares, until the parent process
// closes standard input.
func (p *program) perform(ctx context.Context, o *compareOptions) error {
	return p.beside(ctx, o, func(ctx context.Context) error { return perf.Perform(ctx, o.Config, p.stdin, p.stdout, p.sayReady) })
}

// beside starts a passive process, stores the connection to it in o.Config, calls f, and ends the process.
func (p *program) beside(ctx context.Context, o *compareOptions, f func(ctx context.Context) error) error {
	return p.besideRole(ctx, o, "", f)
}

// besideRole is beside with a process that has the given role.
func (p *program) besideRole(ctx context.Context, o *compareOptions, r role, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := p.startProcess(ctx, o, cancel, nil, nil, "--serve", "--role="+string(r))
	if err != nil {
		return err
	}
	o.Passive = c.talk()
	if err = o.keepApart(0); err == nil { // the child has the other half of the processors
		err = f(ctx)
	}
	return errors.Join(err, c.end())
}

// patience is how long a child process may take to end after its standard input was closed because ctx is done.
const patience = 10 * time.Second

// process is a child process.
type process struct {
	pid    int
	stdin  io.WriteCloser
	stdout *bufio.Reader
	ended  chan error  // receives the result of the process
	ending atomic.Bool // whether the child is expected to exit
}

// startProcess starts a child process, which is o.program or, if that is empty, this program, and waits until it
// is ready. The child gets the options of o that it needs, followed by options. If the child exits before end is
// called or ctx is done, startProcess calls lost.
func (p *program) startProcess(ctx context.Context, o *compareOptions, lost func(), files []*os.File, env []string, options ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"compare", "--port", fmt.Sprint(o.Port), fmt.Sprintf("--apart=%t", o.apart),
		fmt.Sprintf("--stacked=%t", o.stacked), "--sockets", o.sockets,
	}, options...)
	if o.rdma {
		args = append(args, "--rdma")
	}
	for _, s := range o.Settings {
		args = append(args, "--set", s.String())
	}
	command := exec.CommandContext(ctx, cmp.Or(o.program, self), args...)
	command.Stderr, command.ExtraFiles = p.stderr, files
	command.Env = append(os.Environ(), env...)
	c := &process{ended: make(chan error, 1)}
	command.Cancel = func() error { c.ending.Store(true); return c.stdin.Close() }
	command.WaitDelay = patience // then it is killed
	if c.stdin, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	c.pid, c.stdout = command.Process.Pid, bufio.NewReader(out)
	if _, err := c.stdout.ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("the measurement process ended before it was ready: %w", err), c.stdin.Close(), command.Wait())
	}
	go func() {
		err := command.Wait()
		if !c.ending.Load() {
			lost()
		}
		c.ended <- err
	}()
	return c, nil
}

// talk returns a connection for requests to the process, over its standard input and output.
func (c *process) talk() *perf.Process { return perf.NewProcess(c.stdout, c.stdin) }

// end closes the child's standard input and waits for its exit.
func (c *process) end() error {
	c.ending.Store(true)
	closed := c.stdin.Close()
	if errors.Is(closed, os.ErrClosed) { // the process has exited already
		closed = nil
	}
	err := <-c.ended
	if err != nil {
		err = fmt.Errorf("measurement process: %w", err)
	}
	return errors.Join(closed, err)
}

func (o *compareOptions) keepApart(half int) error {
	if o.stacked {
		if err := perf.KeepTogether(); err != nil {
			return fmt.Errorf("--stacked: %w", err)
		}
	}
	if !o.apart {
		return nil
	}
	if err := perf.UseHalf(half); err != nil {
		return fmt.Errorf("--apart: %w", err)
	}
	return nil
}
