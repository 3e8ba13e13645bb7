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

// Command "scale" measures storms of connections, before and after a restart of the node.
func TestScale(t *testing.T) {
	c := newComparison(t)
	c.command, c.options = "scale", nil
	out, _ := c.run(exitOK, "--peers", "20,40", "--json")
	var got struct{ Storms []perf.Storm }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Storms) != 2 || got.Storms[1].Peers != 40 || got.Storms[1].Connections < 40 {
		t.Fatalf("JSON %s", out)
	}
	for _, s := range got.Storms {
		if s.First.All <= 0 || s.Again.All <= 0 || s.Again.Half > s.Again.All || s.Calm.N == 0 {
			t.Errorf("storms %+v", s)
		}
	}
	out, _ = c.run(exitOK, "--peers", "10")
	for _, want := range []string{`(?m)^10 +\d+ `, `(?m)^ +after restart +[\d.]+ s`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	c.run(exitUsage, "--peers", "1")
	c.run(exitUsage, "--peers", "60001")
	c.run(exitUsage, "--servers", "10")
	c.run(exitUsage, "--set", "peer_credit=1")
}

// With --router, command "scale" measures a router, before and after its restart. What it costs the router does not
// grow with the number of clients.
func TestScaleOfARouter(t *testing.T) {
	c := newComparison(t)
	c.command, c.options = "scale", []string{"--router", "--servers", "3"}
	out, _ := c.run(exitOK, "--peers", "40,80", "--json")
	var got struct{ Routed []perf.Routed }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Routed) != 2 || got.Routed[1].Clients != 80 || got.Routed[1].Servers != 3 {
		t.Fatalf("JSON %s", out)
	}
	for _, r := range got.Routed {
		if r.First.All <= 0 || r.Again.All < r.Again.Half || r.Rate <= 0 || r.CPU <= 0 || r.Alone.N == 0 || r.Connections < r.Clients || r.Bytes < 10<<10 {
			t.Errorf("%+v", r)
		}
	}
	few, many := got.Routed[0].First.Messages, got.Routed[1].First.Messages
	if few < 2 || many > few*growthMax/2 {
		t.Errorf("%.2f messages to serve a client, with fewer clients %.2f", many, few)
	}
	out, _ = c.run(exitOK, "--peers", "10")
	for _, want := range []string{`(?m)^10 +3 +\d+ `, `(?m)^ +after restart +[\d.]+ s`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	c.run(exitUsage, "--servers", "0")
}

// growthMax is how much more twice as many clients may cost.
const growthMax = 2.3
