package perf

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"
)

// Print writes two tables: the figures of each case, and the costs of its exchanges. With details, it also writes
// the spread of the figures, and percentiles of the times.
func Print(w io.Writer, results []*Result, details bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "exchange\tlnetd\tfloor\tlimit\tratio\tquartiles\tgoal\tof limit\tquartiles\n")
	for _, r := range results {
		t := r.test
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.2f\t%s\t%s\t%.2f\t%s\n", t.name,
			t.show(r.LNet.Figure.Median), t.show(r.Floor.Figure.Median), t.show(r.Limit.Figure.Median),
			r.Ratio.Median, quartiles(r.Ratio), t.goalText(), r.OfLimit.Median, quartiles(r.OfLimit))
	}
	fmt.Fprintln(table)
	printCostHead(table)
	var rows []detailRow
	for _, r := range results {
		name := r.Case
		for _, x := range []struct {
			method Method
			m      *Measured
		}{{MethodLNet, r.LNet}, {MethodFloor, r.Floor}, {MethodLimit, r.Limit}} {
			printCosts(table, name, string(x.method), x.m)
			rows = append(rows, detailRow{name, string(x.method), r.test, x.m.Figure, x.m.Latency})
			name = ""
		}
		if r.CostGoal != 0 {
			printCostRatios(table, r.CostRatios)
		}
	}
	if details {
		printDetails(table, rows)
	}
	return table.Flush()
}

// costColumns are the columns of the table of costs.
var costColumns = []struct{ name, title, format string }{
	{Wakeups, "wake-ups", "%.2f"},
	{Syscalls, "syscalls", "%.2f"},
	{IOSyscalls, "reads, writes", "%.2f"},
	{CPU, "µs of processor", "%.1f"},
	{Allocs, "allocs", "%.2f"},
}

func printCostHead(w io.Writer) {
	fmt.Fprintf(w, "each exchange costs: who asks + who answers\tby")
	for _, c := range costColumns {
		fmt.Fprintf(w, "\t%s", c.title)
	}
	fmt.Fprintln(w)
}

// printCosts writes a row with the median costs of one method.
func printCosts(w io.Writer, name, by string, m *Measured) {
	fmt.Fprintf(w, "%s\t%s", name, by)
	for _, c := range costColumns {
		fmt.Fprintf(w, "\t%s+%s", costText(m.Asks, c.name, c.format), costText(m.Answers, c.name, c.format))
	}
	fmt.Fprintln(w)
}

// printCostRatios writes a row with costs of lnetd divided by those of the floor.
func printCostRatios(w io.Writer, ratios map[string]float64) {
	fmt.Fprintf(w, "\tratio")
	for _, c := range costColumns {
		if v, ok := ratios[c.name]; ok {
			fmt.Fprintf(w, "\t%.2f", v)
		} else {
			fmt.Fprintf(w, "\t")
		}
	}
	fmt.Fprintln(w)
}

// costText returns the median of a cost, or "-" if the cost was not counted.
func costText(costs map[string]Spread, name, format string) string {
	s, ok := costs[name]
	if !ok {
		return "-"
	}
	return fmt.Sprintf(format, s.Median)
}

func quartiles(s Spread) string { return fmt.Sprintf("%.2f..%.2f", s.Q1, s.Q3) }

// How returns lines of text that explain how the costs were counted.
func How() []string {
	lines := []string{
		"wake-ups: voluntary context switches of all threads; µs of processor: user and system; allocs: Go's heap",
		"reads, writes: system calls that read or write, of vectors too, as /proc/self/io counts them",
	}
	all := "syscalls: of all kinds except sched_yield, by the tracepoint raw_syscalls:sys_enter, in rounds of their own"
	if err := UncountedSyscalls(); err != nil {
		all = "syscalls: not counted: " + strings.ReplaceAll(err.Error(), "\n", ": ") + "; it takes root"
	}
	return append(lines, all)
}

// Machine returns a description of the machine and of Go, for JSON output.
func Machine() map[string]any {
	var u unix.Utsname
	kernel := ""
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	return map[string]any{
		"kernel": kernel, "architecture": runtime.GOARCH, "go": runtime.Version(),
		"processors": runtime.NumCPU(), "gomaxprocs": runtime.GOMAXPROCS(0),
	}
}
