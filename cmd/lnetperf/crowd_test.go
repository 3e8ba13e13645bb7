//go:build !race

// The programs that these tests run are built without the race detector, so .ci/run runs the tests once, without it.

package main

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/lnetd/lnetd/internal/load/perf"
)

// Command "crowd" measures exchanges with a node and with the plain server, and memory.
func TestCrowd(t *testing.T) {
	c := newComparison(t)
	c.command = "crowd"
	out, _ := c.run(exitOK, "--peers", "70")
	for _, want := range []string{
		`(?m)^one peer +lnetd +\d+ `, `(?m)^70 peers in turn +floor +\d+ `,
		`(?m)^processor's time with all peers: [\d.]+ of that with one`, `memory of a connection, of \d+: [\d.]+ KiB at rest`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	out, _ = c.run(exitOK, "--peers", "60", "--json")
	var got struct{ Crowd perf.Crowd }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	w := got.Crowd.Ways
	if len(w) != 4 || w[0].Figure.Median <= 0 || w[3].Peers != 60 || w[3].By != perf.MethodFloor || got.Crowd.Rest <= 0 || got.Crowd.Spread.Median <= 0 {
		t.Errorf("JSON %s", out)
	}
	c.run(exitUsage, "--peers", "1")
	c.run(exitUsage, "--peers", "60001")
	c.run(exitUsage, "--set", "peer_credit=1")
}
