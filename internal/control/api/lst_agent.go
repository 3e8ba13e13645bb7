package api

import (
	"time"
)

// LstBounds are the bounds of a node that takes part in tests; 0: as configured.
type LstBounds struct {
	// Memory is for bulk data, in bytes: half as a client, half as a server.
	Memory int64 `json:"memory,omitempty"`
	// SessionTimeout is how long a session lives without its console, in seconds.
	SessionTimeout int `json:"session_timeout,omitempty"`
	// Units bounds the RPCs at once as a client.
	Units int `json:"units,omitempty"`
}

// Limits of LstBounds, those of the configuration.
const (
	LstMemoryMin         = 2 << 20
	LstMemoryMax         = 1 << 40
	LstSessionTimeoutMax = 24 * 3600
	LstUnitsMax          = 1 << 24
)

// LstDisable is the body of POST /v1/lst/disable.
type LstDisable struct {
	// Force ends sessions that there are.
	Force bool `json:"force,omitempty"`
}

// LstStatus is the reply to GET /v1/lst.
type LstStatus struct {
	Enabled bool `json:"enabled"`
	// Bounds are those in force, or, if it is not enabled, as configured.
	// SessionTimeout 0 is for ever.
	Bounds LstBounds `json:"bounds"`
	// Console is the session that this node has as a console, if it has one.
	Console *LstSession `json:"console,omitempty"`
	// Session is the one that this node takes part in, if there is one.
	Session  *LstAgentSession `json:"session,omitempty"`
	Counters LstCounters      `json:"counters"`
}

// LstAgentSession is a session that a node takes part in.
type LstAgentSession struct {
	Name string `json:"name"`
	// Console is its NID, as it has told it.
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
	// Client says that this node sends the requests: with Units, of which Active
	// run, and Latency.
	Client  bool        `json:"client"`
	Units   int         `json:"units,omitempty"`
	Active  int         `json:"active,omitempty"`
	Latency *LstLatency `json:"latency,omitempty"`
}

// LstLatency are the times of RPCs since a test was added, in nanoseconds.
type LstLatency struct {
	Count uint64        `json:"count"`
	Mean  time.Duration `json:"mean"`
	P50   time.Duration `json:"p50"`
	P90   time.Duration `json:"p90"`
	P99   time.Duration `json:"p99"`
	Max   time.Duration `json:"max"`
}

// LstCounters are those of a node's RPCs since it was enabled (selftest 3).
type LstCounters struct {
	Errors   uint32 `json:"errors"`
	Sent     uint32 `json:"sent"`
	Received uint32 `json:"received"`
	Dropped  uint32 `json:"dropped"`
	Expired  uint32 `json:"expired"`
	BulkGet  uint64 `json:"bulk_get"` // bytes fetched as a server
	BulkPut  uint64 `json:"bulk_put"` // bytes sent as a server
}
