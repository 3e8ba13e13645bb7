// Package cli holds what the command-line programs share: error texts for invalid options, help,
// manual pages, and the change to the program with the driver for RDMA, if it is installed.
package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// Explain rewrites errors about options for users. It returns other errors unchanged.
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

// invalidValue describes the values that the option accepts.
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
