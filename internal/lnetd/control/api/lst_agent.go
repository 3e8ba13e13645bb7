package api

import (
	"time"
)

// LstBounds are the limits of a node that takes part in tests. In a request, 0 means the configured limit.
type LstBounds struct {
	// Memory is the maximum memory for bulk data in bytes. One half is for tests in which the node is a
	// client, the other half for those in which it is a server.
	Memory int64 `json:"memory,omitempty"`
	// SessionTimeout is the time in seconds after the last request of its console when a session ends.
	SessionTimeout int `json:"session_timeout,omitempty"`
	// Units is the maximum number of concurrent RPCs that the node sends as a client.
	Units int `json:"units,omitempty"`
}

// Limits of LstBounds. The configuration has the same limits.
const (
	LstMemoryMin         = 2 << 20
	LstMemoryMax         = 1 << 40
	LstSessionTimeoutMax = 24 * 3600
	LstUnitsMax          = 1 << 24
)

// LstDisable is the body of POST /v1/lst/disable.
type LstDisable struct {
	// Force disables selftest even if sessions exist, and ends these. Otherwise the request fails.
	Force bool `json:"force,omitempty"`
}

// LstStatus is the reply to GET /v1/lst.
type LstStatus struct {
	Enabled bool `json:"enabled"`
	// Bounds are the limits in force. If selftest is disabled, they are the configured limits. A
	// SessionTimeout of 0 means that sessions never time out.
	Bounds LstBounds `json:"bounds"`
	// Console is the session that this node controls as its console, or nil.
	Console *LstSession `json:"console,omitempty"`
	// Session is the session that this node takes part in, or nil.
	Session  *LstAgentSession `json:"session,omitempty"`
	Counters LstCounters      `json:"counters"`
}

// LstAgentSession is a session that a node takes part in.
type LstAgentSession struct {
	Name string `json:"name"`
	// Console is the NID of the console that controls the session, as the console has sent it.
	Console    string         `json:"console"`
	Stamp      int64          `json:"stamp"`
	Age        float64        `json:"age"` // seconds
	BRWErrors  uint32         `json:"brw_errors"`
	PingErrors uint32         `json:"ping_errors"`
	Tests      []LstAgentTest `json:"tests"`
}

// LstAgentTest is a test that a node takes part in.
type LstAgentTest struct {
	Batch uint64 `json:"batch"`
	Index int    `json:"index"`
	Kind  string `json:"kind"`
	// Client reports whether this node sends the requests of the test. Only in this case the fields
	// below are set. Units is the number of concurrent RPCs, and Active the number of those that have
	// not finished.
	Client  bool        `json:"client"`
	Units   int         `json:"units,omitempty"`
	Active  int         `json:"active,omitempty"`
	Latency *LstLatency `json:"latency,omitempty"`
}

// LstLatency summarizes the latency of a test's RPCs since the test was added, in nanoseconds.
type LstLatency struct {
	Count uint64        `json:"count"`
	Mean  time.Duration `json:"mean"`
	P50   time.Duration `json:"p50"`
	P90   time.Duration `json:"p90"`
	P99   time.Duration `json:"p99"`
	Max   time.Duration `json:"max"`
}

// LstCounters counts a node's RPCs since selftest was enabled (selftest 3).
type LstCounters struct {
	Errors   uint32 `json:"errors"`
	Sent     uint32 `json:"sent"`
	Received uint32 `json:"received"`
	Dropped  uint32 `json:"dropped"`
	Expired  uint32 `json:"expired"`
	BulkGet  uint64 `json:"bulk_get"` // bytes fetched as a server
	BulkPut  uint64 `json:"bulk_put"` // bytes sent as a server
}
