package cli_test

import (
	"fmt"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
)

// An option that takes one value rejects a second one, under either of its names, and so does a
// switch; options that collect values accept several.
func TestOnce(t *testing.T) {
	tests := []struct {
		args []string
		want string // the error, or the values
	}{
		{[]string{"--net", "a"}, "a  0 []"},
		{[]string{"--net", "a", "--net", "a"}, "option '--net' is given twice"},
		{[]string{"--net", "a", "--network=b"}, "option '--network' is given twice"},
		{[]string{"-n", "1", "-n2"}, "option '--number' is given twice"},
		{[]string{"--if", "a,b", "--if=c", "-i", "d"}, " a,b,c,d 0 []"},
		{[]string{"--file", "a", "--file", "b"}, "  0 [a b]"},
		{[]string{"-vv", "--all", "below"}, "  0 []"},
		{[]string{"--all", "--all", "below"}, "option '--all' is given twice"},
		{[]string{"--all", "below", "--all=false"}, "option '--all' is given twice"},
		{[]string{"below", "--deep", "1", "--deep", "2"}, "option '--deep' is given twice"},
		{[]string{"--common", "1", "below", "--common", "2"}, "option '--common' is given twice"},
	}
	for _, tt := range tests {
		var net, deep, common string
		var number, loud int
		var all bool
		var names cli.List
		var files []string
		c := &cobra.Command{Use: "p", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return nil }}
		f := c.Flags()
		f.StringVar(&net, "net", "", "")
		f.Var(f.Lookup("net").Value, "network", "")
		f.IntVarP(&number, "number", "n", 0, "")
		f.VarP(&names, "if", "i", "")
		f.StringArrayVar(&files, "file", nil, "")
		c.PersistentFlags().CountVarP(&loud, "loud", "v", "")
		c.PersistentFlags().BoolVar(&all, "all", false, "")
		c.PersistentFlags().StringVar(&common, "common", "", "")
		below := &cobra.Command{Use: "below", RunE: c.RunE}
		below.Flags().StringVar(&deep, "deep", "", "")
		c.AddCommand(below)
		cli.Once(c)
		c.SetArgs(tt.args)
		got := ""
		if err := c.Execute(); err != nil {
			got = cli.Explain(err).Error()
		} else {
			got = fmt.Sprint(net, " ", names, " ", number, " ", files)
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.want)
		}
	}
}
