// Command wedged is an lnetd of whose node a loop gets stuck, as a defect would have it, as soon as
// /run/lnetd/wedge-LOOP is there.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/daemon"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/selection"
)

const (
	trigger = "/run/lnetd/wedge-"
	pause   = 100 * time.Millisecond
)

func main() {
	drivers := daemon.AllDrivers()
	c := config.Default()
	c.ControlSocket = "/run/lnetd/control.sock"
	if err := c.Apply(config.Override{Networks: []string{"tcp(lo)"}}, drivers.Options()); err != nil {
		fail(err)
	}
	d := daemon.New(c, drivers, daemon.NewLogger(os.Stderr, c.LogLevel, c.LogFormat))
	d.Use("wedge", wedge)
	if err := d.Run(context.Background()); err != nil {
		fail(err)
	}
}

// wedge waits for the file of a loop, removes it so that the next lnetd works, and has that loop
// wait for ever.
func wedge(ctx context.Context, n *node.Node) error {
	for {
		for loop, stick := range map[string]func(context.Context, *node.Node) error{"discoverer": discoverer, "monitor": monitor} {
			err := os.Remove(trigger + loop)
			if err == nil {
				return stick(ctx, n)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// discoverer has the discoverer wait for ever.
func discoverer(ctx context.Context, n *node.Node) error {
	return n.ChangePolicies(ctx, func(*selection.Policies) error { select {} })
}

// monitor has the monitor wait for ever, in a handler of a message that it sends: one that a
// rule has delayed, and that ends where it is sent, as those to 0@lo do.
func monitor(ctx context.Context, n *node.Node) error {
	if err := n.AddFault(fault.Rule{Kind: fault.Delay, Latency: pause, Rate: 1}); err != nil {
		return err
	}
	h, err := n.Bind(portals.MD{Bytes: make([]byte, 1), Threshold: 1, Handler: portals.HandlerFunc(func(*portals.Event) { select {} })})
	if err != nil {
		return err
	}
	to := lnet.ProcessID{NID: lnet.LoopbackNID, PID: lnet.PIDLustre}
	if err := n.Put(h, to, node.PutOptions{Portal: 1}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
