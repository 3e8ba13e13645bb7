package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// FaultRules is the reply to GET /v1/faults.
type FaultRules struct {
	Rules []FaultRule `json:"rules"`
}

// FaultRule is a rule that drops, delays or fails messages on purpose. It is the body of POST /v1/faults
// and an item of the reply to GET /v1/faults (lnetctl 15).
type FaultRule struct {
	// Kind is FaultDrop or FaultDelay.
	Kind string `json:"kind"`
	// Source and Dest are compared with the NIDs in the header of a message. Local is compared with
	// the NID of the NI on which a message arrives. Each is a NID, "*@NET" or "*". Source and Dest are
	// required.
	Source string `json:"source"`
	Dest   string `json:"dest"`
	Local  string `json:"local,omitempty"`
	// Portals restrict the rule to PUTs and GETs with these portals, 0 to 63.
	Portals []int `json:"portals,omitempty"`
	// Messages are the types of messages that the rule applies to: "put", "ack", "get" or "reply". If
	// the list is empty, it applies to all types.
	Messages []string `json:"messages,omitempty"`
	// A rule has either Rate or Interval. With Rate, it affects one in Rate matching messages. With
	// Interval, it affects one matching message in each Interval seconds.
	Rate     int `json:"rate,omitempty"`
	Interval int `json:"interval,omitempty"`
	// Latency is how long a delay rule delays a message, in seconds.
	Latency int `json:"latency,omitempty"`
	// Statuses are the health statuses with which messages that a drop rule affects fail, such as
	// "local_dropped", or "random" for any of them.
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

// FaultDeletion is the body of DELETE /v1/faults. It deletes the rules of a kind whose filters are Source
// and Dest or, if All is set, all rules of the kind.
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
