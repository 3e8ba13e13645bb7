package perf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// costing returns a result with the costs of each round.
func costing(name string, asks, answers map[string][]float64) *Result {
	floor := map[string][]float64{Wakeups: {1}, Syscalls: {5}}
	return &Result{
		Case: name, LNet: (&rounds{n: 1, asks: asks, answers: answers}).measured(),
		Floor: (&rounds{n: 1, asks: floor, answers: floor}).measured(),
	}
}

const boundedCase = "PUT+ACK 0 B, caller blocks"

// The recorded costs are within their bounds. One more system call, wake-up or allocation is not. Higher
// costs in only some of the rounds, as on a busy machine, are.
func TestBounds(t *testing.T) {
	usual := func() map[string][]float64 {
		return map[string][]float64{Wakeups: {1, 1.02, 0.98, 1.01, 1}, Syscalls: {4.1, 4.2, 4}, IOSyscalls: {3, 3, 3, 3, 3.1}, Allocs: {0, 0, 0.01, 0, 0}}
	}
	path := filepath.Join(t.TempDir(), "bounds.json")
	if err := RecordBounds([]*Result{costing(boundedCase, usual(), usual())}).Write(path); err != nil {
		t.Fatal(err)
	}
	b, err := ReadBounds(path)
	if err != nil {
		t.Fatal(err)
	}
	if !b.Cases().MatchString(boundedCase) || b.Cases().MatchString("PUT+ACK 0 B, caller") {
		t.Errorf("cases: %v", b.Cases())
	}
	more := func(name string, by float64, rounds int) map[string][]float64 {
		costs := usual()
		for k := range costs[name][:min(rounds, len(costs[name]))] {
			costs[name][k] += by
		}
		return costs
	}
	const all = 9
	for _, c := range []struct {
		name          string
		asks, answers map[string][]float64
		above, left   []string
	}{
		{name: "as it was", asks: usual(), answers: usual()},
		{name: "a busy machine", asks: more(Wakeups, 3, 3), answers: more(IOSyscalls, 1, 3)},
		{name: "another wake-up", asks: more(Wakeups, 1, all), answers: usual(),
			above: []string{boundedCase + ", who asks: wakeups 2.00 of each exchange, at most 1.30"}},
		{name: "two system calls more, now and then one", asks: usual(), answers: more(Syscalls, 1.6, all),
			above: []string{boundedCase + ", who answers: syscalls 5.60 of each exchange, at most 5.07"}},
		{name: "another write", asks: more(IOSyscalls, 1, all), answers: usual(),
			above: []string{boundedCase + ", who asks: io_syscalls 4.00 of each exchange, at most 3.39"}},
		{name: "an allocation", asks: usual(), answers: more(Allocs, 1, all),
			above: []string{boundedCase + ", who answers: allocs 1.00 of each exchange, at most 0.10"}},
		{name: "not counted", asks: usual(), answers: map[string][]float64{Wakeups: {1}, IOSyscalls: {3}, Allocs: {0}},
			left: []string{boundedCase + ", who answers: syscalls"}},
	} {
		above, left := b.Compare([]*Result{costing(boundedCase, c.asks, c.answers)})
		if diff := cmp.Diff(c.above, above); diff != "" {
			t.Errorf("%s: above:\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.left, left); diff != "" {
			t.Errorf("%s: left:\n%s", c.name, diff)
		}
	}
}

// On a machine where plain TCP needs more wake-ups, lnetd may need more, too. Where plain TCP needs
// fewer, the bounds do not change.
func TestBoundsOfAnotherMachine(t *testing.T) {
	costs := map[string][]float64{Wakeups: {1}, Syscalls: {5}, IOSyscalls: {3}}
	b := RecordBounds([]*Result{costing(boundedCase, costs, costs)})
	for _, c := range []struct{ floor, wakeups, above float64 }{{1, 1.2, 0}, {1, 1.4, 2}, {1.5, 1.8, 0}, {1.5, 2, 2}, {0.5, 1.2, 0}} {
		now := map[string][]float64{Wakeups: {c.wakeups}, Syscalls: {5}, IOSyscalls: {3}}
		r := costing(boundedCase, now, now)
		floor := map[string][]float64{Wakeups: {c.floor}}
		r.Floor = (&rounds{n: 1, asks: floor, answers: floor}).measured()
		if above, _ := b.Compare([]*Result{r}); len(above) != int(c.above) {
			t.Errorf("floor %v, lnetd %v: above: %q", c.floor, c.wakeups, above)
		}
	}
}

func TestWrongBounds(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		``:               "EOF",
		`{}`:             "contains no bounds",
		`{"limits": {}}`: "unknown field",
		`{"bounds": {"PUT": {"asks": {"wakeups": 1}}}}`:                             `case "PUT" does not exist`,
		`{"bounds": {"` + boundedCase + `": {"asked": {"wakeups": 1}}}}`:            `"asked" is none of asks, answers and lnetd`,
		`{"bounds": {"` + boundedCase + `": {"asks": {"cpu_us": 1}}}}`:              `"cpu_us" cannot have a bound`,
		`{"bounds": {"` + boundedCase + `": {"asks": {"wakeups": "one or more"}}}}`: "cannot unmarshal",
	} {
		path := filepath.Join(dir, "bounds.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadBounds(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadBounds(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there")
	}
}

// All cases in the file of `.ci/run bench` exist.
func TestRecordedBounds(t *testing.T) {
	b, err := ReadBounds("../../../.ci/bounds.json")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Only: b.Cases()}
	if cases, err := c.chosen(); err != nil || len(cases) != len(b.Bounds) {
		t.Errorf("%d cases, %d bounds, %v", len(cases), len(b.Bounds), err)
	}
	for name, of := range b.Bounds {
		if n := len(bounded) - 1; len(of[asking]) != n || len(of[answering]) != n { // there are no Bells
			t.Errorf("%s: %v", name, of)
		}
	}
}

// All cases in the other file of `.ci/run bench` exist. A program of an lnetd, or lnetd, is above its bounds if it takes
// another wake-up.
func TestRecordedBoundsOfHosted(t *testing.T) {
	b, err := ReadBounds("../../../.ci/bounds-hosted.json")
	if err != nil {
		t.Fatal(err)
	}
	cases := b.Cases()
	found := 0
	for _, c := range hostedTests() {
		if !cases.MatchString(c.name) {
			continue
		}
		found++
		with := func(more float64) *HostedResult {
			r := &HostedResult{Case: c.name, Asks: map[string]Spread{}, Daemons: map[string]Spread{}}
			for s, costs := range map[side]map[string]Spread{asking: r.Asks, hosting: r.Daemons} {
				for name, bound := range b.Bounds[c.name][s] {
					costs[name] = Spread{Q1: bound + more}
				}
			}
			return r
		}
		usual, more := with(0), with(1)
		if len(usual.Asks) < 5 || len(usual.Daemons) < 4 {
			t.Errorf("%s: bounds of %v and %v", c.name, usual.Asks, usual.Daemons)
		}
		if above, left := b.CompareHosted([]*HostedResult{usual}); len(above)+len(left) > 0 {
			t.Errorf("%q, %q", above, left)
		}
		if above, left := b.CompareHosted([]*HostedResult{more}); len(above) != len(more.Asks)+len(more.Daemons) || len(left) > 0 {
			t.Errorf("%q, %q", above, left)
		}
	}
	if found != len(b.Bounds) {
		t.Errorf("%d cases, %d bounds", found, len(b.Bounds))
	}
}
