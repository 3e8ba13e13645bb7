package control

import (
	"context"
	"fmt"
	"net/http"
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
	NIDs []string `json:"nids"`
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

// Ping has the daemon ping nodes and returns one result for each, in order.
func (c *Client) Ping(ctx context.Context, r PingRequest) ([]PingResult, error) {
	return c.results(ctx, "/v1/ping", r, len(r.NIDs), r.Patience())
}

// results asks for something about n targets, each of which may take some time.
func (c *Client) results(ctx context.Context, path string, request any, n int, each time.Duration) ([]PingResult, error) {
	var p PingReply
	err := c.call(ctx, TargetsPatience(n, each), http.MethodPost, path, request, &p)
	if err == nil && len(p.Results) != n {
		err = c.garbled(fmt.Errorf("%d results for %d targets", len(p.Results), n))
	}
	return p.Results, err
}

func (h *handlers) ping(w http.ResponseWriter, r *http.Request) (any, *Fault) {
	var req PingRequest
	if fault := decode(r.Body, &req); fault != nil {
		return nil, fault
	}
	targets, source, fault := parsePing(&req)
	if fault != nil {
		return nil, fault
	}
	return h.each(w, r, req.NIDs, req.Patience(), func(ctx context.Context, i int) (PingResult, error) {
		return h.Backend.Ping(ctx, targets[i], source)
	}, func(target string, err error) *Fault {
		return targetFault(CodePingFailed, "ping", target, err)
	}), nil
}

// parsePing checks the request.
func parsePing(r *PingRequest) (targets []lnet.ProcessID, source lnet.NID, _ *Fault) {
	if fault := checkTargets(r.NIDs); fault != nil {
		return nil, source, fault
	}
	for _, s := range r.NIDs {
		id, err := lnet.ParseProcessID(s)
		if err != nil {
			return nil, source, invalidRequest("cannot parse NID '"+s+"'", err)
		}
		targets = append(targets, id)
	}
	if r.Source != "" {
		var err error
		if source, err = lnet.ParseNID(r.Source); err != nil {
			return nil, source, invalidRequest("cannot parse source NID '"+r.Source+"'", err)
		}
	}
	return targets, source, nil
}

// Patience is the wait for each target.
func (r *PingRequest) Patience() time.Duration {
	if r.Timeout <= 0 {
		return PingTimeout
	}
	return time.Duration(min(r.Timeout, PingTimeoutMax.Seconds()) * float64(time.Second))
}
