package perf

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// HostedResult is the result of one case of RunHosted.
type HostedResult struct {
	Case     string `json:"case"`
	In       int    `json:"in_bytes"`
	Out      int    `json:"out_bytes"`
	InFlight int    `json:"in_flight"`
	Unit     string `json:"unit"` // us, GB/s or 1/s
	Goals
	LNet    Spread `json:"lnetd"`
	Inproc  Spread `json:"inproc"` // with a node in the measuring process
	Plain   Spread `json:"plain"`
	PlainIs string `json:"plain_is"` // name of the exchange that Plain measures
	// The latencies are set if the unit is time. That of two processes that poll is never set.
	LNetLatency   *Latency `json:"lnetd_latency,omitempty"`
	InprocLatency *Latency `json:"inproc_latency,omitempty"`
	PlainLatency  *Latency `json:"plain_latency,omitempty"`
	// Ratio is the figure LNet divided by Plain, and OfInproc is LNet divided by Inproc, for each round.
	Ratio    Spread `json:"ratio"`
	OfInproc Spread `json:"of_inproc"`
	// Asks are the costs of an exchange in the active process, by name. Bells and Allocs are the medians of two of
	// them. Daemons are the costs of all lnetd that take part, together.
	Asks    map[string]Spread `json:"asks"`
	Daemons map[string]Spread `json:"daemons,omitempty"`
	Bells   float64           `json:"bells"`
	Allocs  float64           `json:"allocs"`
	// Missed describes the goals that were missed.
	Missed []string `json:"missed,omitempty"`

	test *hostedTest
}

// PrintHosted writes a table of the results of RunHosted, and a second one with the costs of the active program and of
// lnetd. With details, it writes a third table with the spread of the figures, and a fourth with percentiles of the times.
func PrintHosted(w io.Writer, list []*HostedResult, details bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "exchange\tlnetd\tinproc\tplain\tratio\tquartiles\tgoal\tof inproc\tbells\tallocs\n")
	for _, r := range list {
		t := r.test
		fmt.Fprintf(table, "%s\t%s\t%s\t%s %s\t%.2f\t%s\t%s\t%.2f\t%.3f\t%.3f\n", r.Case,
			t.show(r.LNet.Median), t.show(r.Inproc.Median), t.show(r.Plain.Median), r.PlainIs,
			r.Ratio.Median, quartiles(r.Ratio), t.goalText(), r.OfInproc.Median, r.Bells, r.Allocs)
	}
	fmt.Fprintf(table, "\neach exchange costs: who asks + lnetd")
	for _, c := range costColumns {
		fmt.Fprintf(table, "\t%s", c.title)
	}
	fmt.Fprintln(table)
	for _, r := range list {
		fmt.Fprint(table, r.Case)
		for _, c := range costColumns {
			fmt.Fprintf(table, "\t%s+%s", costText(r.Asks, c.name, c.format), costText(r.Daemons, c.name, c.format))
		}
		fmt.Fprintln(table)
	}
	if details {
		var rows []detailRow
		for _, r := range list {
			rows = append(rows,
				detailRow{r.Case, "lnetd", &r.test.test, r.LNet, r.LNetLatency},
				detailRow{"", "inproc", &r.test.test, r.Inproc, r.InprocLatency},
				detailRow{"", r.PlainIs, &r.test.test, r.Plain, r.PlainLatency})
		}
		printDetails(table, rows)
	}
	return table.Flush()
}

// detailRow is a line of printDetails: what was measured with one method of a case.
type detailRow struct {
	name, by string
	test     *test
	figure   Spread
	latency  *Latency
}

// printDetails writes the spread of figures over the rounds, and percentiles of times.
func printDetails(w io.Writer, rows []detailRow) {
	fmt.Fprintf(w, "\nrounds\tby\tleast\tfirst quartile\tmedian\tthird quartile\tmost\n")
	for _, r := range rows {
		f, show := r.figure, r.test.show
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.name, r.by, show(f.Min), show(f.Q1), show(f.Median), show(f.Q3), show(f.Max))
	}
	fmt.Fprintf(w, "\nµs of an exchange\tby\tp50\tp90\tp99\tp99.9\tmost\n")
	for _, r := range rows {
		if l := r.latency; l != nil {
			fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n", r.name, r.by, l.P50, l.P90, l.P99, l.P999, l.Max)
		}
	}
}
