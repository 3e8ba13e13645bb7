//go:build !race

// The programs that these tests run are built without the race detector, so .ci/run runs the tests once, without it.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/internal/load/ports"
)

// comparison runs "lnetperf compare", or another command that starts processes.
type comparison struct {
	t       *testing.T
	bin     string
	command string
	options []string // options of each run
}

func newComparison(t *testing.T) *comparison {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "lnetperf")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return &comparison{t, bin, "compare", []string{"--rounds", "1", "--time", "1ms"}}
}

// run runs it with c.options, which make it short, and fails the test unless its exit status is status.
func (c *comparison) run(status int, args ...string) (stdout, stderr string) {
	c.t.Helper()
	const tries = 10
	for range tries {
		command := exec.CommandContext(c.t.Context(), c.bin, slices.Concat(
			[]string{c.command, "--port", strconv.Itoa(c.ports())}, c.options, args)...)
		var out, errs bytes.Buffer
		command.Stdout, command.Stderr = &out, &errs
		err := command.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			c.t.Fatal(err)
		}
		stdout, stderr = out.String(), errs.String()
		if strings.Contains(stderr, "address already in use") {
			continue // another process uses the port
		}
		got := command.ProcessState.ExitCode()
		if got == exitMissed && status == exitOK { // depends on the machine
			got = exitOK
		}
		if got != status {
			c.t.Fatalf("%v: it ends with %d, not %d, and prints\n%s%s", args, got, status, stdout, stderr)
		}
		return stdout, stderr
	}
	c.t.Fatalf("%v: no free ports: %s", args, stderr)
	return "", ""
}

// ports returns the first of the ports that lnetperf uses, all of which are free.
func (c *comparison) ports() int {
	c.t.Helper()
	port, err := ports.Free(2*portsOfArm, "127.0.0.2", "127.0.0.3", "127.0.0.4")
	if err != nil {
		c.t.Fatal(err)
	}
	return port
}

const oneCase = "PUT+ACK 96 B, caller blocks"

// Two processes report the cost of an exchange, for users and as JSON.
func TestCompare(t *testing.T) {
	c := newComparison(t)
	only := []string{"--only", "^" + regexp.QuoteMeta(oneCase) + "$"}
	out, _ := c.run(exitOK, only...)
	for _, want := range []string{
		`(?m)^exchange +lnetd +floor +limit +ratio +quartiles +goal +of limit +quartiles$`,
		`(?m)^PUT\+ACK 96 B, caller blocks +\S+ µs +\S+ µs +\S+ µs +\S+ +\S+\.\.\S+ +at most 1.60 +\S+ +\S+\.\.\S+$`,
		`(?m)^PUT\+ACK 96 B, caller blocks +lnetd +[0-9.]+\+[0-9.]+ `,
		`(?m)^ +floor +[0-9.]+\+[0-9.]+ `,
		`(?m)^ +limit +[0-9.]+\+[0-9.]+ `,
		`(?m)^syscalls: (of all kinds|not counted)`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}

	if _, errs := c.run(exitFailure, "--only", "PUT 2 MiB"); !strings.Contains(errs, "no case has a name that") {
		t.Errorf("it says %s", errs)
	}
	out, _ = c.run(exitOK, append(only, "--json", "--set", "peer_credits=16")...)
	var doc struct {
		Method  []string
		Machine map[string]any
		Cases   []struct {
			Case  string
			LNetd struct{ Asks, Answers map[string]map[string]float64 }
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if len(doc.Cases) != 1 || doc.Cases[0].Case != oneCase || len(doc.Method) != 3 || doc.Machine["kernel"] == "" {
		t.Fatalf("%+v", doc)
	}
	// A blocking caller writes and reads, and so does the side that answers.
	for _, costs := range []map[string]map[string]float64{doc.Cases[0].LNetd.Asks, doc.Cases[0].LNetd.Answers} {
		if costs["io_syscalls"]["median"] < 2 || costs["cpu_us"]["median"] <= 0 {
			t.Errorf("costs %v", costs)
		}
	}
}

// A setting of nodes, or of the environment, is compared in four processes.
func TestCompareAgainst(t *testing.T) {
	c := newComparison(t)
	only := []string{"--only", "^(" + regexp.QuoteMeta(oneCase) + "|lst ping, concurrency 1)$"}
	for _, setting := range []string{"GOMAXPROCS=1", "eager_ack=7"} {
		out, _ := c.run(exitOK, append(only, "--against", setting)...)
		for _, want := range []string{
			`(?m)^exchange +without +` + setting + ` +ratio +quartiles +least\.\.most +verdict$`,
			`(?m)^PUT\+ACK 96 B, caller blocks +\S+ µs +\S+ µs +\S+ +\S+\.\.\S+ +\S+\.\.\S+ +(better|worse|no difference seen)$`,
			`(?m)^lst ping, concurrency 1 +without +[0-9.]+\+[0-9.]+ `,
			`(?m)^ +with +[0-9.]+\+[0-9.]+ `,
		} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%s: no %s in\n%s", setting, want, out)
			}
		}
	}
	out, _ := c.run(exitOK, append(only, "--against", "nagle=1", "--against", "GOGC=50", "--json")...)
	if !json.Valid([]byte(out)) || !strings.Contains(out, `"against": "nagle=1 GOGC=50"`) || !strings.Contains(out, `"verdict": "`) {
		t.Errorf("it prints\n%s", out)
	}
}

// TestCompareBaseline compares a program with itself, and with what is no lnetperf.
func TestCompareBaseline(t *testing.T) {
	c := newComparison(t)
	only := []string{"--only", "^" + regexp.QuoteMeta(oneCase) + "$"}
	out, _ := c.run(exitOK, append(only, "--baseline", c.bin)...)
	for _, want := range []string{
		`(?m)^exchange +baseline +this one +ratio +quartiles +least\.\.most +verdict$`,
		`(?m)^PUT\+ACK 96 B, caller blocks +baseline +[0-9.]+\+[0-9.]+ `,
		`(?m)^ +this one +[0-9.]+\+[0-9.]+ `,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if out, _ := c.run(exitOK, append(only, "--baseline", c.bin, "--json")...); !strings.Contains(out, `"baseline": "`+c.bin+`"`) {
		t.Errorf("it prints\n%s", out)
	}
	for _, file := range []string{"/bin/true", "/etc/passwd", filepath.Join(t.TempDir(), "lnetperf")} {
		if _, errs := c.run(exitFailure, append(only, "--baseline", file)...); !strings.Contains(errs, "baseline: ") {
			t.Errorf("%s: it says %q", file, errs)
		}
	}
}

// Costs that exceed the limits in a file are reported and cause a failure. Others do not.
func TestCompareBounds(t *testing.T) {
	c := newComparison(t)
	path := filepath.Join(t.TempDir(), "bounds.json")
	bound := func(asks string) {
		if err := os.WriteFile(path, []byte(`{"bounds": {"`+oneCase+`": {"asks": `+asks+`}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bound(`{"io_syscalls": 1000, "wakeups": 1000, "allocs": 1000}`)
	if out, errs := c.run(exitOK, "--bounds", path); strings.Count(out, oneCase) != 2 || errs != "" {
		t.Errorf("it prints\n%s%s", out, errs)
	}
	bound(`{"io_syscalls": 1.5}`)
	_, errs := c.run(exitFailure, "--bounds", path)
	if !strings.Contains(errs, "above its bound: "+oneCase+", who asks: io_syscalls ") || !strings.Contains(errs, ", at most 1.50") {
		t.Errorf("it says %s", errs)
	}
	c.run(exitOK, "--only", "^"+regexp.QuoteMeta(oneCase)+"$", "--record-bounds", path)
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), `"`+oneCase+`": {`) {
		t.Errorf("recorded: %s, %v", text, err)
	}
	bound(`{"wakeup": 1}`)
	if _, errs := c.run(exitFailure, "--bounds", path); !strings.Contains(errs, `"wakeup" cannot have a bound`) {
		t.Errorf("it says %s", errs)
	}
}

// If a process of a measurement is killed, the measurement ends.
func TestCompareLosesAProcess(t *testing.T) {
	c := newComparison(t)
	for _, args := range [][]string{nil, {"--against", "nagle=1"}} {
		command := exec.CommandContext(t.Context(), c.bin, append([]string{
			"compare", "--rounds", "1000000", "--time", "1ms", "--port", strconv.Itoa(c.ports()),
		}, args...)...)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		// Some of its processes run only for a short time, so all of them are killed until the
		// measurement ends.
		look := time.NewTicker(time.Millisecond)
		var err error
		for running := true; running; {
			select {
			case err = <-ended:
				running = false
			case <-look.C:
				if child := childOf(command.Process.Pid); child != 0 {
					_ = syscall.Kill(child, syscall.SIGKILL)
				}
			}
		}
		look.Stop()
		if err == nil {
			t.Errorf("%v: it goes on without a process", args)
		}
	}
}

// childOf returns a child process of pid, or 0.
func childOf(pid int) (child int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		if _, err := fmt.Sscan(string(text), &child); err == nil {
			return child
		}
	}
	return 0
}

// After a signal all processes end, and "compare" reports nothing but its exit status: not the ends of the processes,
// and no measurement that failed. Here one of them never says that it is ready.
func TestCompareInterrupted(t *testing.T) {
	c := newComparison(t)
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("#!/bin/sh\necho started >&2\nexec cat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	seen := make(chan struct{})
	errs := &gate{awaits: "started", seen: seen}
	command := exec.CommandContext(t.Context(), c.bin, "compare", "--port", strconv.Itoa(c.ports()), "--baseline", other)
	command.Stderr = errs
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	<-seen
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // the status says the same
	if got, want := command.ProcessState.ExitCode(), (cli.Interrupted{Signal: syscall.SIGINT}).Status(); got != want || errs.text.String() != "started\n" {
		t.Errorf("it ends with %d, not %d, and prints\n%s", got, want, errs.text.String())
	}
}
