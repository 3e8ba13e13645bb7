package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

// group returns a command that only has subcommands. The examples in its help are the first examples of the
// subcommands.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short}
	addTo(c, commands...)
	return c
}

// addTo adds subcommands to a group, and their first examples to its help.
func addTo(group *cobra.Command, commands ...*cobra.Command) {
	group.AddCommand(commands...)
	for _, c := range commands {
		example, _, _ := strings.Cut(c.Example, "\n")
		group.Example += example + "\n"
	}
}

// manual holds the help texts of a command.
type manual struct {
	// use is the command's name with its options and operands.
	use                  string
	short, long, example string
	// exits is the section EXIT STATUS. If it is empty, the help has the usual one.
	exits string
	// number reports whether the operand is a number.
	number bool
	// helps reports whether the exit status of --help is 0. As in lnetctl, this is so only for ping and
	// discover.
	helps bool
}

// needsHelp is an error with which a command asks to print its help on stdout and to exit with a status, as
// lnetctl does if arguments are missing (lnetctl 1.5).
type needsHelp struct{ status }

// command returns a command with the given help texts. It calls run with its operands.
func command(m manual, run func(ctx context.Context, operands []string) error) *cobra.Command {
	c := &cobra.Command{
		Use: m.use, DisableFlagsInUseLine: true,
		Short: m.short, Long: m.long, Example: m.example,
		RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), args) },
	}
	c.Annotations = map[string]string{exitStatuses: m.exits}
	if m.number {
		c.Annotations[numberOperand] = ""
	}
	if m.helps {
		c.Annotations[helpSucceeds] = ""
	}
	return c
}

// leaf returns a command with the given help texts that accepts no operands. It calls run.
func leaf(m manual, run func(ctx context.Context) error) *cobra.Command {
	return command(m, func(ctx context.Context, operands []string) error {
		if len(operands) > 0 {
			return fmt.Errorf("unexpected operand '%s'", operands[0])
		}
		return run(ctx)
	})
}

// verbosity adds the option --verbose to a command. Its value, the level, may be omitted and is 1 then (lnetctl
// 4.4).
func verbosity(c *cobra.Command, level *string, usage string) {
	c.Flags().StringVarP(level, "verbose", "v", "0", usage)
	v := c.Flags().Lookup("verbose")
	v.NoOptDefVal = "1"
	v.Annotations = map[string][]string{optionalLevel: nil}
}

// verbosityLevel returns the level that the value of --verbose stands for. It is 1 if the value is not a number.
func verbosityLevel(given string) int64 {
	level, ok := parseNumber(given)
	if !ok {
		return 1
	}
	return level
}

// tell calls do, which sends a request to lnetd. If do returns an error, tell prints it and returns the exit
// status.
func (p *program) tell(form errorForm, do func(c *client.Client) error) error {
	client := p.client()
	defer client.Close()
	if err := do(client); err != nil {
		return p.refused(form, err)
	}
	return nil
}

// show reads data from lnetd with the function get and prints them. With --json it prints the result of json,
// and otherwise the result of document in the given layout. It prints nothing for an empty document.
func show[T any](
	p *program, form errorForm, l layout,
	get func(c *client.Client) (T, error), json func(T) any, document func(T) mapping,
) error {
	client := p.client()
	defer client.Close()
	v, err := get(client)
	if err != nil {
		return p.refused(form, err)
	}
	if p.json {
		return p.printJSON(json(v))
	}
	return l.write(p.stdout, document(v))
}

// section returns a document with one list, or nil if the list is empty.
func section(key string, items sequence) mapping {
	if len(items) == 0 {
		return nil
	}
	return mapping{{key, items}}
}
