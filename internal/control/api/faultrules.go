package api

import (
	"github.com/lnetd/lnetd/lnet"
)

// FaultRules is the reply to GET /v1/faults.
type FaultRules struct {
	Rules []FaultRule `json:"rules"`
}

// FaultRule is a rule by which messages go wrong on purpose, and the body of
// POST /v1/faults (lnetctl 15).
type FaultRule struct {
	// Kind is FaultDrop or FaultDelay.
	Kind string `json:"kind"`
	// Source and Dest are compared with the header, Local with the NI that a
	// message arrives on: a NID, "*@NET" or "*". The first two must be given.
	Source string `json:"source"`
	Dest   string `json:"dest"`
	Local  string `json:"local,omitempty"`
	// Portals restrict a rule to PUTs and GETs of these portals, 0 to 63.
	Portals []int `json:"portals,omitempty"`
	// Messages are "put", "ack", "get" or "reply"; none are all.
	Messages []string `json:"messages,omitempty"`
	// Rate hits one of every so many messages, Interval one in every so many
	// seconds. A rule has one of them.
	Rate     int `json:"rate,omitempty"`
	Interval int `json:"interval,omitempty"`
	// Latency is how many seconds a delay rule holds a message.
	Latency int `json:"latency,omitempty"`
	// Statuses make a drop rule fail sends: "local_dropped" and so on, or
	// "random".
	Statuses []string `json:"statuses,omitempty"`
	Random   bool     `json:"random,omitempty"`
	DropAll  bool     `json:"drop_all,omitempty"`
	// Counts is what a rule has done; nothing to add one with.
	Counts *FaultCounts `json:"counts,omitempty"`
}

// FaultCounts is what a fault rule has done.
type FaultCounts struct {
	Matched uint64 `json:"matched"`
	Hits    uint64 `json:"hits"`
	Put     uint64 `json:"put"`
	Ack     uint64 `json:"ack"`
	Get     uint64 `json:"get"`
	Reply   uint64 `json:"reply"`
}

// FaultDeletion is the body of DELETE /v1/faults: the rules of a kind that have
// these filters, or all of the kind.
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

// PortalMask are the portals of the rule as bits, 0 if it is about all.
func (r *FaultRule) PortalMask() uint64 {
	var m uint64
	for _, p := range r.Portals {
		m |= 1 << p
	}
	return m
}

// MessageMask are the message types of the rule as bits by their numbers, 0 if
// it is about all.
func (r *FaultRule) MessageMask() uint64 {
	var m uint64
	for _, name := range r.Messages {
		if t, err := lnet.ParseMsgType(name); err == nil {
			m |= 1 << t
		}
	}
	return m
}
