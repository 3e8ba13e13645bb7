package perf

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Each goal of a case is compared with its figure. Costs that were not counted miss no goal.
func TestMissed(t *testing.T) {
	for _, x := range []struct {
		goals         Goals
		ratio, figure float64
		costs         map[string]float64
		text          string
		want          []string
	}{
		{},
		{goals: atMost(2.5), ratio: 2.504, text: "at most 2.50"},
		{goals: atMost(2.5), ratio: 2.6, text: "at most 2.50", want: []string{"ratio 2.60, goal at most 2.50"}},
		{goals: atLeast(0.9), ratio: 0.9, text: "at least 0.90"},
		{goals: atLeast(0.9), ratio: 0.8, text: "at least 0.90", want: []string{"ratio 0.80, goal at least 0.90"}},
		{goals: Goals{FigureGoal: 1000}, figure: 1000, text: "at least 1000 /s"},
		{goals: Goals{Goal: 4, AtLeast: true, FigureGoal: 1000}, ratio: 5, figure: 999, text: "at least 4.00, at least 1000 /s", want: []string{"999 /s, goal at least 1000 /s"}},
		{goals: Goals{CostGoal: 1.5}, costs: map[string]float64{Wakeups: 1.5}, text: "costs at most 1.50"},
		{
			goals: Goals{CostGoal: 1.5}, costs: map[string]float64{Wakeups: 1.6, Syscalls: 1, CPU: 3}, text: "costs at most 1.50",
			want: []string{"wakeups: ratio 1.60, goal at most 1.50", "cpu_us: ratio 3.00, goal at most 1.50"},
		},
	} {
		c := test{unit: perSecond, Goals: x.goals}
		if got := c.missed(x.ratio, x.figure, x.costs); !slices.Equal(got, x.want) {
			t.Errorf("%+v: %q, want %q", x.goals, got, x.want)
		}
		if got := c.goalText(); got != x.text {
			t.Errorf("%+v: %q, want %q", x.goals, got, x.text)
		}
	}
}

// Ratios of costs are those of both processes together.
func TestCostRatios(t *testing.T) {
	costs := func(wakeups float64) map[string]Spread { return map[string]Spread{Wakeups: {Median: wakeups}} }
	got := costRatios(
		&Measured{Asks: map[string]Spread{Wakeups: {Median: 2}, CPU: {Median: 5}}, Answers: costs(1)},
		&Measured{Asks: map[string]Spread{Wakeups: {Median: 1}, Syscalls: {Median: 5}}, Answers: costs(1)})
	if diff := cmp.Diff(map[string]float64{Wakeups: 1.5}, got); diff != "" {
		t.Error(diff)
	}
}

// Laps become percentiles, and a round without laps has no percentiles.
func TestLaps(t *testing.T) {
	var none *laps
	none.start()
	none.add()
	if none.histogram() != nil || newLaps(1).histogram() != nil {
		t.Error("a histogram of nothing")
	}
	l := newLaps(100)
	l.at = append(l.at, 0)
	for k := range 100 {
		step := time.Millisecond
		if k == 50 {
			step = time.Second
		}
		l.at = append(l.at, l.at[k]+step)
	}
	got := latencyOf(l.histogram())
	if got == nil || got.P50 < 1000 || got.P50 > 1125 || got.P99 != got.P50 || got.Max != 1e6 {
		t.Errorf("%+v", got)
	}
}
