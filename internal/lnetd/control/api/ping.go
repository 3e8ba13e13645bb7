package api

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Limits and defaults of POST /v1/ping and POST /v1/discover.
const (
	// PingTargetsMax is the maximum number of targets of one request.
	PingTargetsMax = 1024
	// PingsAtOnce is the maximum number of targets of one request that are pinged at the same time.
	PingsAtOnce = 32
	// PingTimeout is the default timeout of each target.
	PingTimeout = 180 * time.Second
	// PingTimeoutMax is the largest timeout that a request may set.
	PingTimeoutMax = time.Hour
)

// PingRequest is the body of POST /v1/ping.
type PingRequest struct {
	// NIDs are pinged PingsAtOnce at a time. Each is a NID, or a process ID such as
	// "12345-10.0.0.1@tcp".
	NIDs []string `json:"nids,omitempty"`
	// Source is the local NID to ping from; if it is empty, lnetd chooses it.
	Source string `json:"source,omitempty"`
	// Timeout is the timeout of each target in seconds; 0 means PingTimeout.
	Timeout float64 `json:"timeout,omitempty"`
}

// PingReply is the reply to POST /v1/ping and POST /v1/discover. It has one result for each target, in the
// order of the request.
type PingReply struct {
	Results []PingResult `json:"results"`
}

// PingResult is the result of a ping or discovery of one target: either Error or the other fields
// are set.
type PingResult struct {
	// Target is the target as the request has it.
	Target string `json:"target"`
	// Primary is the primary NID of the target in lnetd's data. If lnetd has not discovered the target,
	// it is the NID that was pinged.
	Primary   lnet.NID `json:"primary_nid,omitzero"`
	MultiRail bool     `json:"multi_rail"`
	// PID is the process ID of the process that answered.
	PID lnet.PID `json:"pid,omitempty"`
	// RTT is the time in nanoseconds from the ping until the answer. It includes the time to connect, if there was
	// no connection. It is not set for a discovery.
	RTT int64 `json:"rtt_nsec,omitempty"`
	// NIDs are the NIDs that the target has reported, without 0@lo.
	NIDs []lnet.NID `json:"nids,omitempty"`
	// Sender is the neighbour from which the answer to a ping arrived: the target, or the gateway through which
	// the target has answered.
	Sender lnet.NID `json:"sender,omitzero"`
	Error  *Fault   `json:"error,omitempty"`
}

// Patience returns the timeout of each target: Timeout, limited to PingTimeoutMax, or the default.
func (r *PingRequest) Patience() time.Duration {
	if r.Timeout <= 0 {
		return PingTimeout
	}
	return time.Duration(min(r.Timeout, PingTimeoutMax.Seconds()) * float64(time.Second))
}
