// Package cli has code that the command-line programs share: error messages about invalid options, help texts
// and manual pages. It also replaces a program by the one with the driver for RDMA, if that is installed.
package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lnetd/lnetd/internal/lnetd/spelling"
)

// Explain converts an error of pflag about an option to one with a message for users. It returns other errors
// unchanged.
func Explain(err error) error {
	var (
		value   *pflag.InvalidValueError
		missing *pflag.ValueRequiredError
		unknown *pflag.NotExistError
	)
	switch {
	case errors.Is(err, errTwice) && errors.As(err, &value):
		return fmt.Errorf("option '%s' is given twice", option(value.GetFlag()))
	case errors.As(err, &value):
		return invalidValue(value)
	case errors.As(err, &missing):
		return fmt.Errorf("option '%s' requires an argument", option(missing.GetFlag()))
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("invalid option -- '%s'", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		return fmt.Errorf("unrecognized option '--%s'", unknown.GetSpecifiedName())
	}
	return err
}

// ExplainOptions makes errors about invalid options of c and its subcommands those of Explain. The error of an option
// that does not exist also suggests a similar one.
func ExplainOptions(c *cobra.Command) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		explained := Explain(err)
		unknown := (*pflag.NotExistError)(nil)
		if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
			return explained
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if like := spelling.Nearest(unknown.GetSpecifiedName(), names); like != "" {
			return fmt.Errorf("%w; %s", explained, spelling.DidYouMean("--"+like))
		}
		return explained
	})
}

// invalidValue returns an error about the invalid value of an option, which describes the values that the option
// accepts.
func invalidValue(err *pflag.InvalidValueError) error {
	f := err.GetFlag()
	what := ""
	switch f.Value.Type() {
	case "int", "int64", "uint", "uint32", "uint64":
		what = "a whole number that fits"
	case "float64":
		what = "a number"
	case "duration":
		what = "a time with its unit, such as 30s or 5m"
	case "bool":
		what = "true or false"
	default: // a type of lnetd, whose error describes it
		return fmt.Errorf("option '%s': %w", option(f), errors.Unwrap(err))
	}
	return fmt.Errorf("option '%s': '%s' is not %s", option(f), err.GetValue(), what)
}

// option returns the long name of an option with its dashes.
func option(f *pflag.Flag) string { return "--" + f.Name }
