package report

import (
	"github.com/lnetd/lnetd/selftest/latency"
	"github.com/lnetd/lnetd/selftest/message"
)

// Sample is the counters of nodes at one time.
type Sample struct {
	Targets []TargetSample `json:"targets"`
}

// TargetSample is the sample of a group, or of a list of NIDs.
type TargetSample struct {
	Name  string       `json:"name"`
	Nodes []NodeSample `json:"nodes"`
	// Failed nodes have no counters.
	Failed int `json:"failed"`
}

// NodeSample is the sample of a node; without Success the counters mean nothing.
type NodeSample struct {
	NodeResult
	Framework message.FrameworkCounters `json:"framework"`
	RPCs      message.RPCCounters       `json:"rpcs"`
	LNet      message.LNetCounters      `json:"lnet"`
	// Latency are the times of RPCs of the node's clients; nil: nobody knows.
	Latency *latency.Histogram `json:"latency,omitempty"`
}
