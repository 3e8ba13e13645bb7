package peering

import (
	"testing"
	"time"
)

// TestDoubt asks once, and ends with a sign of life or after too long a silence, but not before the peer
// was asked.
func TestDoubt(t *testing.T) {
	var d Doubt
	if d.BeginProbe(noon) || d.Check(noon, false) || d.End() {
		t.Error("a doubt at the beginning")
	}
	for _, answers := range []bool{true, false} {
		if !d.Begin() || d.Begin() {
			t.Error("a doubt begins never or twice")
		}
		if d.Check(noon.Add(time.Hour), answers); d.Probed() || d.Begin() {
			t.Error("ended before the peer was asked")
		}
		if !d.BeginProbe(noon) || d.BeginProbe(noon) || !d.Probed() {
			t.Error("the peer is asked never or twice")
		}
		if d.Check(noon.Add(probePatience-1), false) {
			t.Error("too little patience")
		}
		if silent := d.Check(noon.Add(probePatience), answers); silent == answers {
			t.Errorf("answers %v: silent %v", answers, silent)
		}
		if d.End() == answers {
			t.Errorf("answers %v: the doubt has ended %v", answers, answers)
		}
	}
}
