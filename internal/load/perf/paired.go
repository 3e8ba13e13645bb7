package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
)

// Comparison is the effect of a setting, or of a change of the program, on a case. Without is the result
// without the setting or change, With the result with it.
type Comparison struct {
	Case     string    `json:"case"`
	In       int       `json:"in_bytes"`
	Out      int       `json:"out_bytes"`
	InFlight int       `json:"in_flight"`
	Unit     string    `json:"unit"`
	Without  *Measured `json:"without"`
	With     *Measured `json:"with"`
	// Ratio is the figure of With divided by the figure of Without, for each pair of rounds.
	Ratio   Spread `json:"ratio"`
	Verdict string `json:"verdict"` // better, worse, or no difference seen

	test *test
}

// Values of Verdict.
const (
	better       = "better"
	worse        = "worse"
	inconclusive = "no difference seen"
)

// verdict returns better or worse if three quarters of the pairs of rounds agree and the median ratio
// differs from 1 by more than a hundredth. Otherwise it returns inconclusive.
func (t *test) verdict(ratio Spread) string {
	const noise = 0.01
	higher := ratio.Q1 > 1 && ratio.Median > 1+noise
	lower := ratio.Q3 < 1 && ratio.Median < 1-noise
	if t.unit == microseconds {
		higher, lower = lower, higher
	}
	switch {
	case higher:
		return better
	case lower:
		return worse
	}
	return inconclusive
}

// ComparePaired measures the selected cases with two active processes that run Perform, one without and
// one with a setting or change. Rounds come in pairs with alternating order (without, with, with,
// without), so that slow changes of the machine affect both. It calls done with each result.
func ComparePaired(ctx context.Context, c Config, without, with *Process, done func(*Comparison)) (list []*Comparison, err error) {
	cases, err := c.chosen()
	if err != nil {
		return nil, err
	}
	for _, t := range cases {
		r, err := pairedComparison(ctx, &c, [2]benchPair{remotePair{without}, remotePair{with}}, &t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		done(r)
		list = append(list, r)
	}
	return list, nil
}

func pairedComparison(ctx context.Context, c *Config, arms [2]benchPair, t *test) (r *Comparison, err error) {
	var n int
	for k, a := range arms {
		if err := a.open(ctx, t.name); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, a.close(ctx)) }()
		m, err := size(ctx, c, a, t, MethodLNet)
		if err != nil {
			return nil, err
		}
		if k == 0 {
			n = m
		}
	}
	all := [2]*rounds{{n: n}, {n: n}}
	var ratios []float64
	for k := range c.Rounds + countedRounds {
		var now [2]float64
		for j := range 2 {
			which := (j + k) % 2
			counted := k >= c.Rounds
			round, err := arms[which].run(ctx, MethodLNet, n, counted)
			if err != nil {
				return nil, err
			}
			if counted {
				all[which].costs(&round)
				continue
			}
			now[which] = all[which].add(t, &round)
		}
		if now[0] > 0 {
			ratios = append(ratios, now[1]/now[0])
		}
	}
	r = &Comparison{
		Case: t.name, In: t.in, Out: t.out, InFlight: t.window, Unit: t.unit.String(),
		Without: all[0].measured(), With: all[1].measured(), Ratio: spreadOf(ratios), test: t,
	}
	r.Verdict = t.verdict(r.Ratio)
	return r, nil
}

// PrintAgainst writes two tables, like Print. head and rows have the names of the two compared
// processes: head for the columns of the first table, rows for the rows of the second.
func PrintAgainst(w io.Writer, head, rows [2]string, list []*Comparison) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "exchange\t%s\t%s\tratio\tquartiles\tleast..most\tverdict\n", head[0], head[1])
	for _, r := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%.2f\t%s\t%.2f..%.2f\t%s\n", r.Case, r.test.show(r.Without.Figure.Median),
			r.test.show(r.With.Figure.Median), r.Ratio.Median, quartiles(r.Ratio), r.Ratio.Min, r.Ratio.Max, r.Verdict)
	}
	fmt.Fprintln(table)
	printCostHead(table)
	for _, r := range list {
		printCosts(table, r.Case, rows[0], r.Without)
		printCosts(table, "", rows[1], r.With)
	}
	return table.Flush()
}
