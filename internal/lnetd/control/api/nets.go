package api

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Nets is the reply to GET /v1/nets.
type Nets struct {
	Nets []Net `json:"nets"`
	// Waiting are the NIs that are not up because their interface is not usable yet. If a net has only
	// such NIs, it is not in Nets.
	Waiting []WaitingNI `json:"waiting,omitempty"`
}

// Net is one net of the node with its local NIs in the order of creation.
type Net struct {
	Net lnet.Net `json:"net"`
	NIs []NI     `json:"nis"`
}

// NI holds everything that "net show -v 4" prints about one local NI (lnetctl 5.1).
type NI struct {
	NID        lnet.NID      `json:"nid"`
	Status     string        `json:"status"`                  // "up" or "down"
	Reason     string        `json:"status_reason,omitempty"` // why it is down
	Since      time.Time     `json:"status_since,omitzero"`   // when it was added, or its status last changed
	Interfaces []string      `json:"interfaces,omitempty"`
	Statistics Statistics    `json:"statistics"`
	UDSP       UDSPInfo      `json:"udsp_info"`
	Sent       MessageCounts `json:"sent_stats"`
	Received   MessageCounts `json:"received_stats"`
	Dropped    MessageCounts `json:"dropped_stats"`
	Health     HealthStats   `json:"health_stats"`
	Tunables   Tunables      `json:"tunables"`
	// LND are the driver's tunables in the order in which lnetctl prints them. It is empty for 0@lo.
	LND []Tunable `json:"lnd_tunables,omitempty"`
	// Counters are the driver's counters, for programs. lnetctl does not print them.
	Counters []Counter `json:"lnd_counters,omitempty"`
	DevCPT   int       `json:"dev_cpt"` // -1 if the device belongs to no CPU partition
	// Proxy is the name of the proxies that may serve the NI, for an NI whose driver is in another process. It
	// is empty if all proxies may.
	Proxy string `json:"proxy,omitempty"`
	CPT   string `json:"cpt"` // the CPU partitions of the NI, such as "[0,1]"
}

// Statistics holds an NI's message totals and latencies.
type Statistics struct {
	Sent      uint64  `json:"send_count"`
	Received  uint64  `json:"recv_count"`
	Dropped   uint64  `json:"drop_count"`
	PutEgress Latency `json:"put_egress"` // from the call until a PUT was sent
	GetRTT    Latency `json:"get_rtt"`    // from a GET until its REPLY
	PutAck    Latency `json:"put_ack"`    // from a PUT until its ACK
}

// Latency summarizes latency samples. All fields are 0 if there are no samples.
type Latency struct {
	Samples uint64 `json:"samples"`
	Min     uint64 `json:"min_nsec"`
	Max     uint64 `json:"max_nsec"`
	Avg     uint64 `json:"avg_nsec"`
}

// UDSPInfo describes the effect of selection policies (UDSP) on an NI or a peer NI. A priority of -1 means
// that no policy sets it.
type UDSPInfo struct {
	NetPriority       int        `json:"net_priority"`
	NIDPriority       int        `json:"nid_priority"`
	PreferredGateways []lnet.NID `json:"preferred_gateways,omitempty"`
	PreferredSources  []lnet.NID `json:"preferred_sources,omitempty"`
}

// MessageCounts counts messages by type.
type MessageCounts struct {
	Put   uint64 `json:"put"`
	Get   uint64 `json:"get"`
	Reply uint64 `json:"reply"`
	Ack   uint64 `json:"ack"`
	Hello uint64 `json:"hello"`
}

// HealthStats holds the health of an NI, and counters of the events that reduced it.
type HealthStats struct {
	FatalError int    `json:"fatal_error"`  // 0 or 1
	Value      int    `json:"health_value"` // 0 to 1000
	Interrupts uint64 `json:"interrupts"`
	Dropped    uint64 `json:"dropped"`
	Aborted    uint64 `json:"aborted"`
	NoRoute    uint64 `json:"no_route"`
	Timeouts   uint64 `json:"timeouts"`
	Errors     uint64 `json:"error"`
	PingCount  uint64 `json:"ping_count"`
	NextPing   int64  `json:"next_ping"` // seconds since boot, 0 if no ping is due
}

// Tunables are the flow-control tunables in force on an NI.
type Tunables struct {
	PeerTimeout       int `json:"peer_timeout"` // seconds
	PeerCredits       int `json:"peer_credits"`
	PeerBufferCredits int `json:"peer_buffer_credits"`
	Credits           int `json:"credits"`
}

// Tunable is a tunable of a driver, with the name that the driver gives it. If Truth is set, it is a boolean:
// Value is 1 or 0, for which documents have true or false.
type Tunable struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
	Truth bool   `json:"truth,omitempty"`
}

// Counter is a counter of a driver, with the name that the driver gives it. Counters whose names end in
// "_total" never decrease.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}
