package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const commonExitStatuses = `0      success
1      something has failed, or errors were counted
2      the command line makes no sense
128+N  ended by signal N: 130 by Ctrl-C; a server or node that a signal ends has 0 or 1`

// manPage prints the help of a command as a manual page.
func manPage(w io.Writer, c *cobra.Command) {
	section := func(title, body string) {
		if body = strings.TrimRight(body, "\n"); body != "" {
			body = strings.ReplaceAll("\n"+body, "\n", "\n    ")
			fmt.Fprintf(w, "%s%s\n\n", title, strings.ReplaceAll(body, "\n    \n", "\n\n"))
		}
	}
	section("NAME", c.CommandPath()+" - "+c.Short)
	synopsis := c.UseLine()
	if c.HasSubCommands() {
		synopsis = c.CommandPath() + " COMMAND [OPTIONS]"
	}
	section("SYNOPSIS", synopsis)
	section("DESCRIPTION", c.Long)
	var commands strings.Builder
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&commands, "%-10s %s\n", sub.Name(), sub.Short)
		}
	}
	section("COMMANDS", commands.String())
	c.InitDefaultHelpFlag()
	section("OPTIONS", options(c.LocalFlags()))
	if c.HasParent() {
		section("COMMON OPTIONS", options(c.InheritedFlags()))
	}
	section("EXAMPLES", c.Example)
	section("EXIT STATUS", commonExitStatuses)
}

// options describes options, one a line, in the order in which they were declared.
func options(set *pflag.FlagSet) string {
	var b strings.Builder
	set.SortFlags = false
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "    --" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", --" + f.Name
		}
		if value != "" {
			name += " " + value
		}
		fmt.Fprintf(&b, "%-32s %s\n", name, usage)
	})
	return b.String()
}
