package simulation

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
)

// Options are the settings that do not depend on the seed.
type Options struct {
	// Memory is memory that several Runs share. If it is nil, each Run allocates its own.
	Memory *Memory
	// Verbose adds the logs of nodes and drivers to the trace.
	Verbose bool
}

// Run runs the scenario of a seed. Call it in a testing/synctest bubble. It returns after all its
// goroutines have ended.
func Run(seed uint64, o Options) *Result {
	w := newWorld(newScenario(seed), o)
	w.torture()
	w.drain()
	w.calm()
	w.calmMachines()
	w.agree()
	w.finish()
	r := &w.result
	r.Seed, r.Scenarios, r.Simulated, r.Trace = seed, 1, w.since(), &w.trace
	return r
}

// torture runs traffic and faults.
func (w *world) torture() {
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
	for k := range w.machines.couriers {
		agent(1000+uint64(k), w.courier)
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

// failuresKept is the largest number of failures in a result.
const failuresKept = 20

// violate records a violation. world.mu may be held.
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

// faultsOfNetwork adds the network's own counters.
func (w *world) faultsOfNetwork(f simlnd.Faults) {
	w.result.Faults[FaultCut] += f.Cuts - f.HalfCloses
	w.result.Faults[FaultHalfClose] += f.HalfCloses
}
