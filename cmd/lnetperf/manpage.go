package main

import (
	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
)

const commonExitStatuses = `0      success
1      an operation failed, or errors were counted
2      the command line is wrong
3      compare has measured everything, and a goal was missed
128+N  ended by signal N: 130 by Ctrl-C; a server or node ended by a signal exits with 0 or 1`

// help holds the common parts of help texts.
var help = cli.Help{
	Operands:     "[OPTIONS]",
	ExitStatuses: func(*cobra.Command) string { return commonExitStatuses },
}
