package report

import (
	"github.com/lnetd/lnetd/selftest/latency"
	"github.com/lnetd/lnetd/selftest/message"
)

// Sample has the counters of nodes at one time.
type Sample struct {
	Targets []TargetSample `json:"targets"`
}

// TargetSample is the sample of a group or of a list of NIDs.
type TargetSample struct {
	Name  string       `json:"name"`
	Nodes []NodeSample `json:"nodes"`
	// Failed is the number of nodes without counters.
	Failed int `json:"failed"`
}

// NodeSample is the sample of a node. The counters are valid only if Success is set.
type NodeSample struct {
	NodeResult
	Framework message.FrameworkCounters `json:"framework"`
	RPCs      message.RPCCounters       `json:"rpcs"`
	LNet      message.LNetCounters      `json:"lnet"`
	// Latency has the RPC times of the node's clients. It is nil if they are unknown.
	Latency *latency.Histogram `json:"latency,omitempty"`
}
