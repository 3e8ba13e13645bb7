package picture

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/internal/load/perf"
)

// WriteTable writes the figures as a table in Markdown, with what misses a goal in bold.
func (r *Results) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| exchange | %s | %s | ratio | least to most | goal |\n|---|---|---|---|---|---|\n", r.methods[0].name, r.methods[1].name)
	for k := range r.cases {
		c := &r.cases[k]
		figure, ratio := show(c.unit, c.measured[0].figure.Median), fmt.Sprintf("%.2f", c.ratio.Median)
		fmt.Fprintf(&b, "| %s | %s | %s%s | %s | %.2f to %.2f | %s |\n",
			c.name, c.bold(figure, figure), c.beside, show(c.unit, c.measured[1].figure.Median),
			c.bold(ratio, "ratio "+ratio), c.ratio.Min, c.ratio.Max, c.goalText())
	}
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), "|  |", "| |"))
	return err
}

// bold returns a figure, in bold if missed has an entry about what.
func (c *result) bold(figure, what string) string {
	if slices.ContainsFunc(c.missed, func(m string) bool { return strings.HasPrefix(m, what+", goal ") }) {
		return "**" + figure + "**"
	}
	return figure
}

// goalText describes the goals of a case, and has the ratios of the costs for which there is one.
func (c *result) goalText() string {
	var parts []string
	if c.goals.Goal != 0 {
		parts = append(parts, fmt.Sprintf("at %s %.2f", map[bool]string{true: "least", false: "most"}[c.goals.AtLeast], c.goals.Goal))
	}
	if c.goals.FigureGoal != 0 {
		parts = append(parts, "at least "+show(c.unit, c.goals.FigureGoal))
	}
	if c.goals.CostGoal != 0 {
		var costs []string
		for _, name := range []string{perf.Wakeups, perf.Syscalls, perf.CPU} {
			if v, counted := c.costs[name]; counted {
				ratio := fmt.Sprintf("%.2f", v)
				costs = append(costs, name+" "+c.bold(ratio, name+": ratio "+ratio))
			}
		}
		parts = append(parts, fmt.Sprintf("costs at most %.2f: %s", c.goals.CostGoal, strings.Join(costs, ", ")))
	}
	return strings.Join(parts, ", ")
}
