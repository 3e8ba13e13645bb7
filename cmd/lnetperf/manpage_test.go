package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/cmd/internal/cli/clitest"
)

var update = flag.Bool("update", false, "write docs/man anew")

// docs/man has lnetperf(8), with all commands on one page.
func TestManualPages(t *testing.T) { clitest.Manual(t, "lnetperf.8", lnetperf8(), *update) }

func lnetperf8() []byte {
	var text strings.Builder
	root := (&program{stdout: &text}).commands()
	help.Write(&text, root)
	m := cli.NewManual("lnetperf", 8)
	m.Help(text.String(), m.Section, "SYNOPSIS", "EXAMPLES")
	m.Section("COMMANDS IN DETAIL")
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			detail(m, c)
		}
	}
	m.Section("SEE ALSO")
	m.Text("lnetd(8), lnetdctl(8), lst(8)")
	return m.Bytes()
}

// detail returns the help of one command.
func detail(m *cli.Manual, c *cobra.Command) {
	m.Subsection(c.Name())
	m.Text(c.Short)
	m.Literal(c.UseLine())
	m.Text(c.Long)
	m.Text(cli.Options(c.LocalNonPersistentFlags()))
	if c.Example != "" {
		m.Literal(c.Example)
	}
}
