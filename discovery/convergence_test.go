package discovery

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seeds = flag.Int("seeds", 400, "how many worlds TestNodesConverge makes")
	first = flag.Uint64("first", 0, "the seed of the first of them")
)

// tracesShown is the maximum number of worlds whose trace is printed.
const tracesShown = 3

// TestNodesConverge runs nodes that discover each other while messages are lost and
// reordered, NIs are added and removed, and nodes restart. After the last fault each node
// sends once more to each other node. Then all must come to rest, know the NIDs of each
// other, and have released each parked message once. In every other world no driver detects
// that a node has restarted.
//
// discovery 1, 10 (1)-(9), 5.3 sent
func TestNodesConverge(t *testing.T) {
	var next, failed atomic.Uint64
	began := time.Now()
	var workers sync.WaitGroup
	for range min(*seeds, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for {
				n := next.Add(1) - 1
				if n >= uint64(*seeds) {
					return
				}
				seed := *first + n
				if failures := converge(seed, nil); len(failures) > 0 {
					var trace strings.Builder
					if failed.Add(1) <= tracesShown {
						converge(seed, &trace)
					}
					t.Errorf("seed %d: %s\nreplay: %s\n%s", seed, strings.Join(failures, "\n"), replay(seed), trace.String())
				}
			}
		})
	}
	workers.Wait()
	took := time.Since(began)
	t.Logf("seeds %d to %d, %v, %.0f seeds/s: %d failed", *first, *first+uint64(*seeds)-1,
		took.Round(time.Millisecond), float64(*seeds)/took.Seconds(), failed.Load())
}

// regressions are seeds that once failed.
var regressions = []struct {
	name string
	seed uint64
}{
	{"an answer older than a push settled what the push had made doubtful, at another peer", 91000307486},
	{"the same, on another net", 94000369551},
	{"the NID that was asked about could not be reached, and the peer that could was not asked", 91000350871},
	{"a ping that was refused took the doubt with it", 91000106054},
	{"a new life was seen on one of two peers that were one node, and the other one stayed told", 94000037518},
	{"the same, the data going from the peer that knew of the new life", 94000081374},
	{"the same, with a push from before the restart that arrives after it", 91000031870},
}

func TestNodesConvergeAgain(t *testing.T) {
	for _, c := range regressions {
		if failures := converge(c.seed, nil); len(failures) > 0 {
			t.Errorf("%s: seed %d: %s\nreplay: %s", c.name, c.seed, strings.Join(failures, "\n"), replay(c.seed))
		}
	}
}

// converge runs one world and returns the problems at its end. A trace makes it slow.
func converge(seed uint64, trace *strings.Builder) []string {
	w := newNetwork(seed, trace)
	w.randomFault()
	w.runUntilStable()
	w.verify()
	return w.failures
}

func replay(seed uint64) string {
	return fmt.Sprintf("go test ./discovery -run TestNodesConverge -seeds 1 -first %d", seed)
}
