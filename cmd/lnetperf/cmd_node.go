package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/load/nettest"
	"github.com/lnetd/lnetd/internal/load/tmhost"
)

// nodeOptions holds the options of the command "node".
type nodeOptions struct {
	hostOptions
	address  string
	consoles []string
	idle     seconds
	once     bool
	list     bool
}

func (p *program) nodeCommand() *cobra.Command {
	o := nodeOptions{idle: seconds(nettest.IdleTime)}
	c := &cobra.Command{
		Use: "node -a ADDRESS [OPTIONS]", DisableFlagsInUseLine: true,
		Short: "run a test node that a console controls",
		Long: `Waits at an end point for commands of "lnetperf console", and acts as server or client in
its tests, one after the other, until a signal ends it. The NID is that of the node in
this process, or with --through that of the lnetd. The console selects the data end
points, at the same NID.

Any program that can reach the end point can make this host send and receive. -c
restricts this to the given end points.`,
		Example: `lnetperf node -a 10.0.0.1@tcp:12345:42:300
lnetperf node -a 10.0.0.1@tcp:12345:42:300 --through /run/lnetd/lnetd.sock
lnetperf node -a 10.0.0.1@tcp:12345:42:300 -c 10.0.0.9@tcp:12345:42:298 --once -v 1`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.node(c.Context(), &o) },
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&o.address, "address", "a", "", "local end point `ADDRESS` for commands")
	f.StringSliceVarP(&o.consoles, "console", "c", nil, "accept commands only from `ADDRESSES`, a comma list of end points (default: from all)")
	f.Var(&o.idle, "idle", "end a test after `TIME` without a message from its console (default 30 s)")
	f.BoolVar(&o.once, "once", false, "exit after the first test that a console of -c requests, even if the test is refused")
	f.BoolVarP(&o.list, "list", "l", false, "print the limits of buffers and the NIDs, and exit")
	o.add(f)
	return c
}

func (p *program) node(ctx context.Context, o *nodeOptions) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	c := p.config(&o.hostOptions, nidOf(o.address), "")
	if o.list {
		return p.listLimits(ctx, c)
	}
	if o.address == "" {
		return usage("the end point for commands is missing: use -a")
	}
	if err := checkAddresses(append(o.consoles, o.address)...); err != nil {
		return err
	}
	if o.transport == "mem" {
		return usage("--transport mem reaches only this process: use \"lnetperf console --local\"")
	}
	h, err := tmhost.Open(ctx, c)
	if err != nil {
		return err
	}
	defer finish(&err, h.Close)
	n, err := nettest.StartNode(ctx, nettest.NodeConfig{
		Domain: h.Domain, Address: o.address, Consoles: o.consoles, Idle: time.Duration(o.idle), Once: o.once, Logger: p.logger(),
	})
	if err != nil {
		return err
	}
	defer finish(&err, n.Close)
	p.ready("node", n.Address().String())
	if !o.once {
		<-ctx.Done()
		return nil
	}
	select {
	case err := <-n.Done():
		if err != nil {
			return errors.Join(errors.New("the test did not complete"), err)
		}
	case <-ctx.Done():
	}
	return nil
}
