package simulation

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
)

// Options are the settings of Run that do not depend on the seed.
type Options struct {
	// Memory is a memory pool that several Runs can share. If it is nil, Run creates a pool.
	Memory *Memory
	// Verbose adds the logs of nodes and drivers to the trace.
	Verbose bool
}

// Run runs the scenario of a seed and returns its result, with the violations that the checker found. It
// must be called in a testing/synctest bubble. It returns after all its goroutines have ended.
func Run(seed uint64, o Options) *Result {
	w := newWorld(newScenario(seed), o)
	w.runTraffic()
	w.drain()
	w.checkReachability()
	w.checkMachines()
	w.checkViews()
	w.finish()
	r := &w.result
	r.Seed, r.Scenarios, r.Simulated, r.Trace = seed, 1, w.since(), &w.trace
	return r
}

// runTraffic generates traffic and causes faults until the scenario's duration has passed.
func (w *world) runTraffic() {
	var agents sync.WaitGroup
	done := make(chan struct{})
	agent := func(k uint64, f func(r *rand.Rand)) {
		r := rand.New(rand.NewPCG(w.seed, k))
		agents.Go(func() { f(r) })
	}
	agent(1, w.breakNetwork)
	agent(2, w.breakMembers)
	agent(2000, w.breakVerbs)
	for k := range w.agents {
		agent(3+uint64(k), w.traffic)
	}
	for k := range w.machines.agents {
		agent(1000+uint64(k), w.machineTraffic)
	}
	var inspector sync.WaitGroup
	inspector.Go(func() {
		tick := time.NewTicker(3 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.checkHealth()
			case <-done:
				return
			}
		}
	})
	agents.Wait()
	close(done)
	inspector.Wait()
}

// failuresKept is the largest number of violations that a result describes.
const failuresKept = 20

// violate records that the checker found a violation. w.mu may be held.
func (w *world) violate(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	w.addf("VIOLATION: %s", what)
	w.failuresMu.Lock()
	defer w.failuresMu.Unlock()
	w.failures++
	if len(w.result.Failures) < failuresKept {
		w.result.Failures = append(w.result.Failures, fmt.Sprintf("%.6f: %s", w.since().Seconds(), what))
	}
}

// faultsOfNetwork adds the faults that the TCP network has counted. w.mu is held.
func (w *world) faultsOfNetwork(f simlnd.Faults) {
	w.result.Faults[FaultCut] += f.Cuts - f.HalfCloses
	w.result.Faults[FaultHalfClose] += f.HalfCloses
}
