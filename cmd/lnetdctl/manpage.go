package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// exitStatuses is the annotation that holds a command's EXIT STATUS section.
const exitStatuses = "exit-statuses"

const commonExitStatuses = `0    success
1    help was asked for in place of the command's work
234  the request makes no sense or was refused (-22)
255  no such command, or no lnetd to talk to (-1)`

// manPages makes the help of root and all commands below it read like manual
// pages.
func manPages(root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { manPage(c.OutOrStdout(), c) })
}

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
		synopsis = c.CommandPath() + " COMMAND [OPTIONS] [OPERANDS]"
	}
	section("SYNOPSIS", synopsis)
	section("DESCRIPTION", c.Long)
	var commands strings.Builder
	width := 10
	for _, sub := range visible(c) {
		width = max(width, len(sub.Name()))
	}
	for _, sub := range visible(c) {
		fmt.Fprintf(&commands, "%-*s  %s\n", width, sub.Name(), sub.Short)
	}
	section("COMMANDS", commands.String())
	c.InitDefaultHelpFlag()
	section("OPTIONS", options(c.LocalFlags()))
	if c.HasParent() {
		section("COMMON OPTIONS", options(c.InheritedFlags()))
	}
	section("EXAMPLES", c.Example)
	statuses := c.Annotations[exitStatuses]
	if statuses == "" {
		statuses = commonExitStatuses
	}
	section("EXIT STATUS", statuses)
	environment := "LNETD_CONTROL_SOCKET  path of lnetd's control socket, if --control-socket is not given"
	if isLst(c) {
		environment += lstEnvironment
	}
	section("ENVIRONMENT", environment)
}

// options describes options, one a line.
func options(set *pflag.FlagSet) string {
	var b strings.Builder
	set.VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		name := "    --" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", --" + f.Name
		}
		switch _, optional := f.Annotations[optionalLevel]; {
		case optional:
			name += " [" + value + "]"
		case value != "":
			name += " " + value
		}
		fmt.Fprintf(&b, "%-27s  %s\n", name, usage)
	})
	return b.String()
}

// visible returns the commands below c that users should see.
func visible(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != wordHelp {
			out = append(out, sub)
		}
	}
	return out
}

// listCommands prints the names of c's commands in four columns over 80
// characters (lnetctl 1.2).
func listCommands(w io.Writer, c *cobra.Command) {
	names := []string{}
	for _, sub := range visible(c) {
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
