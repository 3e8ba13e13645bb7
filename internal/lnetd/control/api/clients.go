package api

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Clients is the reply to GET /v1/clients.
type Clients struct {
	// Socket is the path that other processes connect to. It is empty if lnetd hosts no clients.
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
	// Rule is the name of the rule that admits the client. It is empty if no rule does; the client
	// is then about to be rejected.
	Rule  string    `json:"rule"`
	Since time.Time `json:"since"`
	// Ending reports whether the process has disconnected while some of its operations are still under
	// way.
	Ending  bool `json:"ending"`
	Buffers int  `json:"buffers"`
	Areas   int  `json:"areas"`
	// Bytes is the total size of the areas. Requests counts control records.
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
	// Entries is the capacity of the completion queue. Waiting entries wait for the client to read
	// them; Reserved entries are set aside for operations under way.
	Entries  int `json:"entries"`
	Waiting  int `json:"waiting"`
	Reserved int `json:"reserved"`
	// Rejected counts operations that did not start.
	Rejected    uint64 `json:"rejected"`
	Submissions uint64 `json:"submissions"`
	Completions uint64 `json:"completions"`
	// Waits counts how often lnetd slept because there were no submissions, BellReads how often it
	// was woken from such a sleep, BellWrites how often it had to wake the client.
	Waits      uint64 `json:"waits"`
	BellReads  uint64 `json:"bell_reads"`
	BellWrites uint64 `json:"bell_writes"`
}

// ClientQueue holds the counters of one queue of a transfer machine.
type ClientQueue struct {
	Queue string `json:"queue"`
	// Depth is the number of operations under way.
	Depth     int    `json:"depth"`
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	Bytes     uint64 `json:"bytes"`
	// Added counts operations handed to LNet. Cancelled counts the failed operations that were
	// cancelled.
	Added     uint64 `json:"added"`
	Cancelled uint64 `json:"cancelled"`
	// MaxBytes is the largest number of bytes that one operation or message has transferred.
	MaxBytes uint64 `json:"max_bytes"`
	// Seconds is the total time that completed operations were under way.
	Seconds float64 `json:"seconds_in_queue"`
}

// ClientDrop is the body of DELETE /v1/clients.
type ClientDrop struct {
	ID uint64 `json:"id"`
}
