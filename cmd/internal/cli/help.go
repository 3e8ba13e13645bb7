package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help writes help texts for commands. It holds the parts of the texts for which cobra commands have no field.
type Help struct {
	// Operands is what the synopsis has after the word "COMMAND" for a command that has subcommands.
	Operands string
	// ExitStatuses and Environment return the sections EXIT STATUS and ENVIRONMENT for a command.
	// Environment may be nil.
	ExitStatuses, Environment func(*cobra.Command) string
}

// Install makes the command root and all of its subcommands print their help with h.Write.
func (h Help) Install(root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { h.Write(c.OutOrStdout(), c) })
}

// Write prints the help of a command in the form of a manual page.
func (h Help) Write(w io.Writer, c *cobra.Command) {
	section := func(title, body string) {
		if body = strings.TrimRight(body, "\n"); body != "" {
			body = strings.ReplaceAll("\n"+body, "\n", "\n    ")
			fmt.Fprintf(w, "%s%s\n\n", title, strings.ReplaceAll(body, "\n    \n", "\n\n"))
		}
	}
	section("NAME", c.CommandPath()+" - "+c.Short)
	synopsis := c.UseLine()
	if c.HasSubCommands() {
		synopsis = c.CommandPath() + " COMMAND " + h.Operands
	}
	section("SYNOPSIS", synopsis)
	section("DESCRIPTION", c.Long)
	section("COMMANDS", commands(c))
	c.InitDefaultHelpFlag()
	section("OPTIONS", Options(c.LocalFlags()))
	if c.HasParent() {
		section("COMMON OPTIONS", Options(c.InheritedFlags()))
	}
	section("EXAMPLES", c.Example)
	section("EXIT STATUS", h.ExitStatuses(c))
	if h.Environment != nil {
		section("ENVIRONMENT", h.Environment(c))
	}
}

// commands returns a text with a line for each visible subcommand of c: its name and its short description.
func commands(c *cobra.Command) string {
	var b strings.Builder
	width := 10
	for _, sub := range Visible(c) {
		width = max(width, len(sub.Name()))
	}
	for _, sub := range Visible(c) {
		fmt.Fprintf(&b, "%-*s  %s\n", width, sub.Name(), sub.Short)
	}
	return b.String()
}

// Options returns a text that describes the visible options in set, in the order of their definition.
func Options(set *pflag.FlagSet) string {
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
		switch {
		case value == "":
		case f.NoOptDefVal != "":
			name += " [" + value + "]"
		default:
			name += " " + value
		}
		fmt.Fprintf(&b, "%-27s  %s\n", name, usage)
	})
	return b.String()
}

// Visible returns the subcommands of c that help texts list.
func Visible(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			out = append(out, sub)
		}
	}
	return out
}
