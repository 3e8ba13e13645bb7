package api

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Limits and defaults of POST /v1/ping and POST /v1/discover.
const (
	// PingTargetsMax bounds the targets of one request.
	PingTargetsMax = 1024
	// PingTimeout is the wait for each target if the request names none.
	PingTimeout = 180 * time.Second
	// PingTimeoutMax bounds the wait that a request may ask for.
	PingTimeoutMax = time.Hour
)

// PingRequest is the body of POST /v1/ping.
type PingRequest struct {
	// NIDs are pinged one after the other. Each is a NID, or a process ID
	// such as "12345-10.0.0.1@tcp".
	NIDs []string `json:"nids,omitempty"`
	// Source is the local NID that the pings leave from; empty: any.
	Source string `json:"source,omitempty"`
	// Timeout bounds the wait for each target, in seconds; 0: PingTimeout.
	Timeout float64 `json:"timeout,omitempty"`
}

// PingReply is the reply to POST /v1/ping and POST /v1/discover: one result per
// target, in order.
type PingReply struct {
	Results []PingResult `json:"results"`
}

// PingResult is what came of one target of a ping or a discovery: either Error
// or the rest.
type PingResult struct {
	// Target repeats the target as it was asked for.
	Target string `json:"target"`
	// Primary is the target's primary NID as far as this node knows; without
	// discovery that is the NID that was pinged.
	Primary   lnet.NID `json:"primary_nid,omitzero"`
	MultiRail bool     `json:"multi_rail"`
	// PID is the process ID that answered.
	PID lnet.PID `json:"pid,omitempty"`
	// NIDs are the target's NIDs as it told them, without 0@lo.
	NIDs  []lnet.NID `json:"nids,omitempty"`
	Error *Fault     `json:"error,omitempty"`
}

// Patience is the wait for each target.
func (r *PingRequest) Patience() time.Duration {
	if r.Timeout <= 0 {
		return PingTimeout
	}
	return time.Duration(min(r.Timeout, PingTimeoutMax.Seconds()) * float64(time.Second))
}
