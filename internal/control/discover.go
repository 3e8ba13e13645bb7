package control

import (
	"context"
	"net/http"

	"github.com/lnetd/lnetd/lnet"
)

// DiscoverRequest is the body of POST /v1/discover. The reply is a PingReply.
type DiscoverRequest struct {
	// NIDs are discovered one after the other; 0@lo is the node itself.
	NIDs []string `json:"nids"`
	// Force discovers peers that are up to date too.
	Force bool `json:"force,omitempty"`
}

// Discover has the daemon discover peers and returns one result for each, in
// order.
func (c *Client) Discover(ctx context.Context, r DiscoverRequest) ([]PingResult, error) {
	return c.results(ctx, "/v1/discover", r, len(r.NIDs), PingTimeout)
}

func (h *handlers) discover(w http.ResponseWriter, r *http.Request) (any, *Fault) {
	var req DiscoverRequest
	fault := decode(r.Body, &req)
	if fault == nil {
		fault = checkTargets(req.NIDs)
	}
	nids := make([]lnet.NID, len(req.NIDs))
	for i := 0; fault == nil && i < len(nids); i++ {
		var err error
		if nids[i], err = lnet.ParseNID(req.NIDs[i]); err != nil {
			fault = invalidRequest("cannot parse NID '"+req.NIDs[i]+"'", err)
		}
	}
	if fault != nil {
		return nil, fault
	}
	return h.each(w, r, req.NIDs, PingTimeout, func(ctx context.Context, i int) (PingResult, error) {
		p, err := h.Backend.Discover(ctx, nids[i], req.Force)
		if err != nil {
			return PingResult{}, err
		}
		return discovered(&p), nil
	}, func(target string, err error) *Fault {
		return targetFault(CodeDiscoverFailed, "discover", target, err)
	}), nil
}

// discovered is a peer as the answer of a target: without 0@lo.
func discovered(p *Peer) PingResult {
	res := PingResult{Primary: p.Primary, MultiRail: p.MultiRail, PID: lnet.PIDLustre}
	for i := range p.NIs {
		if nid := p.NIs[i].NID; !nid.IsLoopback() {
			res.NIDs = append(res.NIDs, nid)
		}
	}
	return res
}
