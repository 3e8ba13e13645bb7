package main

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/cmd/internal/cli/clitest"
)

var update = flag.Bool("update", false, "write docs/man anew")

// docs/man has lnetdctl(8) and lst(8), with all commands on one page each, like the manual pages of
// lnetctl(8) and lst(8).
func TestManualPages(t *testing.T) {
	for _, name := range []string{"lnetdctl", lstName} {
		clitest.Manual(t, name+".8", manual8(name), *update)
	}
}

// manual8 returns the page of the program under a name.
func manual8(name string) []byte {
	root := (&program{name: name}).root()
	m := cli.NewManual(name, 8)
	m.Help(helpOf(root), m.Section, "SYNOPSIS", "EXAMPLES")
	m.Section("COMMANDS IN DETAIL")
	for _, c := range leaves(root) {
		if !isLst(c) || name == lstName {
			detail(m, c)
		}
	}
	m.Section("FILES")
	m.Text("/run/lnetd/control.sock  the control socket of root's lnetd")
	m.Section("SEE ALSO")
	m.Text(strings.Join(slices.DeleteFunc([]string{"lnetd(8)", "lnetdctl(8)", "lst(8)", "lnet.conf(5)"},
		func(page string) bool { return page == name+"(8)" }), ", "))
	return m.Bytes()
}

// detail returns the help of one command.
func detail(m *cli.Manual, c *cobra.Command) {
	m.Subsection(strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" "))
	m.Text(c.Short)
	m.Literal(c.UseLine())
	m.Text(c.Long)
	m.Text(cli.Options(c.LocalNonPersistentFlags()))
	m.Literal(c.Example)
	if exits := c.Annotations[exitStatuses]; exits != "" && !isLst(c) {
		m.Text("The exit status is:")
		m.Text(exits)
	}
}

func helpOf(c *cobra.Command) string {
	var b strings.Builder
	help.Write(&b, c)
	return b.String()
}
