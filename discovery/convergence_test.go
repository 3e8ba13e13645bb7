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

// tracesShown bounds the worlds whose trace is printed.
const tracesShown = 3

// TestNodesConverge has nodes that discover each other while messages are lost,
// overtake each other, NIs come and go and nodes restart. After the last of this
// each node sends to each other one once more; then all come to rest and know what
// each is, and each message that waited was given back once. In every other world
// no driver notices that a node has restarted.
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

// regressions are seeds that have failed.
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

// converge plays one world and returns what is wrong at its end. A trace makes it
// slow.
func converge(seed uint64, trace *strings.Builder) []string {
	w := newWorld(seed, trace)
	w.trouble()
	w.settle()
	w.verify()
	return w.failures
}

func replay(seed uint64) string {
	return fmt.Sprintf("go test ./discovery -run TestNodesConverge -seeds 1 -first %d", seed)
}
