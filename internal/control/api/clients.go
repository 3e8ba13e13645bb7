package api

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Clients is the reply to GET /v1/clients.
type Clients struct {
	// Socket is where other processes connect; empty: nowhere.
	Socket  string       `json:"socket"`
	Clients []ClientInfo `json:"clients"`
}

// ClientInfo is a process for which lnetd hosts transfer machines: one connection.
type ClientInfo struct {
	ID      uint64 `json:"id"`
	PID     int32  `json:"pid"`
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	Program string `json:"program"`
	Cgroup  string `json:"cgroup"`
	// Rule is the name of the rule that holds; empty: none, it is to be refused.
	Rule  string    `json:"rule"`
	Since time.Time `json:"since"`
	// Ending says that it is gone, and operations of its have not ended yet.
	Ending  bool `json:"ending"`
	Buffers int  `json:"buffers"`
	Areas   int  `json:"areas"`
	// Bytes is the size of the areas, Requests counts control records.
	Bytes    int64      `json:"bytes"`
	Requests uint64     `json:"requests"`
	TMs      []ClientTM `json:"tms"`
}

// ClientTM is a transfer machine of a client.
type ClientTM struct {
	NID    lnet.NID      `json:"nid"`
	PID    uint32        `json:"pid"`
	Portal uint32        `json:"portal"`
	ID     uint16        `json:"id"`
	Queues []ClientQueue `json:"queues"`
	// Entries is how many completions there is room for; of them Waiting wait for the
	// client, and Reserved are for operations under way.
	Entries  int `json:"entries"`
	Waiting  int `json:"waiting"`
	Reserved int `json:"reserved"`
	// Rejected counts operations that did not begin.
	Rejected    uint64 `json:"rejected"`
	Submissions uint64 `json:"submissions"`
	Completions uint64 `json:"completions"`
	// Waits is how often lnetd went to sleep for want of submissions, BellReads how often
	// it was woken then, BellWrites how often it had to wake the client.
	Waits      uint64 `json:"waits"`
	BellReads  uint64 `json:"bell_reads"`
	BellWrites uint64 `json:"bell_writes"`
}

// ClientQueue are the figures of a queue of a transfer machine.
type ClientQueue struct {
	Queue string `json:"queue"`
	// Depth is how many operations are under way.
	Depth     int    `json:"depth"`
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	Bytes     uint64 `json:"bytes"`
	// Added counts operations that were handed to LNet, Cancelled those of the failed that were cancelled.
	Added     uint64 `json:"added"`
	Cancelled uint64 `json:"cancelled"`
	// MaxBytes is the most that one operation, or message, has moved.
	MaxBytes uint64 `json:"max_bytes"`
	// Seconds is how long the operations that have ended were under way, all together.
	Seconds float64 `json:"seconds_in_queue"`
}

// ClientDrop is the body of DELETE /v1/clients.
type ClientDrop struct {
	ID uint64 `json:"id"`
}
