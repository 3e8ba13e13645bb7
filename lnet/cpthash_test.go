package lnet

import (
	"testing"

	"pgregory.net/rapid"
)

// The vectors of lnet-wire 2.8.
//
// lnet-wire 2.8
func TestCPT(t *testing.T) {
	for _, tt := range []struct {
		nid               string
		candidates, total int
		want              int
	}{
		{"192.168.1.10@tcp", 2, 2, 1},
		{"192.168.1.10@tcp", 3, 4, 1},
		{"192.168.1.10@tcp", 4, 4, 1},
		{"192.168.1.10@tcp", 8, 8, 5},
		{"192.168.1.10@tcp", 16, 16, 5},
		{"10.0.0.1@tcp", 16, 16, 13},
		{"4660@kfi1", 4, 4, 2},
		{"4660@kfi1", 3, 4, 2},
		{"2001:db8::10@tcp", 4, 4, 1},
		{"2001:db8::10@tcp", 8, 8, 3},
		{"2001:db8::20@tcp", 4, 4, 0},
		{"2001:db8::20@tcp", 8, 8, 1},
		{"2001:db8::20@tcp", 1, 8, 0},
		{"10.0.0.1@tcp", 1, 1, 0},
	} {
		if got := mustNID(t, tt.nid).CPT(tt.candidates, tt.total); got != tt.want {
			t.Errorf("%s among %d of %d: %d, want %d", tt.nid, tt.candidates, tt.total, got, tt.want)
		}
	}
}

func TestCPTIsInCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := genNID().Draw(t, "nid")
		total := rapid.IntRange(1, 300).Draw(t, "total")
		candidates := rapid.IntRange(1, total).Draw(t, "candidates")
		if got := n.CPT(candidates, total); got < 0 || got >= candidates {
			t.Errorf("%v among %d of %d: %d", n, candidates, total, got)
		}
	})
}
