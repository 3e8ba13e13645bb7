package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/load/nettest"
	"github.com/lnetd/lnetd/internal/load/tmhost"
)

// nodeOptions are the options of node.
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
		Short: "take part in tests as a console says",
		Long: `Waits at an end point for the commands of "lnetperf console", and is a server or a
client of its tests, one after the other, until a signal comes. The NID is that of
this process's node, or of the lnetd of --through; the console chooses the data end points, at the same NID.

Whoever reaches the end point may have this host send and receive; -c names those who
may.`,
		Example: `lnetperf node -a 10.0.0.1@tcp:12345:42:300
lnetperf node -a 10.0.0.1@tcp:12345:42:300 --through /run/lnetd/lnetd.sock
lnetperf node -a 10.0.0.1@tcp:12345:42:300 -c 10.0.0.9@tcp:12345:42:298 --once -v 1`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.node(c.Context(), &o) },
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&o.address, "address", "a", "", "end point for commands: an `ADDRESS` of this host")
	f.StringSliceVarP(&o.consoles, "console", "c", nil, "take commands from `ADDRESSES` alone: end points with commas between (default anybody)")
	f.Var(&o.idle, "idle", "`TIME` after which a test ends whose console is silent (default 30 s)")
	f.BoolVar(&o.once, "once", false, "end with the first test that a console of -c asks for, also if it is refused")
	f.BoolVarP(&o.list, "list", "l", false, "print the limits of buffers, and the NIDs, and end")
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
		return usage("a node needs an end point: -a")
	}
	if err := checkAddresses(append(o.consoles, o.address)...); err != nil {
		return err
	}
	if o.transport == "mem" {
		return usage("--transport mem reaches nobody outside of this process: see lnetperf console --local")
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
			return errors.Join(errors.New("the test has not come to its end"), err)
		}
	case <-ctx.Done():
	}
	return nil
}
