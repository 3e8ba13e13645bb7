package perf

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// HostedResult is the result of one case of RunHosted.
type HostedResult struct {
	Case     string  `json:"case"`
	In       int     `json:"in_bytes"`
	Out      int     `json:"out_bytes"`
	InFlight int     `json:"in_flight"`
	Unit     string  `json:"unit"` // us, GB/s or 1/s
	Goal     float64 `json:"goal,omitempty"`
	AtLeast  bool    `json:"at_least,omitempty"`
	LNet     Spread  `json:"lnetd"`
	Inproc   Spread  `json:"inproc"` // with a node in the measuring process
	Plain    Spread  `json:"plain"`
	PlainIs  string  `json:"plain_is"` // name of the exchange that Plain measures
	// Ratio is the figure LNet divided by Plain, and OfInproc is LNet divided by Inproc, for each round.
	Ratio    Spread `json:"ratio"`
	OfInproc Spread `json:"of_inproc"`
	// Bells and Allocs are costs of an exchange in the active process: system calls on the eventfds shared
	// with lnetd, and allocations on Go's heap.
	Bells  float64 `json:"bells"`
	Allocs float64 `json:"allocs"`

	test *hostedTest
}

// PrintHosted writes a table of the results of RunHosted.
func PrintHosted(w io.Writer, list []*HostedResult) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "exchange\tlnetd\tinproc\tplain\tratio\tquartiles\tgoal\tof inproc\tbells\tallocs\n")
	for _, r := range list {
		t := r.test
		fmt.Fprintf(table, "%s\t%s\t%s\t%s %s\t%.2f\t%s\t%s\t%.2f\t%.3f\t%.3f\n", r.Case,
			t.show(r.LNet.Median), t.show(r.Inproc.Median), t.show(r.Plain.Median), r.PlainIs,
			r.Ratio.Median, quartiles(r.Ratio), t.goalText(), r.OfInproc.Median, r.Bells, r.Allocs)
	}
	return table.Flush()
}
