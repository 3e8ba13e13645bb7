package api

// LstBRW are the parameters of a BRW test (selftest 5).
type LstBRW struct {
	Write bool `json:"write"`
	// Size and Offset are in bytes and multiples of 8. Size is at most 1 MiB. Size plus Offset must
	// not need more pages than Size alone.
	Size   int `json:"size"`
	Offset int `json:"offset,omitempty"`
	// Check is none, simple, full or discard.
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
	// Loop is the number of RPCs of each unit; -1 means no limit.
	Loop        int32 `json:"loop"`
	Concurrency int   `json:"concurrency"`
	// Each group of Distribute clients uses Span servers.
	Distribute int    `json:"distribute"`
	Span       int    `json:"span"`
	BRW        LstBRW `json:"brw,omitzero"`
}

// LstRun is the body of POST /v1/lst/run.
type LstRun struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	// Timeout stops the batch after this many seconds; 0 means never.
	Timeout int `json:"timeout,omitempty"`
}

// LstStop is the body of POST /v1/lst/stop.
type LstStop struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	// Force aborts the RPCs under way. Otherwise each unit stops after its current RPC.
	Force bool `json:"force,omitempty"`
}

// LstQuery is the body of POST /v1/lst/query.
type LstQuery struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	// Test is the index of the test to query; 0 queries the whole batch.
	Test int `json:"test,omitempty"`
	// Servers queries the servers instead of the clients.
	Servers bool `json:"servers,omitempty"`
	// Timeout is the maximum wait in seconds.
	Timeout int `json:"timeout,omitempty"`
}
