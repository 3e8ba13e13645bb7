package main

import (
	"bytes"
	"testing"
)

// Goals that were missed are listed, and have a separate exit status.
func TestMissedGoals(t *testing.T) {
	var errs bytes.Buffer
	p := &program{stderr: &errs}
	if p.reportMissed("a case", nil) || goalError(false) != nil {
		t.Error("a goal is missed without one")
	}
	if !p.reportMissed("a case", []string{"ratio 2.60, goal at most 2.50", "cpu_us: ratio 3.00, goal at most 1.50"}) {
		t.Error("no goal is missed")
	}
	const want = "goal missed: a case: ratio 2.60, goal at most 2.50\ngoal missed: a case: cpu_us: ratio 3.00, goal at most 1.50\n"
	if errs.String() != want {
		t.Errorf("it says %s", errs.String())
	}
}
