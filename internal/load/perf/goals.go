package perf

import (
	"fmt"
	"math"
	"strings"
)

// Goals are the goals of a case. 0 means no goal.
type Goals struct {
	// Goal is the maximum of the ratio or, with AtLeast, its minimum.
	Goal    float64 `json:"goal,omitempty"`
	AtLeast bool    `json:"at_least,omitempty"`
	// FigureGoal is the minimum of lnetd's figure, in the unit of the case.
	FigureGoal float64 `json:"figure_goal,omitempty"`
	// CostGoal is the maximum of the ratios of the costs in limitedCosts.
	CostGoal float64 `json:"cost_goal,omitempty"`
}

// limitedCosts are the costs to which CostGoal applies.
var limitedCosts = []string{Wakeups, Syscalls, CPU}

// costRatios returns the costs of both processes with one method, divided by those with another. It has no entry
// for a cost that one of the methods does not have, or that was not counted.
func costRatios(with, floor *Measured) map[string]float64 {
	ratios := map[string]float64{}
	for _, name := range limitedCosts {
		if of := floor.Asks[name].Median + floor.Answers[name].Median; of > 0 {
			if _, counted := with.Asks[name]; counted {
				ratios[name] = (with.Asks[name].Median + with.Answers[name].Median) / of
			}
		}
	}
	return ratios
}

// missed describes the goals of a case that its results miss. Ratios count as they are printed, with two digits
// after the point.
func (t *test) missed(ratio, figure float64, costs map[string]float64) (list []string) {
	ratio = printed(ratio)
	if t.Goal != 0 && (t.AtLeast && ratio < t.Goal || !t.AtLeast && ratio > t.Goal) {
		list = append(list, fmt.Sprintf("ratio %.2f, goal %s", ratio, t.ratioGoal()))
	}
	if figure < t.FigureGoal {
		list = append(list, fmt.Sprintf("%s, goal at least %s", t.show(figure), t.show(t.FigureGoal)))
	}
	for _, name := range limitedCosts {
		if v, counted := costs[name]; counted && t.CostGoal != 0 && printed(v) > t.CostGoal {
			list = append(list, fmt.Sprintf("%s: ratio %.2f, goal at most %.2f", name, v, t.CostGoal))
		}
	}
	return list
}

// printed returns a ratio with the digits that are printed.
func printed(ratio float64) float64 { return math.Round(ratio*100) / 100 }

func (t *test) ratioGoal() string {
	if t.AtLeast {
		return fmt.Sprintf("at least %.2f", t.Goal)
	}
	return fmt.Sprintf("at most %.2f", t.Goal)
}

// goalText describes all goals of a case.
func (t *test) goalText() string {
	var parts []string
	if t.Goal != 0 {
		parts = append(parts, t.ratioGoal())
	}
	if t.FigureGoal != 0 {
		parts = append(parts, "at least "+t.show(t.FigureGoal))
	}
	if t.CostGoal != 0 {
		parts = append(parts, fmt.Sprintf("costs at most %.2f", t.CostGoal))
	}
	return strings.Join(parts, ", ")
}
