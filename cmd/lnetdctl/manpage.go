package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
)

// exitStatuses is the annotation of commands with the section EXIT STATUS of the help.
const exitStatuses = "exit-statuses"

const commonExitStatuses = `0    success
1    help was requested
234  the request is invalid or was refused (-22)
255  the command does not exist, or lnetd does not answer (-1)`

// help holds the common parts of help texts.
var help = cli.Help{
	Operands: "[OPTIONS] [OPERANDS]",
	ExitStatuses: func(c *cobra.Command) string {
		return cmp.Or(c.Annotations[exitStatuses], commonExitStatuses)
	},
	Environment: func(c *cobra.Command) string {
		text := "LNETD_CONTROL_SOCKET  path of the control socket of lnetd, if --control-socket is not given\n" +
			"LNETDCTL_HINTS        auto, always or never, if --hints is not given"
		if isLst(c) {
			text += lstEnvironment
		}
		return text
	},
}

// listCommands prints the names of the subcommands of c in four columns, which are together 80 characters wide
// (lnetctl 1.2).
func listCommands(w io.Writer, c *cobra.Command) {
	names := []string{}
	for _, sub := range cli.Visible(c) {
		names = append(names, sub.Name())
	}
	for i, name := range names {
		if i%4 == 3 || i == len(names)-1 {
			fmt.Fprintln(w, name)
			continue
		}
		fmt.Fprintf(w, "%-20s", name)
	}
}
