// Command wedged is an lnetd whose node gets stuck as if it had a bug: it blocks the node's loop LOOP
// forever when the file /run/lnetd/wedge-LOOP exists. LOOP is discoverer or monitor.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
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

// wedge waits until the file /run/lnetd/wedge-LOOP exists for one of the node's loops, removes the file, so
// that the next lnetd works, and then blocks that loop forever.
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

// discoverer blocks the goroutine of discovery forever.
func discoverer(ctx context.Context, n *node.Node) error {
	return n.Admin().ChangePolicies(ctx, func(*selection.Policies) error { select {} })
}

// monitor blocks the node's monitor forever, in the handler of a message. The message goes to 0@lo and
// is delayed by a fault rule, so the monitor delivers it and calls the handler.
func monitor(ctx context.Context, n *node.Node) error {
	if err := n.Admin().AddFault(fault.Rule{Kind: fault.Delay, Latency: pause, Rate: 1}); err != nil {
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
