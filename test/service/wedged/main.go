// Command wedged is an lnetd whose node gets stuck as soon as /run/lnetd/wedge is there: a
// discoverer that waits for ever, as a defect would have it.
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
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

const (
	trigger = "/run/lnetd/wedge"
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

// wedge waits for the file, removes it so that the next lnetd works, and has the discoverer
// wait for ever.
func wedge(ctx context.Context, n *node.Node) error {
	for {
		err := os.Remove(trigger)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
	return n.ChangePolicies(ctx, func(*selection.Policies) error { select {} })
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
