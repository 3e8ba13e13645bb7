package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/control/client"
)

// group is a command word that wants one of others after it; its examples are the
// first of each of those.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short}
	addTo(c, commands...)
	return c
}

// addTo adds commands to a group.
func addTo(group *cobra.Command, commands ...*cobra.Command) {
	group.AddCommand(commands...)
	for _, c := range commands {
		example, _, _ := strings.Cut(c.Example, "\n")
		group.Example += example + "\n"
	}
}

// manual is the manual page of a command.
type manual struct {
	// use is the command's name with its options and operands.
	use                  string
	short, long, example string
	// exits is the EXIT STATUS section, if it is not the usual one.
	exits string
	// number says that the operand is a number.
	number bool
	// helps says that asking for help is a success, as lnetctl has it of ping and
	// discover alone.
	helps bool
}

// needsHelp ends a command with its help on stdout and an exit status, as
// lnetctl answers to too few arguments (lnetctl 1.5).
type needsHelp struct{ status }

// command is a command with operands that run looks at.
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

// leaf is a command without operands.
func leaf(m manual, run func(ctx context.Context) error) *cobra.Command {
	return command(m, func(ctx context.Context, operands []string) error {
		if len(operands) > 0 {
			return fmt.Errorf("unexpected operand '%s'", operands[0])
		}
		return run(ctx)
	})
}

// verbosity adds an option whose level may be left out (lnetctl 4.4).
func verbosity(c *cobra.Command, level *string, usage string) {
	c.Flags().StringVarP(level, "verbose", "v", "0", usage)
	v := c.Flags().Lookup("verbose")
	v.NoOptDefVal = "1"
	v.Annotations = map[string][]string{optionalLevel: nil}
}

// verbosityLevel is the level that was given.
func verbosityLevel(given string) int64 {
	level, ok := parseNumber(given)
	if !ok {
		return 1
	}
	return level
}

// tell asks the daemon for a change.
func (p *program) tell(form errorForm, do func(c *client.Client) error) error {
	client := p.client()
	defer client.Close()
	if err := do(client); err != nil {
		return p.refused(form, err)
	}
	return nil
}

// show asks the daemon for something and prints it: with --json what json makes
// of it, else the document, of which there is nothing to print if it is empty.
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

// section is a document of one list; without items there is none.
func section(key string, items sequence) mapping {
	if len(items) == 0 {
		return nil
	}
	return mapping{{key, items}}
}
