package report

import "time"

// TestKind is what a test does.
type TestKind string

// The kinds.
const (
	BulkTest TestKind = "brw"
	PingTest TestKind = "ping"
)

// Test is a test to be added to a batch.
type Test struct {
	Batch string   `json:"batch"`
	From  string   `json:"from"` // the clients' group
	To    string   `json:"to"`   // the servers'
	Kind  TestKind `json:"kind"` // in whatever case
	// Loop is how many RPCs each unit makes; negative: no end. Not 0.
	Loop int32 `json:"loop"`
	// Concurrency is the number of units per client and server, 1 to 1024.
	Concurrency int `json:"concurrency"`
	// Distribute clients share Span servers, 1 to 341.
	Distribute int `json:"distribute"`
	Span       int `json:"span"`
	// BRW holds the parameters of a BulkTest.
	BRW BRW `json:"brw"`
	// Timeout is how long nodes may take to answer, 3 s at least; 0: 30 s.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// BRW says how bulk is moved.
type BRW struct {
	Write bool `json:"write"` // from client to server; else the other way
	// Size in bytes: a multiple of 8, up to 1 MiB. Offset in the client's memory:
	// a multiple of 8. Kernels can be brought down by a bulk that touches more
	// pages than its size alone would, so that none such is allowed.
	Size   int `json:"size"`
	Offset int `json:"offset"`
	// Check is "none" (or empty), "simple", "full" or "discard".
	Check string `json:"check,omitempty"`
}

// TestAddition is what came of AddTest. If servers failed, clients were not asked.
type TestAddition struct {
	Index   int    `json:"index"` // in the batch, from 1
	Servers Result `json:"servers"`
	Clients Result `json:"clients"`
}

// OK tells whether all nodes have the test.
func (a *TestAddition) OK() bool { return a.Servers.OK() && a.Clients.OK() }

// BatchInfo describes a batch.
type BatchInfo struct {
	Name    string     `json:"name"`
	ID      uint64     `json:"id"`
	Running bool       `json:"running"`
	Clients Members    `json:"clients"`
	Servers Members    `json:"servers"`
	Tests   []TestInfo `json:"tests"`
}

// TestInfo describes a test of a batch.
type TestInfo struct {
	Index int `json:"index"` // from 1
	Test
	Clients Members `json:"clients"`
	Servers Members `json:"servers"`
}

// QueryResult tells on how many nodes a batch, or a test, runs. A node's Active
// is not 0 where it does.
type QueryResult struct {
	Result
	Running int `json:"running"`
	Idle    int `json:"idle"`
	Failed  int `json:"failed"`
}
