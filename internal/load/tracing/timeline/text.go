package timeline

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Print writes the timeline as text: the means of all requests for each process, and the steps of the median
// request.
func (t *Timeline) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %.1f µs, median of %d requests (quartiles %.1f..%.1f)\n\n", t.Name, t.Median, t.Requests, t.Q1, t.Q3)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "mean of all requests\twake-ups\thand-offs\tsleeps\tswitches\tsyscalls\t")
	all := Process{Role: "all"}
	for k := range t.Processes {
		p := &t.Processes[k]
		all.Wakeups, all.HandOffs, all.Sleeps = all.Wakeups+p.Wakeups, all.HandOffs+p.HandOffs, all.Sleeps+p.Sleeps
		all.Switches, all.Calls = all.Switches+p.Switches, all.Calls+p.Calls
		p.print(table)
	}
	all.print(table)
	fmt.Fprintln(table)
	fmt.Fprintln(table, "µs\tCPU\tthread\t")
	for k := range t.Steps {
		s := &t.Steps[k]
		fmt.Fprintf(table, "%.1f\t%d\t%s\t%s\n", s.At, s.CPU, s.Thread, s.Text())
	}
	fmt.Fprintf(table, "%.1f\t\t\tthe request ends\n", t.Median)
	return table.Flush()
}

func (p *Process) print(w io.Writer) {
	var calls []string
	for _, name := range slices.SortedFunc(maps.Keys(p.ByName), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.ByName[b], p.ByName[a]), strings.Compare(a, b))
	}) {
		calls = append(calls, fmt.Sprintf("%s %.2f", name, p.ByName[name]))
	}
	fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%s\n", p.Role, p.Wakeups, p.HandOffs, p.Sleeps, p.Switches, p.Calls, strings.Join(calls, ", "))
}

// Text describes the step in words.
func (s *Step) Text() string {
	duration := fmt.Sprintf("%.1f µs", s.For)
	switch s.Action {
	case Call:
		if s.Result == "" {
			return s.Name + " ..."
		}
		return fmt.Sprintf("%s = %s, %s", s.Name, s.Result, duration)
	case Sleep:
		if s.For == 0 {
			return "  sleeps"
		}
		return "  sleeps for " + duration
	case Preempt:
		if s.For == 0 {
			return "  is preempted"
		}
		return "  is preempted for " + duration
	case Run:
		if s.For == 0 {
			return "  runs"
		}
		return "  runs, " + duration + " after it was ready"
	case Woken:
		return "  is woken by a timer, an interrupt or another program"
	}
	text := "  wakes " + s.Other.String()
	if s.HandOff {
		text += ", a hand-off"
	}
	return text
}
