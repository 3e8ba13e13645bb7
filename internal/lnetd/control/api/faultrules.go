package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// FaultRules is the reply to GET /v1/faults.
type FaultRules struct {
	Rules []FaultRule `json:"rules"`
}

// FaultRule is a rule that drops, delays or fails messages on purpose, and the body of POST
// /v1/faults (lnetctl 15).
type FaultRule struct {
	// Kind is FaultDrop or FaultDelay.
	Kind string `json:"kind"`
	// Source and Dest match the header of a message. Local matches the NI that a message arrives
	// on. Each is a NID, "*@NET" or "*". Source and Dest are required.
	Source string `json:"source"`
	Dest   string `json:"dest"`
	Local  string `json:"local,omitempty"`
	// Portals restrict the rule to PUTs and GETs with these portals, 0 to 63.
	Portals []int `json:"portals,omitempty"`
	// Messages are the message types, "put", "ack", "get" or "reply". An empty list matches all.
	Messages []string `json:"messages,omitempty"`
	// Rate hits one in Rate messages, Interval hits one message in each Interval seconds. A rule
	// has exactly one of them.
	Rate     int `json:"rate,omitempty"`
	Interval int `json:"interval,omitempty"`
	// Latency is how long a delay rule holds a message, in seconds.
	Latency int `json:"latency,omitempty"`
	// Statuses are the health statuses with which a drop rule fails sends, such as "local_dropped",
	// or "random".
	Statuses []string `json:"statuses,omitempty"`
	Random   bool     `json:"random,omitempty"`
	DropAll  bool     `json:"drop_all,omitempty"`
	// Counts are the rule's counters. It is nil when a rule is added.
	Counts *FaultCounts `json:"counts,omitempty"`
}

// FaultCounts are the counters of a fault rule.
type FaultCounts struct {
	Matched uint64 `json:"matched"`
	Hits    uint64 `json:"hits"`
	Put     uint64 `json:"put"`
	Ack     uint64 `json:"ack"`
	Get     uint64 `json:"get"`
	Reply   uint64 `json:"reply"`
}

// FaultDeletion is the body of DELETE /v1/faults. It deletes the rules of a kind that match the
// filters, or all rules of the kind.
type FaultDeletion struct {
	Kind   string `json:"kind"`
	Source string `json:"source,omitempty"`
	Dest   string `json:"dest,omitempty"`
	All    bool   `json:"all,omitempty"`
}

// Kinds of fault rules.
const (
	FaultDrop  = "drop"
	FaultDelay = "delay"
)

// PortalMask returns the rule's portals as a bit mask, 0 if it matches all portals.
func (r *FaultRule) PortalMask() uint64 {
	var m uint64
	for _, p := range r.Portals {
		m |= 1 << p
	}
	return m
}

// MessageMask returns the rule's message types as a bit mask of their numbers, 0 if it matches all
// types.
func (r *FaultRule) MessageMask() uint64 {
	var m uint64
	for _, name := range r.Messages {
		if t, err := lnet.ParseMsgType(name); err == nil {
			m |= 1 << t
		}
	}
	return m
}
