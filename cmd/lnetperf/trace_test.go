//go:build !race

// The programs that these tests run are built without the race detector, so .ci/run runs the tests once, without it.

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/load/tracing"
	"github.com/lnetd/lnetd/lnd/hostnet"
)

// mayTrace reports whether this process may record what the kernel does.
func mayTrace() bool {
	r, err := tracing.Open()
	if err == nil {
		r.Close()
	}
	return err == nil
}

// refusesTrace reports whether the output of "lnetperf trace" says that recording is not permitted, or that the
// machine is too busy for it. It is false if recording is permitted and the machine is idle.
func refusesTrace(out string) bool {
	return !mayTrace() && strings.Contains(out, "trace needs root") || strings.Contains(out, tracing.ErrLost.Error())
}

// The requests of four kinds are recorded, and printed as text and as JSON.
func TestTrace(t *testing.T) {
	c := newComparison(t)
	c.command, c.options = "trace", []string{"--requests", "5"}
	if !mayTrace() {
		if _, errs := c.run(exitFailure); !refusesTrace(errs) {
			t.Errorf("it says %s", errs)
		}
		return
	}
	picture := filepath.Join(t.TempDir(), "trace.svg")
	out, _ := c.run(exitOK, "--only", "two", "--svg", picture)
	if text, err := os.ReadFile(picture); err != nil || !strings.Contains(string(text), ">lnetd 1/") {
		t.Errorf("%v: %s", err, text)
	}
	for _, want := range []string{
		`(?m)^two eventfds: \S+ µs, median of [1-5] requests \(quartiles \S+\.\.\S+\)$`,
		`(?m)^\S+ +\d+ +requester/1 +write = 8, \S+ µs$`,
		`(?m)^\S+ +\d+ +responder/\d+ +read `,
		`(?m)^two lnetd, over TCP: `,
		`(?m)^\S+ +\d+ +lnetd 1/\d+ +writev = \d+, \S+ µs$`,
		`(?m)^lnetd 2 +\S+ +\S+ +\S+ +\S+ +\S+ +.*\breadv \d`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	out, _ = c.run(exitOK, "--json", "--delivery", "async")
	var doc struct {
		Delivery  string
		Timelines []struct {
			Name     string
			Requests int
			Median   float64 `json:"median_us"`
			Steps    []map[string]any
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if len(doc.Timelines) != 4 || doc.Delivery != "async" {
		t.Fatalf("%+v", doc)
	}
	for _, l := range doc.Timelines {
		if l.Requests < 1 || l.Requests > 5 || l.Median <= 0 || len(l.Steps) < 4 {
			t.Errorf("%s: %d requests, %v µs, %d steps", l.Name, l.Requests, l.Median, len(l.Steps))
		}
	}
	if _, errs := c.run(exitFailure, "--only", "three lnetd"); !strings.Contains(errs, "no kind of request has a name that") {
		t.Errorf("it says %s", errs)
	}
}

// Without an RDMA device nothing is recorded over RDMA, and the error says why.
func TestTraceWithoutRDMA(t *testing.T) {
	if len(hostnet.NewRDMA().Devices()) > 0 {
		return
	}
	var errs gate
	p := &program{stdout: &errs, stderr: &errs}
	if got := p.run([]string{"trace", "--over", "rdma"}); got != exitFailure || !strings.Contains(errs.text.String(), "this host has no RDMA device") {
		t.Errorf("it ends with %d and says %s", got, errs.text.String())
	}
}

// Invalid options are refused, whether recording is permitted or not.
func TestTraceOptions(t *testing.T) {
	for _, args := range []string{"--requests 0", "--delivery never", "--apart --stacked", "--only (", "--port 0", "--svg=", "--over udp"} {
		var errs gate
		p := &program{stdout: &errs, stderr: &errs}
		if got := p.run(append([]string{"trace"}, strings.Fields(args)...)); got != exitUsage {
			t.Errorf("%s: it ends with %d and says %s", args, got, errs.text.String())
		}
	}
}
