package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// versionPatience is how long "version" waits for an lnetd that does not answer.
const versionPatience = 2 * time.Second

func (p *program) versionCommand() *cobra.Command {
	return command(manual{
		use:   "version",
		short: "print the version of this program",
		long: `On a terminal a second line has the version of the lnetd that answers on the control
socket, if one answers. With --json this version is always included.`,
		example: "lnetdctl version",
		exits:   "0    always",
	}, func(ctx context.Context, _ []string) error { return p.showVersion(ctx) })
}

func (p *program) showVersion(ctx context.Context) error {
	c := p.client()
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	v, err := c.Version(ctx)
	own := api.BuildVersion()
	if p.json {
		out := struct {
			Version string       `json:"version"`
			Daemon  *api.Version `json:"daemon,omitempty"`
		}{Version: own}
		if err == nil {
			out.Daemon = &v
		}
		return p.printJSON(out)
	}
	fmt.Fprintf(p.stdout, "%s %s\n", p.name, own)
	if err == nil {
		p.hint(v.Program + " " + v.Version)
	}
	return nil
}
