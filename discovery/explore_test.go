package discovery

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

var (
	exploreFull   = flag.Bool("explore-full", false, "TestExplore goes to the full depth of each start, which takes minutes")
	exploreStates = flag.Int("explore-states", 20_000_000, "how many states of one world TestExplore looks at before it fails; 1 million takes about 100 MB")
)

// budget is the number of faults that may still happen on a path of the explorer. Each
// fault counts against faults and against its own kind.
type budget struct{ faults, losses, restarts, changes, sends int }

// start is a world that the explorer starts from.
type start struct {
	name          string
	nets          []int            // number of NIs of each node at the start
	connected     bool             // all nodes know each other
	notices       bool             // drivers detect new incarnations
	configuration func(w *network) // prepares the world further; may be nil
	budget        budget
	// steps is the maximum length of a path; full is the same with -explore-full.
	steps, full int
}

// TestExplore enumerates what can happen to nodes that discover each other, and checks each
// state that it reaches: if no more faults happen, and each node sends once more to each
// other node, then the nodes come to rest and know the NIDs of each other.
// TestNodesConverge tries random paths of hundreds of events; this test takes all paths of
// a few events.
//
// A step is one of these: a message under way arrives, by one of the paths that its sender
// could have chosen; it is lost; a node restarts; a node's second NI is removed, or is
// added as the first or last one of the list; a node sends to a NID of another node that
// must be pinged first; the next timer is due. Machines come to rest after each step. At
// most two nets exist, the NI on the first one stays, and a message without a path is
// refused (TestNodesConverge does not have these limits). The start's budget limits the
// number of faults on a path.
//
// A state that was reached before is not expanded again. It is identified by a hash of
// everything that its future depends on.
//
// discovery 10 (1)-(9)
func TestExplore(t *testing.T) {
	for _, s := range starts {
		t.Run(s.name, func(t *testing.T) {
			x := &explorer{start: s, seen: map[uint64]struct{}{}}
			began := time.Now()
			steps := s.steps
			switch {
			case *exploreFull:
				steps = s.full
			case testenv.Race: // a machine without goroutines has no races
				steps--
			}
			failure := x.explore(steps)
			t.Logf("%d states, %d steps deep, %v: %v new at each depth", len(x.seen), len(x.levels), time.Since(began).Round(time.Millisecond), x.levels)
			if failure != "" {
				t.Error(failure)
			}
		})
	}
}

// path is a sequence of steps that leads from a start to a state.
type path struct {
	steps [15]uint8
	n     uint8
}

func (p path) then(step int) path {
	p.steps[p.n] = uint8(step)
	p.n++
	return p
}

// explorer visits states breadth first, so that a failing path is as short as possible.
type explorer struct {
	start  start
	root   *network
	levels []int

	mu       sync.Mutex
	seen     map[uint64]struct{}
	next     []path
	failure  string
	overflow bool
}

func (x *explorer) explore(depth int) string {
	x.root = x.start.world()
	level := []path{{}}
	for d := 0; d < depth && len(level) > 0; d++ {
		x.next = nil
		var workers sync.WaitGroup
		chunk := max(1, len(level)/(8*runtime.GOMAXPROCS(0)))
		work := make(chan []path)
		for range runtime.GOMAXPROCS(0) {
			workers.Go(func() {
				for paths := range work {
					for _, p := range paths {
						x.expand(p)
					}
				}
			})
		}
		for part := range slices.Chunk(level, chunk) {
			work <- part
		}
		close(work)
		workers.Wait()
		if x.failure != "" {
			return x.failure
		}
		if x.overflow {
			return fmt.Sprintf("more than %d states: a smaller budget, fewer steps or -explore-states", *exploreStates)
		}
		x.levels = append(x.levels, len(x.next))
		level = x.next
	}
	return ""
}

// world creates the network of a start.
func (s start) world() *network {
	w := &network{parked: map[Key]*simNode{}, notices: s.notices}
	for name, nets := range s.nets {
		n := &simNode{w: w, name: name}
		for net := range nets {
			n.nids = append(n.nids, n.nid(net))
		}
		n.begin()
		w.nodes = append(w.nodes, n)
	}
	if s.connected {
		w.runUntilStable()
		w.verify()
		w.lossless = false
	}
	if s.configuration != nil {
		s.configuration(w)
	}
	return w
}

// expand takes each step from the state at the end of a path.
func (x *explorer) expand(p path) {
	w := x.root.clone()
	b := x.start.budget
	for _, step := range p.steps[:p.n] {
		w.take(&b, int(step))
	}
	var e encoder
	for step := range w.choices(b) {
		c, left := w.clone(), b
		c.take(&left, step)
		x.mu.Lock()
		hash := e.hash(c, left)
		_, known := x.seen[hash]
		if !known {
			x.seen[hash] = struct{}{}
			x.next = append(x.next, p.then(step))
			x.overflow = x.overflow || len(x.seen) > *exploreStates
		}
		stop := x.overflow || x.failure != ""
		x.mu.Unlock()
		switch {
		case stop:
			return
		case !known && !c.converges():
			x.fail(p.then(step))
			return
		}
	}
}

// converges reports whether the network converges, both if messages arrive in the order in
// which they were sent and in the reverse order.
func (w *network) converges() bool {
	for _, newest := range []bool{false, true} {
		c := w.clone()
		c.newest = newest
		c.failures = w.failures
		c.runUntilStable()
		c.verify()
		if len(c.failures) > 0 {
			return false
		}
	}
	return true
}

// fail prints the trace of a failing path.
func (x *explorer) fail(p path) {
	for _, newest := range []bool{false, true} {
		w := x.root.clone()
		w.trace = &strings.Builder{}
		b := x.start.budget
		for k, step := range p.steps[:p.n] {
			w.tracef("step %d", k+1)
			w.take(&b, int(step))
		}
		w.newest = newest
		w.runUntilStable()
		w.verify()
		if len(w.failures) > 0 {
			x.mu.Lock()
			x.failure = fmt.Sprintf("%s\n%d steps, newest first %v\n%s", strings.Join(w.failures, "\n"), p.n, newest, w.trace)
			x.mu.Unlock()
			return
		}
	}
}
