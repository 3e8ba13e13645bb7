package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// errTwice is the error of an option that is given twice but may be given only once.
var errTwice = errors.New("given twice")

// Once makes it an error if an option of c or of one of its subcommands is given twice. Options that collect
// values (a List or any pflag.SliceValue) and counters may be repeated. Options that set the same value count as
// one option.
func Once(c *cobra.Command) {
	values := map[pflag.Value]*once{}
	wrap := func(f *pflag.Flag) {
		switch f.Value.(type) {
		case pflag.SliceValue, *List, *once:
			return
		}
		if f.Value.Type() == "count" {
			return
		}
		if values[f.Value] == nil {
			values[f.Value] = &once{Value: f.Value}
		}
		f.Value = values[f.Value]
	}
	c.PersistentFlags().VisitAll(wrap)
	c.Flags().VisitAll(wrap)
	for _, below := range c.Commands() {
		Once(below)
	}
}

// once is the value of an option that can be set only once.
type once struct {
	pflag.Value
	given bool
}

// Set implements pflag.Value.
func (o *once) Set(s string) error {
	if o.given {
		return errTwice
	}
	o.given = true
	return o.Value.Set(s)
}

// List is the value of an option: a comma-separated list. If the option is repeated, the lists are joined.
type List string

// Set implements pflag.Value.
func (l *List) Set(s string) error {
	if *l != "" {
		*l += ","
	}
	*l += List(s)
	return nil
}

// String implements pflag.Value.
func (l *List) String() string { return string(*l) }

// Type implements pflag.Value.
func (*List) Type() string { return "string" }
