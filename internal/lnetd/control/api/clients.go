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
	// ProxySocket is the path that proxies connect to. It is empty if no net is served by proxies.
	ProxySocket string `json:"proxy_socket,omitempty"`
	// Proxies are the proxies that are attached. Unserved are the NIs that have none that can carry traffic.
	Proxies  []ProxyInfo  `json:"proxies,omitempty"`
	Unserved []UnservedNI `json:"unserved,omitempty"`
}

// ProxyInfo describes a proxy: a process that is the driver of an NI.
type ProxyInfo struct {
	Name string   `json:"name"`
	NID  lnet.NID `json:"nid"`
	PID  int32    `json:"pid"`
	UID  uint32   `json:"uid"`
	GID  uint32   `json:"gid"`
	// Rule is the name of the rule that admits the proxy.
	Rule  string    `json:"rule"`
	Since time.Time `json:"since"`
	// Up reports whether the proxy can carry traffic.
	Up bool `json:"up"`
	// LNetPIDs are the PIDs of processes on its network that it serves.
	LNetPIDs []lnet.PID `json:"lnet_pids"`
	// AreaBytes is the size of the memory that lnetd shares with the proxy.
	AreaBytes int `json:"area_bytes"`
	// Sends is the number of messages that the proxy is to send, and Waiting that of those that wait in lnetd
	// for room. Arrivals is the number of messages that it has received and that are not over.
	Sends    int `json:"sends"`
	Waiting  int `json:"waiting"`
	Arrivals int `json:"arrivals"`
	// Sent and Received count messages, the other two the bytes of their payloads. Failed counts the messages
	// that it could not send.
	Sent          uint64 `json:"sent"`
	Received      uint64 `json:"received"`
	SentBytes     uint64 `json:"sent_bytes"`
	ReceivedBytes uint64 `json:"received_bytes"`
	Failed        uint64 `json:"failed"`
}

// UnservedNI is an NI that has no proxy that can carry traffic.
type UnservedNI struct {
	// NI is the NID, or NET(INTERFACE) if the NI waits for its interface. NID is then zero.
	NI  string   `json:"ni"`
	NID lnet.NID `json:"nid,omitzero"`
	// Reason says why, and what to do.
	Reason string `json:"reason"`
}

// ClientInfo describes a client: one connection of a process for which lnetd hosts transfer machines.
type ClientInfo struct {
	ID      uint64 `json:"id"`
	PID     int32  `json:"pid"`
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	Program string `json:"program"`
	Cgroup  string `json:"cgroup"`
	// Rule is the name of the rule that applies to the client. It is empty if no rule permits the
	// client, which is then about to be rejected.
	Rule  string    `json:"rule"`
	Since time.Time `json:"since"`
	// Ending reports whether the process has disconnected while some of its operations are still under
	// way.
	Ending  bool `json:"ending"`
	Buffers int  `json:"buffers"`
	Areas   int  `json:"areas"`
	// Bytes is the total size of the areas. Requests counts the client's control requests.
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
	// Entries is the number of entries of the completion ring. Waiting is the number of those that the
	// client has not read yet. Kept is the number of completions that lnetd keeps because the ring has
	// no room for them.
	Entries int `json:"entries"`
	Waiting int `json:"waiting"`
	Kept    int `json:"kept"`
	// Overflowed counts the completions that were ever kept. Rejected counts operations that were not
	// started because they were invalid.
	Overflowed  uint64 `json:"overflowed"`
	Rejected    uint64 `json:"rejected"`
	Submissions uint64 `json:"submissions"`
	Completions uint64 `json:"completions"`
	// Polls counts how often lnetd polled for operations before it slept, and Found how often that found
	// some. Waits counts how often lnetd slept because the client submitted no operations, WordWaits how
	// many of these sleeps were on the flag of the ring and not at its descriptor, BellReads how often
	// the client woke lnetd, and BellWrites how often lnetd woke the client.
	Polls      uint64 `json:"polls"`
	Found      uint64 `json:"found"`
	Waits      uint64 `json:"waits"`
	WordWaits  uint64 `json:"word_waits"`
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
	// Added counts operations that lnetd has passed to LNet. Cancelled counts those that failed because they were
	// cancelled; Failed includes them.
	Added     uint64 `json:"added"`
	Cancelled uint64 `json:"cancelled"`
	// MaxBytes is the largest number of bytes that one operation or message has transferred.
	MaxBytes uint64 `json:"max_bytes"`
	// Seconds is the total time for which completed operations were under way.
	Seconds float64 `json:"seconds_in_queue"`
}

// ClientDrop is the body of DELETE /v1/clients, which disconnects the client with the ID.
type ClientDrop struct {
	ID uint64 `json:"id"`
}
