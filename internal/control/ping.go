package control

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// Ping has the daemon ping nodes and returns one result for each, in order.
func (c *Client) Ping(ctx context.Context, r api.PingRequest) ([]api.PingResult, error) {
	return c.results(ctx, "/v1/ping", r, len(r.NIDs), r.Patience())
}

// results asks for something about n targets, each of which may take some time.
func (c *Client) results(ctx context.Context, path string, request any, n int, each time.Duration) ([]api.PingResult, error) {
	var p api.PingReply
	err := c.call(ctx, api.TargetsPatience(n, each), http.MethodPost, path, request, &p)
	if err == nil && len(p.Results) != n {
		err = c.garbled(fmt.Errorf("%d results for %d targets", len(p.Results), n))
	}
	return p.Results, err
}

func (h *handlers) ping(w http.ResponseWriter, r *http.Request) (any, *api.Fault) {
	var req api.PingRequest
	if fault := decode(r.Body, &req); fault != nil {
		return nil, fault
	}
	targets, source, fault := parsePing(&req)
	if fault != nil {
		return nil, fault
	}
	return h.each(w, r, req.NIDs, req.Patience(), func(ctx context.Context, i int) (api.PingResult, error) {
		return h.Backend.Ping(ctx, targets[i], source)
	}, func(target string, err error) *api.Fault {
		return targetFault(api.CodePingFailed, "ping", target, err)
	}), nil
}

// parsePing checks the request.
func parsePing(r *api.PingRequest) (targets []lnet.ProcessID, source lnet.NID, _ *api.Fault) {
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
