package selftest

import (
	"cmp"
	"slices"
	"time"

	"github.com/lnetd/lnetd/selftest/latency"
	"github.com/lnetd/lnetd/selftest/message"
)

// SessionInfo describes the session that a node is in.
type SessionInfo struct {
	ID         message.SessionID
	Name       string
	Features   message.Features
	Made       time.Time
	References int
	BRWErrors  uint32
	PingErrors uint32
	Batches    []BatchInfo // sorted by ID
}

// BatchInfo describes a batch.
type BatchInfo struct {
	ID    uint64
	Tests []TestInfo // sorted by index
}

// TestInfo describes a test.
type TestInfo struct {
	Index   int // from 1
	Service message.Service
	Client  bool
	// Units is the number of units that make RPCs at a time, and Active the number of them that are running.
	// Both are 0 for a server test.
	Units, Active int
	// Latency is the histogram of the durations of all successful RPCs since the test was added.
	Latency latency.Histogram
}

// Session describes the session that the node is in. It returns false if the node is in no session.
func (a *Agent) Session() (SessionInfo, bool) {
	a.mu.Lock()
	s := a.session
	if s == nil {
		a.mu.Unlock()
		return SessionInfo{}, false
	}
	i := SessionInfo{
		ID: s.id, Name: s.name.Printable(), Features: s.features, Made: s.made, References: s.refs,
		BRWErrors: s.brwErrors.Load(), PingErrors: s.pingErrors.Load(),
	}
	var tests [][]*test
	for _, b := range s.batches {
		i.Batches = append(i.Batches, BatchInfo{ID: b.id})
		tests = append(tests, slices.Clone(b.tests))
	}
	a.mu.Unlock()
	for k := range i.Batches {
		i.Batches[k].Tests = describe(tests[k])
	}
	slices.SortFunc(i.Batches, func(x, y BatchInfo) int { return cmp.Compare(x.ID, y.ID) })
	return i, true
}

func describe(tests []*test) (list []TestInfo) {
	for k, t := range tests {
		list = append(list, TestInfo{
			Index: k + 1, Service: t.service, Client: t.client,
			Units: len(t.slots), Active: int(t.active.Load()), Latency: t.latencies(),
		})
	}
	return list
}

// Latency returns TestInfo.Latency of one test of the session, given the ID of the batch and the index of the
// test. It returns false if there is no such test.
func (a *Agent) Latency(batch uint64, index int) (latency.Histogram, bool) {
	var t *test
	a.mu.Lock()
	if a.session != nil {
		if b := a.session.batches[batch]; b != nil && index >= 1 && index <= len(b.tests) {
			t = b.tests[index-1]
		}
	}
	a.mu.Unlock()
	if t == nil {
		return latency.Histogram{}, false
	}
	return t.latencies(), true
}
