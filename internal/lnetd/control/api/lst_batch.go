package api

// LstBRW are the parameters of a BRW test (selftest 5).
type LstBRW struct {
	Write bool `json:"write"`
	// Size and Offset are in bytes and must be multiples of 8. Size is at most 1 MiB. Data of Size
	// bytes at Offset must not extend over more pages than data of Size bytes at offset 0.
	Size   int `json:"size"`
	Offset int `json:"offset,omitempty"`
	// Check is how data are verified: "none", "simple", "full" or "discard".
	Check string `json:"check"`
}

// Kinds of tests.
const (
	LstKindBRW  = "brw"
	LstKindPing = "ping"
)

// LstTest is the body of POST /v1/lst/add_test.
type LstTest struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	From  string `json:"from"` // the group of the clients
	To    string `json:"to"`   // the group of the servers
	// Kind is LstKindBRW or LstKindPing.
	Kind string `json:"kind"`
	// Loop is the number of RPCs that each of the Concurrency units of a client sends one after the
	// other; -1 means that there is no limit.
	Loop        int32 `json:"loop"`
	Concurrency int   `json:"concurrency"`
	// The clients are divided into groups of Distribute clients. Each group sends requests to Span
	// servers.
	Distribute int    `json:"distribute"`
	Span       int    `json:"span"`
	BRW        LstBRW `json:"brw,omitzero"`
}

// LstRun is the body of POST /v1/lst/run.
type LstRun struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	// Timeout is the time in seconds after which the batch stops; 0 means that it does not.
	Timeout int `json:"timeout,omitempty"`
}

// LstStop is the body of POST /v1/lst/stop.
type LstStop struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	// Force aborts the RPCs under way. Without it, each unit finishes its current RPC first.
	Force bool `json:"force,omitempty"`
}

// LstQuery is the body of POST /v1/lst/query.
type LstQuery struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	// Test is the index of the test to query; 0 means all tests of the batch.
	Test int `json:"test,omitempty"`
	// Servers asks to query the servers of the batch instead of its clients.
	Servers bool `json:"servers,omitempty"`
	// Timeout is the maximum time in seconds to wait for the answers of nodes.
	Timeout int `json:"timeout,omitempty"`
}
