package api

import (
	"time"
)

// LstBounds are the limits of a node that takes part in tests. 0 stands for the configured value.
type LstBounds struct {
	// Memory limits bulk data, in bytes: one half for the client side, one half for the server
	// side.
	Memory int64 `json:"memory,omitempty"`
	// SessionTimeout is how long a session outlives the last request of its console, in seconds.
	SessionTimeout int `json:"session_timeout,omitempty"`
	// Units limits the concurrent RPCs of the client side.
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
	// Force ends existing sessions.
	Force bool `json:"force,omitempty"`
}

// LstStatus is the reply to GET /v1/lst.
type LstStatus struct {
	Enabled bool `json:"enabled"`
	// Bounds are the limits in force, or the configured ones if selftest is disabled. A
	// SessionTimeout of 0 means that sessions never time out.
	Bounds LstBounds `json:"bounds"`
	// Console is the session that this node controls as a console, or nil.
	Console *LstSession `json:"console,omitempty"`
	// Session is the session that this node takes part in, or nil.
	Session  *LstAgentSession `json:"session,omitempty"`
	Counters LstCounters      `json:"counters"`
}

// LstAgentSession is a session that a node takes part in.
type LstAgentSession struct {
	Name string `json:"name"`
	// Console is the NID that the console has sent.
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
	// Client reports whether this node sends the requests. If so, it has Units, of which Active are
	// running, and Latency.
	Client  bool        `json:"client"`
	Units   int         `json:"units,omitempty"`
	Active  int         `json:"active,omitempty"`
	Latency *LstLatency `json:"latency,omitempty"`
}

// LstLatency holds the latency of the RPCs since a test was added, in nanoseconds.
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
