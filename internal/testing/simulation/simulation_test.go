package simulation_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/testing/simulation"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

var (
	seeds  = flag.Int("seeds", testenv.Fewer(seedsPlain), "number of seeds")
	first  = flag.Uint64("first", 1, "the first seed")
	report = flag.String("report", "", "a file that the report is written to")
)

// seedsPlain is the number of seeds of an ordinary test run. In these, every kind of fault must take
// effect, and transfer machines must perform every kind of action.
const seedsPlain = 200

// TestSeeds runs scenarios.
//
// lnet-core 3.3 (1)-(2)
// transport 3.5 ours (3), 3.10 guarantees, 3.11 (2)-(4), 3.12 (2), 3.14 (2)
func TestSeeds(t *testing.T) {
	// A panic in any goroutine of a scenario names the seed: see run.
	t.Setenv("GODEBUG", os.Getenv("GODEBUG")+",tracebacklabels=1")
	n := *seeds
	c := campaign{next: *first, end: *first + uint64(n), verbose: n == 1 && testing.Verbose()}
	began := time.Now()
	t.Run("Workers", func(t *testing.T) {
		for k := range min(n, runtime.GOMAXPROCS(0)) {
			t.Run(fmt.Sprint(k), func(t *testing.T) {
				t.Parallel()
				c.work(t)
			})
		}
	})
	took := time.Since(began)
	if missing := c.total.Missing(); n >= seedsPlain && len(missing) > 0 {
		t.Errorf("faults that never bit in %d seeds: %v", n, missing)
	}
	if missing := c.total.MissingActions(); n >= seedsPlain && len(missing) > 0 {
		t.Errorf("what transfer machines never did in %d seeds: %v", n, missing)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "commit %s, seeds %d to %d, %v, %.1f seeds/s on %d cores\n",
		commit(), *first, c.end-1, took.Round(time.Millisecond), float64(n)/took.Seconds(), runtime.GOMAXPROCS(0))
	c.total.Print(&b)
	t.Logf("\n%s", b.String())
	if *report != "" {
		if err := os.WriteFile(*report, []byte(b.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// campaign distributes seeds to workers and adds up their results.
type campaign struct {
	next, end uint64 // guarded by mu
	verbose   bool
	memory    simulation.Memory
	failed    atomic.Int32

	mu    sync.Mutex
	total simulation.Report
}

// failuresShown is the largest number of seeds whose trace is printed.
const failuresShown = 3

// stuckAfter is more real time than any scenario needs.
const stuckAfter = 2 * time.Minute

func (c *campaign) work(t *testing.T) {
	for {
		c.mu.Lock()
		seed := c.next
		c.next++
		c.mu.Unlock()
		if seed >= c.end {
			return
		}
		r := c.run(t, seed)
		c.mu.Lock()
		c.total.Add(&r.Report)
		c.mu.Unlock()
		if c.verbose {
			var b bytes.Buffer
			_, _ = r.Trace.WriteTo(&b) // to memory
			t.Log("\n" + b.String())
		}
		if len(r.Failures) > 0 {
			c.fail(t, r)
		}
	}
}

// run runs one seed in a new bubble.
func (c *campaign) run(t *testing.T, seed uint64) (r *simulation.Result) {
	over := false
	defer func() {
		if !over {
			t.Errorf("seed %d (commit %s) did not end\nreplay: %s", seed, commit(), replay(seed))
		}
	}()
	stuck := time.AfterFunc(stuckAfter, func() { t.Logf("seed %d still runs after %v", seed, stuckAfter) })
	defer stuck.Stop()
	pprof.Do(t.Context(), pprof.Labels("seed", fmt.Sprint(seed)), func(context.Context) {
		synctest.Test(t, func(*testing.T) {
			r = simulation.Run(seed, simulation.Options{Memory: &c.memory, Verbose: c.verbose})
		})
	})
	over = true
	return r
}

func (c *campaign) fail(t *testing.T, r *simulation.Result) {
	var b bytes.Buffer
	if shown := c.failed.Add(1); shown <= failuresShown && !c.verbose {
		_, _ = r.Trace.WriteTo(&b) // to memory
	}
	t.Errorf("seed %d (commit %s): %d violations\n  %s\nreplay: %s\n%s",
		r.Seed, commit(), r.Violations, strings.Join(r.Failures, "\n  "), replay(r.Seed), b.String())
}

func replay(seed uint64) string {
	return fmt.Sprintf("go test ./internal/testing/simulation -run TestSeeds -seeds 1 -first %d -v", seed)
}

// commit returns the commit of the binary or, without one, of the working tree.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	if out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output(); err == nil {
		return strings.TrimSpace(string(out))
	}
	return "unknown"
}
