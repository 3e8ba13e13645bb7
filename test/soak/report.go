package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lnetd/lnetd/node"
)

// Report is the result of one process.
type Report struct {
	Side  string
	Ran   time.Duration
	Begun uint64 // number of operations started
	Bytes uint64 // payload of successful operations
	// Number of operations by kind: Done succeeded, Lost had no answer in time, Failed could not be sent.
	Done, Lost, Failed map[string]uint64
	// Failures are the numbers of SEND events with an error, by class of the error.
	Failures map[string]uint64
	Kills    map[string]uint64
	// Stall is the longest time without a successful operation.
	Stall time.Duration
	// IdleAfter is the time from the end of the last operation until the node was idle.
	IdleAfter time.Duration

	// Messages from the peer: complete PUTs, incomplete PUTs, and GETs. Confirmed is the number of
	// acknowledged messages that were compared with the record of this process.
	Delivered, Broken, Served, Confirmed uint64

	// Rails are the numbers of messages sent to each of the peer's NIDs.
	Rails []uint64

	Counters node.Counters
	Samples  []Sample

	Found    int      // number of violations
	Findings []string // texts of the first violations
}

// addTrends adds a violation for each resource whose use has grown during the run.
func (r *Report) addTrends(c *Config) {
	for _, t := range trends(r.Samples, c.warmUp()) {
		if !t.flat() {
			r.Found++
			r.Findings = append(r.Findings, "grows: "+t.String())
		}
	}
}

// warmUp is the time after which memory and goroutines should no longer grow. By then, operations whose
// answer was lost have begun to end.
func (c *Config) warmUp() time.Duration { return max(2*c.Transaction, c.Time/20) }

// printReports writes a table with one column for each report.
func printReports(w io.Writer, c *Config, reports []Report) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, figure func(r *Report) string) {
		fmt.Fprintf(table, "%s", name)
		for k := range reports {
			fmt.Fprintf(table, "\t%s", figure(&reports[k]))
		}
		fmt.Fprintln(table)
	}
	row("", func(r *Report) string { return r.Side })
	row("ran", func(r *Report) string { return r.Ran.Round(time.Second).String() })
	for k := range kinds {
		name := k.String()
		row(name+" ended well", func(r *Report) string {
			return fmt.Sprintf("%d (%.0f/s)", r.Done[name], float64(r.Done[name])/r.Ran.Seconds())
		})
		row(name+" without an answer in time", func(r *Report) string { return fmt.Sprint(r.Lost[name]) })
		row(name+" not sent", func(r *Report) string { return fmt.Sprint(r.Failed[name]) })
	}
	row("payload", func(r *Report) string {
		return fmt.Sprintf("%.2f GB (%.0f MB/s)", float64(r.Bytes)/1e9, float64(r.Bytes)/1e6/r.Ran.Seconds())
	})
	row("PUTs received whole", func(r *Report) string { return fmt.Sprint(r.Delivered) })
	row("PUTs broken off", func(r *Report) string { return fmt.Sprint(r.Broken) })
	row("GETs served", func(r *Report) string { return fmt.Sprint(r.Served) })
	row("acknowledged and found here", func(r *Report) string { return fmt.Sprint(r.Confirmed) })
	row("sent by rail", func(r *Report) string { return fmt.Sprint(r.Rails) })
	row("failures of SEND", func(r *Report) string { return list(r.Failures) })
	row("kills", func(r *Report) string { return list(r.Kills) })
	row("resent", func(r *Report) string {
		return fmt.Sprintf("%d, well %d, in vain %d", r.Counters.Resent, r.Counters.SuccessfulResends, r.Counters.FailedResends)
	})
	row("response timeouts", func(r *Report) string { return fmt.Sprint(r.Counters.ResponseTimeouts) })
	row("dropped", func(r *Report) string { return fmt.Sprint(r.Counters.Dropped) })
	row("committed at most", func(r *Report) string { return fmt.Sprint(r.Counters.CommittedMax) })
	row("longest stall", func(r *Report) string { return r.Stall.Round(time.Millisecond).String() })
	row("at rest after", func(r *Report) string { return r.IdleAfter.Round(time.Millisecond).String() })
	all := make([][]trend, len(reports))
	for k := range reports {
		all[k] = trends(reports[k].Samples, c.warmUp())
	}
	if len(all) > 0 && all[0] != nil {
		for i, t := range all[0] {
			fmt.Fprintf(table, "%s, first and last quarter", t.name)
			for k := range all {
				if i < len(all[k]) {
					fmt.Fprintf(table, "\t%s", strings.TrimSpace(fmt.Sprintf("%d -> %d %s", all[k][i].first, all[k][i].last, all[k][i].unit)))
				}
			}
			fmt.Fprintln(table)
		}
	}
	row("violations", func(r *Report) string { return fmt.Sprint(r.Found) })
	_ = table.Flush() // output for a person
	for _, r := range reports {
		for _, f := range r.Findings {
			fmt.Fprintf(w, "%s: %s\n", r.Side, f)
		}
	}
}

// list formats counts by name, except those that are 0.
func list(m map[string]uint64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}
