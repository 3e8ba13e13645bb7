package lndtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// scenario is one case of the suite.
type scenario struct {
	name  string
	nodes int
	// needs reports whether the world supports what the case requires. If it is nil, every world does.
	needs func(w *World) bool
	run   func(s *stage)
}

// play runs the scenario, in a bubble if the harness has one. Otherwise it checks that no goroutine is left.
func (c scenario) play(t *testing.T, h *Harness) {
	if h.Bubble != nil {
		h.Bubble(t, func(t *testing.T) { c.perform(t, h) })
		return
	}
	before := goleak.IgnoreCurrent()
	c.perform(t, h)
	if !t.Failed() {
		goleak.VerifyNone(t, before)
	}
}

// perform creates a world, runs the scenario if the world supports it, and makes the checks that apply to all
// scenarios.
func (c scenario) perform(t *testing.T, h *Harness) {
	s := newStage(t, h, c.nodes)
	defer s.w.Close()
	if c.needs != nil && !c.needs(s.w) {
		return
	}
	defer s.finish()
	c.run(s)
}

// stage is a running scenario: a world, and the nodes with their records.
type stage struct {
	t     *testing.T
	h     *Harness
	w     *World
	nodes []*node

	mu      sync.Mutex // guards the records of all nodes
	changed sync.Cond  // signals every change of the records
	lastID  uint64     // id of the message that was created last
	faults  []string   // errors that upcalls and completions have found
}

func newStage(t *testing.T, h *Harness, n int) *stage {
	s := &stage{t: t, h: h, w: h.New(t, n)}
	s.changed.L = &s.mu
	for k := range n {
		s.nodes = append(s.nodes, &node{
			s: s, k: k,
			id:       lnet.ProcessID{NID: s.w.NID(k), PID: lnet.PIDLustre},
			current:  make(map[*lnd.Rx]*arrival),
			arrivals: make(map[uint64][]*arrival),
		})
	}
	return s
}

// open opens the first n nodes and returns all nodes.
func (s *stage) open(n int) []*node {
	s.t.Helper()
	for _, n := range s.nodes[:n] {
		n.open()
	}
	return s.nodes
}

// await waits until ok returns true, and fails the test if that takes too long. ok is called with the records
// locked.
func (s *stage) await(what string, ok func() bool) {
	s.t.Helper()
	if !s.within(s.h.Patience, ok) {
		s.t.Fatalf("waited in vain for %s\n%s", what, s.describe())
	}
}

// within waits until ok returns true, at most for d. It returns false if ok has not returned true.
func (s *stage) within(d time.Duration, ok func() bool) bool {
	late := false
	timer := time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.changed.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ok() {
		if late {
			return false
		}
		s.changed.Wait()
	}
	return true
}

// note calls f, which changes the records, with the records locked. It then wakes the goroutines that wait for
// a change.
func (s *stage) note(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.changed.Broadcast()
}

// settle waits until all goroutines are idle, if the harness supports that.
func (s *stage) settle() {
	if s.h.Settle != nil {
		s.h.Settle()
	}
}

// pause waits for the time d.
func (s *stage) pause(d time.Duration) {
	s.within(d, func() bool { return false })
}

// finish closes all nodes and makes the checks that apply to all scenarios.
func (s *stage) finish() {
	s.t.Helper()
	for _, n := range s.nodes {
		n.place() // Close must not wait for placements
		n.close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		s.t.Error(f)
	}
	for _, n := range s.nodes {
		for _, o := range n.sent {
			o.check()
		}
		for _, list := range n.arrivals {
			for _, a := range list {
				a.check()
			}
		}
	}
}

// fault records an error that an upcall or a completion has found. The records are locked.
func (s *stage) fault(text string) {
	if len(s.faults) < 20 && !slices.Contains(s.faults, text) {
		s.faults = append(s.faults, text)
	}
	s.changed.Broadcast()
}

// describe describes the progress of all messages.
func (s *stage) describe() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, n := range s.nodes {
		n.describe(&b)
	}
	return b.String()
}

// closeContext returns a context that limits the time of Open or Close.
func (s *stage) closeContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.h.Patience)
}

// checkError checks that err, if it is not nil, is a complete *lnd.Error.
func checkError(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if e, ok := asError(err); !ok {
		t.Errorf("%s: error %v (%T) is not a *lnd.Error", what, err, err)
	} else if e.Status == lnd.StatusOK || e.Driver == "" || e.Op == "" || e.Err == nil {
		t.Errorf("%s: error %#v lacks a field", what, e)
	}
}
