package cli_test

import (
	"errors"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lnetd/lnetd/cmd/internal/cli"
)

// even is a flag type that a program defines.
type even struct{}

func (even) String() string   { return "" }
func (even) Type() string     { return "even" }
func (even) Set(string) error { return errors.New("not an even number") }

func TestExplain(t *testing.T) {
	f := pflag.NewFlagSet("p", pflag.ContinueOnError)
	f.Int("int", 0, "")
	f.Uint64("uint", 0, "")
	f.Float64("float", 0, "")
	f.Duration("time", time.Second, "")
	f.BoolP("bool", "b", false, "")
	f.Var(even{}, "even", "")
	f.StringP("text", "t", "", "")
	for arg, want := range map[string]string{
		"--int=abc":                  "option '--int': 'abc' is not a whole number that fits",
		"--int=99999999999999999999": "option '--int': '99999999999999999999' is not a whole number that fits",
		"--uint=-1":                  "option '--uint': '-1' is not a whole number that fits",
		"--float=x":                  "option '--float': 'x' is not a number",
		"--time=5":                   "option '--time': '5' is not a time with its unit, such as 30s or 5m",
		"--bool=maybe":               "option '--bool': 'maybe' is not true or false",
		"--even=3":                   "option '--even': not an even number",
		"--text":                     "option '--text' requires an argument",
		"-t":                         "option '--text' requires an argument",
		"--frob":                     "unrecognized option '--frob'",
		"-bx":                        "invalid option -- 'x'",
	} {
		if err := cli.Explain(f.Parse([]string{arg})); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
	explained := &cobra.Command{Use: "p", SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command, []string) {}}
	explained.Flags().Int("portal", 0, "")
	cli.ExplainOptions(explained)
	for arg, want := range map[string]string{
		"--portla=1": "unrecognized option '--portla'; did you mean '--portal'?",
		"--frob":     "unrecognized option '--frob'",
		"-p":         "invalid option -- 'p'",
		"--portal=x": "option '--portal': 'x' is not a whole number that fits",
	} {
		explained.SetArgs([]string{arg})
		if err := explained.Execute(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
	other := errors.New("another")
	if got := cli.Explain(other); got != other {
		t.Errorf("got %v", got)
	}
}
