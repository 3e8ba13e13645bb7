package api

// LstBRW are the parameters of a BRW test (selftest 5).
type LstBRW struct {
	Write bool `json:"write"`
	// Size and Offset are bytes: multiples of 8, Size up to 1 MiB, and no longer
	// with the offset than as many pages as it takes without.
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
	To    string `json:"to"`   // that of the servers
	// Kind is LstKindBRW or LstKindPing.
	Kind string `json:"kind"`
	// Loop is how many RPCs each unit makes; -1: without end.
	Loop        int32 `json:"loop"`
	Concurrency int   `json:"concurrency"`
	// Distribute clients share Span servers.
	Distribute int    `json:"distribute"`
	Span       int    `json:"span"`
	BRW        LstBRW `json:"brw,omitzero"`
}

// LstRun is the body of POST /v1/lst/run.
type LstRun struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	// Timeout stops the batch after so many seconds; 0: nothing does.
	Timeout int `json:"timeout,omitempty"`
}

// LstStop is the body of POST /v1/lst/stop.
type LstStop struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	// Force aborts the RPCs under way; else units stop after theirs.
	Force bool `json:"force,omitempty"`
}

// LstQuery is the body of POST /v1/lst/query.
type LstQuery struct {
	Key   LstKey `json:"key"`
	Batch string `json:"batch"`
	// Test is the index of the test that is asked about; 0: the batch.
	Test int `json:"test,omitempty"`
	// Servers asks them in place of the clients.
	Servers bool `json:"servers,omitempty"`
	// Timeout bounds the wait, in seconds.
	Timeout int `json:"timeout,omitempty"`
}
