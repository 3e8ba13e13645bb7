package report

import "time"

// TestKind is the kind of a test.
type TestKind string

// The kinds of tests.
const (
	BulkTest TestKind = "brw"
	PingTest TestKind = "ping"
)

// Test describes a test to add to a batch.
type Test struct {
	Batch string   `json:"batch"`
	From  string   `json:"from"` // group of clients
	To    string   `json:"to"`   // group of servers
	Kind  TestKind `json:"kind"` // upper and lower case are equal
	// Loop is the number of RPCs of each unit. A negative number means no end; 0 is invalid.
	Loop int32 `json:"loop"`
	// Concurrency is the number of units for each pair of a client and a server, 1 to 1024.
	Concurrency int `json:"concurrency"`
	// Each group of Distribute clients sends to a group of Span servers. Distribute is at least 1, and Span 1
	// to 341.
	Distribute int `json:"distribute"`
	Span       int `json:"span"`
	// BRW contains the parameters of a BulkTest.
	BRW BRW `json:"brw"`
	// Timeout is the time that nodes have to answer, at least 3 s. 0 means 30 s.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// BRW contains the parameters of a bulk test.
type BRW struct {
	Write bool `json:"write"` // true: from client to server; false: from server to client
	// Size is in bytes: a multiple of 8, up to 1 MiB. Offset is the offset in the client's memory, a
	// multiple of 8. A bulk must not touch more pages than its size alone requires, because such bulks
	// can crash kernels.
	Size   int `json:"size"`
	Offset int `json:"offset"`
	// Check is "none" (or empty), "simple", "full" or "discard".
	Check string `json:"check,omitempty"`
}

// TestAddition is the result of Console.AddTest. If a server failed, the test was not added to the clients.
type TestAddition struct {
	Index   int    `json:"index"` // index of the test in the batch, from 1
	Servers Result `json:"servers"`
	Clients Result `json:"clients"`
}

// OK reports whether all nodes have added the test.
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

// QueryResult is the result of Console.Query: on how many nodes the batch, or the test, is running or idle,
// and how many nodes could not be queried. NodeResult.Active is not 0 for the nodes on which it is running.
type QueryResult struct {
	Result
	Running int `json:"running"`
	Idle    int `json:"idle"`
	Failed  int `json:"failed"`
}
