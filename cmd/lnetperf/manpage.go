package main

import (
	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
)

const commonExitStatuses = `0      success
1      something has failed, or errors were counted
2      the command line makes no sense
128+N  ended by signal N: 130 by Ctrl-C; a server or node that a signal ends has 0 or 1`

// help holds the common parts of help texts.
var help = cli.Help{
	Operands:     "[OPTIONS]",
	ExitStatuses: func(*cobra.Command) string { return commonExitStatuses },
}
