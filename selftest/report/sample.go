package report

import (
	"github.com/lnetd/lnetd/selftest/latency"
	"github.com/lnetd/lnetd/selftest/message"
)

// Sample contains the counters of nodes at one time.
type Sample struct {
	Targets []TargetSample `json:"targets"`
}

// TargetSample contains the counters of the nodes of one target: a group or a list of NIDs.
type TargetSample struct {
	Name  string       `json:"name"`
	Nodes []NodeSample `json:"nodes"`
	// Failed is the number of nodes that did not provide counters.
	Failed int `json:"failed"`
}

// NodeSample contains the counters of one node. They are valid only if Success is set.
type NodeSample struct {
	NodeResult
	Framework message.FrameworkCounters `json:"framework"`
	RPCs      message.RPCCounters       `json:"rpcs"`
	LNet      message.LNetCounters      `json:"lnet"`
	// Latency contains the RPC durations of the node's client tests. It is nil if they are unknown.
	Latency *latency.Histogram `json:"latency,omitempty"`
}
